// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckInTime(t *testing.T) {
	late := func(r *Recording) { r.endsAt(65.5, compute.Reason{Code: compute.DeadlineExceeded}) }
	waits := func(r *Recording, end schedule.Seconds) { // unclaimed, and it does not want to wait
		r.Asks[0].Load.Boot.OnNoCapacity = compute.FailAtOnce
		r.endsAt(end, compute.Reason{Code: compute.WaitingForCapacity})
	}
	sees(t, checkInTime, map[string]func(*Recording){
		"vm-1 waits until 65.500s, and its deadline was over at 61.050s": late,
		"right: no conductor decides": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
			late(r)
		},
		"vm-1 waits until 65.500s": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultForge, Who: schedule.Stranger, For: 20}}
			late(r)
		},
		"right: a conductor reads one by one what a stranger writes": func(r *Recording) {
			r.Schedule.World.Sips = true
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultForge, Who: schedule.Stranger, For: 20}}
			late(r)
		},
		"right: or lies about": func(r *Recording) {
			r.Schedule.World.Sips = true
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultLie, Who: schedule.Stranger, For: 20}}
			late(r)
		},
		"ended by its deadline after 59s, and had 1m0s": func(r *Recording) {
			r.endsAt(60, compute.Reason{Code: compute.DeadlineExceeded})
		},
		"right: ended at its deadline": func(r *Recording) {
			r.endsAt(61.05, compute.Reason{Code: compute.DeadlineExceeded})
		},
		"right: the log tells only the millisecond in which it was asked for": func(r *Recording) {
			r.Asks[0].Began = r.Asks[0].Began.Add(time.Millisecond - 1)
			r.endsAt(61, compute.Reason{Code: compute.DeadlineExceeded})
		},
		"ended without a host after 9s":                   func(r *Recording) { waits(r, 11) },
		"right: unclaimed for ten seconds":                func(r *Recording) { waits(r, 12) },
		"and its time without a host was over at 12.000s": func(r *Recording) { waits(r, 15.5) },
		"right: turns may be too large, so that it is offered for its time anew": func(r *Recording) {
			r.Schedule.World.TurnBytes = 1000
			waits(r, 15.5)
		},
		"vm-1 waits until 65.500s, and its deadline": func(r *Recording) {
			r.Schedule.World.TurnBytes = 1000
			late(r)
		},
		"right: it comes back behind its deadline": func(r *Recording) {
			i := r.Log[0].Instance
			i.Attempt = 2
			r.logged(80, i)
			i.State, i.Reason = compute.StateError, &compute.Reason{Code: compute.DeadlineExceeded}
			r.logged(81, i)
		},
		"vm-1 waits until 120.000s": func(r *Recording) { r.Log = r.Log[:1] },
	})
}
