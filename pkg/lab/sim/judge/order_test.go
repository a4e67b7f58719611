// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckOrder(t *testing.T) {
	comes := func(r *Recording, at schedule.Seconds, name string) {
		r.Builds = append(
			r.Builds,
			Published{
				moment(at),
				compute.Build{Instance: compute.InstanceID(name), Name: name, Attempt: 1, Queue: "m1.small"},
			},
		)
	}
	begins := func(r *Recording, at schedule.Seconds, name string) {
		r.Given = append(
			r.Given,
			Given{moment(at), "host-1", hypervisor.Spec{Instance: compute.InstanceID(name), Attempt: 1}},
		)
	}
	two := func(early schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			comes(r, 10, "vm-8")
			comes(r, 11, "vm-9")
			begins(r, 20, "vm-9")
			begins(r, early, "vm-8")
		}
	}
	sees(t, checkOrder, map[string]func(*Recording){
		"vm-8 came into m1.small at 10.000s and waits until 40.000s, and vm-9, which came at 11.000s, " +
			"was begun with at 20.000s": two(40),
		"right: soon after it": two(25),
		"right: before it":     two(15),
		"right: something is wrong": func(r *Recording) {
			two(40)(r)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "host-1"}}
		},
		"right: it was deleted": func(r *Recording) {
			two(40)(r)
			r.logged(22, compute.Instance{ID: "vm-8", State: compute.StateDeleted})
		},
		"right: a host is held back": func(r *Recording) {
			two(40)(r)
			r.Schedule.Load = append(r.Schedule.Load, schedule.Load{Op: schedule.LoadHost})
		},
		"right: it avoids a host": func(r *Recording) {
			two(40)(r)
			r.Builds[len(r.Builds)-2].Avoid = []compute.HostID{"host-2"}
		},
	})
}
