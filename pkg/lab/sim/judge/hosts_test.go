// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckOrphans(t *testing.T) {
	gone := func(r *Recording, launched bool, faults ...schedule.Fault) {
		r.Schedule.Faults = faults
		r.Clones = append(r.Clones, Cloned{
			Of: "host-1", Host: "host-1-clone", From: moment(10), To: moment(40),
			Left: []hypervisor.Machine{{Instance: "vm", Attempt: 1, Launched: launched}},
		})
	}
	sees(t, checkOrphans, map[string]func(*Recording){
		"host-1-clone launched attempt 1 of vm": func(r *Recording) { gone(r, true) },
		"right: it is only prepared":            func(r *Recording) { gone(r, false) },
		"right: its host stood still": func(r *Recording) {
			gone(r, true, schedule.Fault{Kind: schedule.FaultPause, Who: "host-1", At: 5, For: 9})
		},
		"right: the power of its host is off until it is known to be dead": func(r *Recording) {
			gone(r, true, schedule.Fault{Kind: schedule.FaultPower, Who: "host-1", At: 5, For: 0.5, Dead: "fence"})
		},
		"host-1-clone launched attempt 1 of vm, and it is left": func(r *Recording) {
			gone(r, true, schedule.Fault{Kind: schedule.FaultPause, Who: "host-1", At: 5, For: 4},
				schedule.Fault{Kind: schedule.FaultPause, Who: "host-2", At: 5, For: 30})
		},
	})
}
