// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// asks adds what somebody asks for about vm-1, and is told after a tenth of a second; why is
// nil if the answer is yes.
func (r *Recording) asks(at schedule.Seconds, l schedule.Load, why *compute.Error) {
	a := Ask{Load: l, ID: madeID, Began: moment(at), Answered: moment(at + 0.1), OK: why == nil, Why: why}
	if a.Name = "vm-1"; why != nil {
		a.Err = why.Error()
	}
	r.Asks = append(r.Asks, a)
}

// refused adds a record that is the first of an instance.
func (r *Recording) refused(at schedule.Seconds, i compute.Instance) {
	i.Version, i.ChangedAt = 1, moment(at)
	r.Log = append(r.Log, Written{Offset: int64(len(r.Log)), Seen: moment(at), Instance: i})
}
