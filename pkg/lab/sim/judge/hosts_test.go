// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
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

// A host that loses its journal while a clone is there may run what the clone said is not there.
func TestACloneSucceedsAHost(t *testing.T) {
	succeeded := func(state compute.State, by schedule.Fault) func(*Recording) {
		return func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{by}
			r.Clones = []Cloned{{Of: "host-1", Host: "host-1-clone", From: moment(10), To: moment(90)}}
			if becomes(r, 80, state); state != compute.StateDeleted {
				r.Log[len(r.Log)-1].Instance.Reason = &compute.Reason{Code: compute.HostLost, Host: "host-1"}
			}
		}
	}
	lost := schedule.Fault{Kind: schedule.FaultKill, Who: "host-1", At: 11, By: 1, Disk: "lost"}
	kept := lost
	kept.Disk = ""
	alive := schedule.Fault{Kind: schedule.FaultKill, Who: "host-1", At: 200, By: 1, Disk: "lost"}
	later := schedule.Fault{Kind: schedule.FaultKill, Who: "host-1", At: 85, By: 1, Disk: "lost"}
	sees(t, checkOver, map[string]func(*Recording){
		"right: it is lost":               succeeded(compute.StateError, lost),
		"right: it is built elsewhere":    succeeded(compute.StateQueued, lost),
		"attempt 1 runs on host-1 from":   succeeded(compute.StateError, kept),
		"attempt 1 runs on host-1 from 4": succeeded(compute.StateError, alive),
		"at 80.000s it was error":         succeeded(compute.StateError, later),
		"right: it was never heard to run, and failed there": func(r *Recording) {
			succeeded(compute.StateQueued, lost)(r)
			r.Log[len(r.Log)-1].Instance.Reason.Code = compute.BuildFailed
		},
		"it was error": func(r *Recording) {
			succeeded(compute.StateError, lost)(r)
			r.Log[len(r.Log)-1].Instance.Reason.Code = compute.BuildFailed
		},
	})
}

// A machine may be lost whose place was taken, and that of nothing else.
func TestCheckKeptAndLost(t *testing.T) {
	lost := func(why compute.ReasonCode, at schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			noticed(r, 20, 20)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultRename, Who: "host-1"}}
			gone := fake.Event{At: moment(41), Kind: fake.Destroyed, Host: "host-1", Instance: madeID, Attempt: 1}
			r.Machines = append(r.Machines, gone)
			i := r.Log[len(r.Log)-1].Instance
			i.State, i.Reason = compute.StateError, &compute.Reason{Code: why}
			r.logged(at, i)
		}
	}
	// givenUp is a placeholder that its drained host gives up beside a copy of it, and that is offered again much later.
	givenUp := func(change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			last := &r.Log[len(r.Log)-1].Instance
			last.Boot.AsPlaceholder(compute.Placeholder{Of: "r"})
			r.asks(35, schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: "drain"}, nil)
			r.Clones = append(r.Clones, Cloned{Of: "host-1", From: moment(30), To: moment(90)})
			lost(compute.HostLost, 240)(r)
			r.Log[len(r.Log)-1].Instance.State = compute.StateQueued
			change(r)
		}
	}
	sees(t, checkKept, map[string]func(*Recording){
		"right: a placeholder that its drained host gave up": givenUp(func(*Recording) {}),
		"vm-1 was active on host-1, and was destroyed there": givenUp(func(r *Recording) { r.Clones = nil }),
		"right: its host is mute when it gives it up": givenUp(func(r *Recording) {
			r.Clones = nil
			r.Schedule.Faults = append(r.Schedule.Faults, schedule.Fault{
				At: 40, For: 150, Kind: schedule.FaultMute, Who: "host-1",
			})
		}),
		"vm-1 was active on host-1, and was destroyed": givenUp(func(r *Recording) { r.Asks = r.Asks[:1] }),
		"vm-1 was active on host-1, and was": givenUp(func(r *Recording) {
			for i := range r.Log {
				r.Log[i].Instance.Boot.AsPlaceholder(compute.Placeholder{})
			}
		}),
		"right: its place was taken": lost(compute.Preempted, 42),
		"right: its place was taken, and its host's word did not count for a time": lost(compute.Preempted, 240),
		"vm-1 was active on host-1, a":                                             lost(compute.HostLost, 42),
		"vm-1 was active on host-1":                                                lost(compute.HostLost, 240),
	})
	sees(t, checkLost, map[string]func(*Recording){
		"right: its place was taken": lost(compute.Preempted, 42),
		"vm-1 was lost, and its":     lost(compute.HostLost, 42),
	})
}

func TestCheckHome(t *testing.T) {
	renamed := func(r *Recording, from schedule.Seconds) *Recording {
		r.Renames = append(r.Renames, Renamed{Host: "host-1", Name: "host-1-new", From: moment(from), To: moment(from + 10)})
		return r
	}
	destroyed := func(r *Recording, host compute.HostID, at schedule.Seconds) {
		r.Machines = append(r.Machines, fake.Event{At: moment(at), Kind: fake.Destroyed, Host: host, Instance: madeID, Attempt: 1})
	}
	ends := func(r *Recording, at schedule.Seconds, s compute.State) {
		i := r.Log[len(r.Log)-1].Instance
		i.State = s
		r.logged(at, i)
	}
	sees(t, checkHome, map[string]func(*Recording){
		"host-1-new launches attempt 1": func(r *Recording) {
			renamed(r, 2).Launches = append(r.Launches, Launch{moment(3.6), "host-1-new", madeID, 1, "c1"})
		},
		"right: that was granted to nobody else": func(r *Recording) {
			renamed(r, 2).Launches = append(r.Launches, Launch{moment(3.6), "host-1-new", madeID, 1, "c2"})
		},
		"vm-1 was active on host-1, and was destroyed when that was called host-1-new": func(r *Recording) {
			destroyed(renamed(r, 5), "host-1", 6)
		},
		"vm-1 was starting on host-1, and was destroyed": func(r *Recording) {
			r.Log = r.Log[:2]
			destroyed(renamed(r, 3.5), "host-1", 3.9)
		},
		"vm-1 was starting on host-1, and was destroyed when": func(r *Recording) {
			destroyed(renamed(r, 3.5), "host-1", 3.9) // and is said to be active then
		},
		"vm-1 was active on host-1, and was destroyed when": func(r *Recording) {
			destroyed(renamed(r, 5), "host-1", 6)
			ends(r, 7, compute.StateError)
		},
		"right: it is to be deleted": func(r *Recording) {
			ends(r, 5.5, compute.StateDeleting)
			destroyed(renamed(r, 5), "host-1", 6)
		},
		"right: that it is to be deleted is seen late": func(r *Recording) {
			destroyed(renamed(r, 3.5), "host-1", 3.9)
			ends(r, 6, compute.StateDeleting)
		},
		"right: it has its name": func(r *Recording) { destroyed(renamed(r, 5), "host-1", 16) },
		"right: another host":    func(r *Recording) { destroyed(renamed(r, 5), "host-2", 6) },
		"right: what hosts have is wiped": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultWipe, Who: "host-1", At: 5}}
			destroyed(renamed(r, 5), "host-1", 6)
		},
	})
}
