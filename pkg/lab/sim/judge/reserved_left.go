// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// leftOver finds what never ran and ends with its placeholder, while by the records before it another one of the same
// reservation is free and that has time left.
func (r *Recording) leftOver() (wrong []Violation) {
	last := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		if w.Removed || i.Project != schedule.Reserving {
			continue
		}
		last[i.ID] = i
		if old.State != compute.StateQueued || i.Boot.In().ID == "" || i.State != compute.StateError ||
			i.Reason == nil || i.Reason.Code != compute.ReservationEnded {
			continue
		}
		for _, p := range last {
			of := p.Boot.Placeholder()
			if p.HoldsRoom() && of.Of == i.Boot.Reservation() && of.Taker == "" && of.Until.After(i.EndedAt) {
				wrong = append(wrong, broken("reserved", i.ID, w.Seen, "%s ends with its placeholder, and %s is free",
					i.Boot.Name, p.Boot.Name)...)
				break
			}
		}
	}
	return wrong
}
