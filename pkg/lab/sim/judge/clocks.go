// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// checkClocks: whatever clocks show, nothing ends before it was to, by the right time; and what
// the log says of when something was asked for is when it was.
func checkClocks(r *Recording) (wrong []Violation) {
	asked, last := r.wanted(), map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		last[i.ID] = i
		x, ok := asked[i.Boot.Name]
		if w.Removed || !ok {
			continue
		}
		if what := early(old, w, x); what != "" {
			wrong = append(wrong, broken("clock", i.ID, w.Seen, "%s, which was asked for at %s, ended by its %s at %s",
				i.Boot.Name, r.At(x.Began), what, r.At(w.Seen))...)
		}
		late := w.Seen.Add(schedule.DriftedMost)
		if at := i.AcceptedAt; old.Version == 0 && !at.IsZero() &&
			(at.Before(x.Began.Add(-schedule.DriftedMost)) || at.After(late)) {
			wrong = append(
				wrong,
				broken("clock", i.ID, w.Seen, "%s is said to be accepted at %s, and was asked for at %s",
					i.Boot.Name, r.At(at), r.At(x.Began))...)
		}
		if at := i.ChangedAt; at.After(late) || at.Before(x.Began.Add(-schedule.DriftedMost)) {
			wrong = append(
				wrong,
				broken("clock", i.ID, w.Seen, "%s is said to have changed at %s, and that was seen at %s",
					i.Boot.Name, r.At(at), r.At(w.Seen))...)
		}
	}
	return wrong
}

// early says by what something ended before its time; empty: it did not.
func early(old compute.Instance, w Written, x Wanted) string {
	i := w.Instance
	if i.State != compute.StateError || old.State != compute.StateQueued || i.Reason == nil {
		return ""
	}
	switch waited := w.Seen.Sub(x.Began) + schedule.DriftedMost; i.Reason.Code {
	case compute.DeadlineExceeded:
		if waited < x.Boot.Deadline {
			return "deadline"
		}
	case compute.WaitingForCapacity, compute.NoEligibleHost, compute.NeverFits:
		if waited < unclaimedFor {
			return "time without a host"
		}
	}
	return ""
}
