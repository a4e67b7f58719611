// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckQuarantine(t *testing.T) {
	fails := func(r *Recording, at schedule.Seconds, class compute.FailureClass) {
		id := compute.InstanceID(r.At(moment(at)))
		i := compute.Instance{ID: id, State: compute.StateQueued, Attempt: 1}
		r.refused(at-0.5, i)
		r.Broke = append(r.Broke, Broke{moment(at), "host-1", id, 1, "Prepare", class, false})
	}
	begins := func(r *Recording, at schedule.Seconds) {
		r.Given = append(r.Given, Given{moment(at), "host-1", hypervisor.Spec{Instance: "vm-9", Attempt: 1}})
	}
	enabledThen := func(begin schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			r.asks(9, schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: "enable"}, nil)
			for _, at := range []schedule.Seconds{9.5, 10, 11, 12} {
				fails(r, at, compute.FailureHost)
			}
			begins(r, begin)
		}
	}
	unwanted := func(begin schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			r.Broke = append(
				r.Broke,
				Broke{At: moment(11), Host: "host-1", Instance: "vm-8", Attempt: 1, Method: "Prepare"},
			)
			for _, at := range []schedule.Seconds{10, 12, 13} {
				fails(r, at, compute.FailureHost)
			}
			begins(r, begin)
		}
	}
	// placed has a start fail of a placeholder that waits, besides.
	placed := func(begin schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			unwanted(begin)(r)
			i := compute.Instance{ID: "vm-8", Project: schedule.Reserving, State: compute.StateQueued, Attempt: 1}
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "night"})
			r.refused(5, i)
		}
	}
	three := func(class compute.FailureClass, begin schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			for _, at := range []schedule.Seconds{10, 11, 12} {
				fails(r, at, class)
			}
			begins(r, begin)
		}
	}
	between := func(r *Recording) {
		fails(r, 10, 0)
		fails(r, 11, 0)
		r.Works = append(r.Works, Worked{"host-1", "vm-8", "Launch", moment(11.2), moment(11.5)})
		fails(r, 12, 0)
		begins(r, 20.001)
	}
	sees(t, checkQuarantine, map[string]func(*Recording){
		"host-1 until 12.000s, and it begins with another at 20.000s": three(compute.FailureHost, 20),
		"right: the request is at fault":                              three(compute.FailureRequest, 20),
		"right: it is over":                                           three(compute.FailureHost, 42.5),
		"right: an operator ends it": func(r *Recording) {
			r.asks(19, schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: "enable"}, nil)
			three(compute.FailureHost, 20)(r)
		},
		"until 43.000s, and it begins with another at 50.000s, before 103.000s": func(r *Recording) {
			three(compute.FailureHost, 50)(r)
			fails(r, 43, 0)
		},
		"right: one of them succeeded": func(r *Recording) {
			between(r)
			r.Machines = append(r.Machines, fake.Event{At: moment(11.5), Kind: fake.Launched, Host: "host-1", Instance: "vm-8"})
		},
		"right: one that was under way succeeded after it began": func(r *Recording) {
			three(compute.FailureHost, 20)(r)
			r.Works = append(r.Works, Worked{"host-1", "vm-8", "Launch", moment(11.2), moment(15)})
			r.Machines = append(r.Machines, fake.Event{At: moment(15), Kind: fake.Launched, Host: "host-1", Instance: "vm-8"})
		},
		"host-1 until 12.000s, and it begins with another at 20.001s":                 between, // a launch that was given up is no success
		"right: the one that failed as the operator enabled the host counted":         enabledThen(41.5),
		"host-1 until 12.000s, and it begins with another at 40.500s, before 41.000s": enabledThen(40.5),
		"right: one of a placeholder counted":                                         placed(42.5),
		"right: one of what was deleted counted":                                      unwanted(42.5),
		"host-1 until 13.000s, and it begins with another at 41.000s, before 42.000s": unwanted(41),
		"right: the agent is started again": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "host-1"}}
			three(compute.FailureHost, 20)(r)
		},
	})
}
