// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A placeholder is on one host, by a grant, and no longer than its record says, but that a loss of power does not end it.
func TestPlaceholdersAreOnOneHost(t *testing.T) {
	held := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			placeholder(r)
			r.Log[len(r.Log)-1].Instance.Project = schedule.Reserving
			change(r)
		}
	}
	twice := func(r *Recording) {
		r.Machines = append(r.Machines, fake.Event{
			At: moment(30), Kind: fake.Launched, Host: "host-2", Instance: madeID, Attempt: 2,
		})
	}
	power := func(r *Recording) {
		r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultPower, Who: "host-1"}}
	}
	once := func(r *Recording) []Violation {
		return slices.DeleteFunc(r.Judge(), func(v Violation) bool { return v.Rule != "I2" })
	}
	sees(t, once, map[string]func(*Recording){
		"right: it is held": held(func(*Recording) {}),
		"host-1 launches attempt 1 claim c2 without a grant": held(func(r *Recording) { r.Launches[0].Claim = "c2"; power(r) }),
		"attempt 1 runs on host-1 from 4.000s":               held(func(r *Recording) { becomes(r, 20, compute.StateQueued) }),
		"runs on 2 hosts at once":                            held(twice),
		"right: it outlived a loss of power":                 held(func(r *Recording) { becomes(r, 20, compute.StateQueued); power(r) }),
		"right: it outlived that of a host that had something": held(func(r *Recording) {
			becomes(r, 20, compute.StateQueued)
			power(r)
			r.Schedule.Faults[0].Who = ""
		}),
		"right: it outlived a loss of power, and is held elsewhere": held(func(r *Recording) { twice(r); power(r) }),
	})
}
