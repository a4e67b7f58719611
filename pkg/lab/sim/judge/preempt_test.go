// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const grace = 20 * time.Second

// noticed has vm-1, which is preemptible, be given notice for high work, at a time that the log says.
func noticed(r *Recording, at, seen schedule.Seconds) {
	b := *r.Asks[0].Load.Boot
	p := compute.Preemptible{Then: compute.ThenRequeue, Grace: grace}
	b.Rules = &compute.PlacementRules{Priority: compute.PriorityLow, Preemptible: p}
	r.Asks[0].Load.Boot = &b
	i := r.Log[len(r.Log)-1].Instance
	i.GiveNotice(&compute.Notice{
		At: moment(at), Until: moment(at).Add(grace), Host: i.Host,
		Queue: "m1.small.priority-high", Class: compute.PriorityHigh,
	})
	i.Command = &compute.PowerCommand{Op: compute.OpStop}
	r.logged(seen, i)
}

func TestCheckPreempted(t *testing.T) {
	sees(t, checkPreempted, map[string]func(*Recording){
		"right: it has notice since then":                                func(r *Recording) { noticed(r, 20, 20.05) },
		"vm-1 has notice since 12.000s, which was in the log at 20.000s": func(r *Recording) { noticed(r, 12, 20) },
		"vm-1 has notice since 28.000s, which was in the log at 20.000s": func(r *Recording) { noticed(r, 28, 20) },
		"right: a conductor is hindered": func(r *Recording) {
			noticed(r, 12, 20)
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
		},
	})
}

// What is to be deleted goes at once with its host, and not before its guest has stopped otherwise.
func TestCheckPreemptedOfADeadHost(t *testing.T) {
	// deleted has vm-1, which has notice from 20 s to 40 s, be deleted at 25 s.
	deleted := func(gone schedule.Seconds, faults ...schedule.Fault) func(*Recording) {
		return func(r *Recording) {
			noticed(r, 20, 20)
			r.Asks[0].Load.Boot.Rules.Preemptible.Then = compute.ThenDelete
			r.Schedule.Faults = faults
			i := r.Log[len(r.Log)-1].Instance
			i.State, i.Delete, i.Reason, i.Command = compute.StateDeleting, true, i.Notice().Reason(1), nil
			i.EndNotice(moment(25))
			r.logged(25, i)
			i.State = compute.StateDeleted
			r.logged(gone, i)
		}
	}
	fenced := func(h string) schedule.Fault { return schedule.Fault{Kind: schedule.FaultPower, Who: h, Dead: "fence"} }
	sees(t, checkPreempted, map[string]func(*Recording){
		"right: its host is declared dead":         deleted(25, fenced("host-1")),
		"vm-1 goes at 25.000s, 15s before":         deleted(25),
		"vm-1 goes at 25.000s, 15s before its":     deleted(26, fenced("host-1")),
		"vm-1 goes at 25.000s, 15s before its gue": deleted(25, fenced("host-2")),
	})
}

func TestCheckStopped(t *testing.T) {
	// ends has that happen at 30 s to a machine whose guest does not listen, and has until 40 s.
	ends := func(kind fake.EventKind, faults ...schedule.Fault) func(*Recording) {
		return func(r *Recording) {
			noticed(r, 20, 20)
			r.Schedule.World.Deaf, r.Schedule.Faults = true, faults
			e := fake.Event{At: moment(30), Kind: kind, Host: "host-1", Instance: madeID, Attempt: 1}
			r.Machines = append(r.Machines, e)
		}
	}
	// stops has another stop be in the record then; a client asks for that power command at that time.
	stops := func(at, asked schedule.Seconds, power string) func(*Recording) {
		return func(r *Recording) {
			ends(fake.Stopped)(r)
			r.asks(asked, schedule.Load{Op: schedule.LoadPower, Power: power}, nil)
			i := r.Log[len(r.Log)-1].Instance
			i.Command = &compute.PowerCommand{Op: compute.OpStop, Command: commandOf(len(r.Asks) - 1)}
			r.logged(at, i)
		}
	}
	// decided has the next record be decided at a time, and seen at 31 s.
	decided := func(at schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			ends(fake.Destroyed)(r)
			i := r.Log[len(r.Log)-1].Instance
			i.Version++
			r.logged(31, i)
			r.Log[len(r.Log)-1].Instance.ChangedAt = moment(at)
		}
	}
	wiped := func(h string, at schedule.Seconds) schedule.Fault {
		return schedule.Fault{At: at, Kind: schedule.FaultWipe, Who: h}
	}
	sees(t, checkPreempted, map[string]func(*Recording){
		"vm-1 is destroyed, and its guest has until": ends(fake.Destroyed),
		"right: the host heard before it was seen":   decided(29),
		"vm-1 is destroyed, and its":                 decided(31),
		"right: its host is set up anew":             ends(fake.Destroyed, wiped("host-1", 29)),
		"vm-1 is destroyed, and its guest":           ends(fake.Destroyed, wiped("host-1", 31)),
		"right: any host is set up anew":             ends(fake.Destroyed, wiped("", 0)),
		"vm-1 is destroyed, and its guest has":       ends(fake.Destroyed, wiped("host-2", 29)),
		"vm-1 is stopped, and its guest has until":   ends(fake.Stopped),
		"right: a client asks for another stop":      stops(22, 21, "stop"),
		"vm-1 is stopped, and its guest has":         stops(32, 21, "stop"),
		"vm-1 is stopped, and its guest":             stops(22, 21, "reboot"),
		"vm-1 is stopped, and its":                   stops(22, 31, "stop"),
		"vm-1 is stopped, and": func(r *Recording) { // nobody has asked for it
			stops(22, 21, "stop")(r)
			r.Asks = r.Asks[:len(r.Asks)-1]
		},
		"vm-1 is stopped": func(r *Recording) { // of another
			stops(22, 21, "stop")(r)
			r.Asks[len(r.Asks)-1].ID = "vm-2"
		},
	})
}

// A record that says that it was decided while something waited is not believed, unless a partition has no leader: when
// it was seen counts.
func TestCheckNeeded(t *testing.T) {
	// waited has vm-2 wait from 5 s to 10 s.
	waited := func(at, seen schedule.Seconds, more ...func(*Recording, *compute.Instance)) func(*Recording) {
		return func(r *Recording) {
			r.Schedule.World.Saves = true
			i := compute.Instance{ID: "vm-2", Project: "red", State: compute.StateQueued, Queue: "m1.small.priority-high"}
			i.Boot.Name = "vm-2"
			for _, change := range more {
				change(r, &i)
			}
			own := len(r.Log) - 1
			r.logged(5, i)
			i.State = compute.StateDeleted
			r.logged(10, i)
			r.Log[own], r.Log[own+1], r.Log[own+2] = r.Log[own+1], r.Log[own+2], r.Log[own]
			noticed(r, at, seen)
		}
	}
	hindered := func(r *Recording, _ *compute.Instance) {
		r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultLeaderless, Who: "broker"}}
	}
	killed := func(r *Recording, _ *compute.Instance) {
		r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
	}
	claimed := func(r *Recording, i *compute.Instance) {
		r.Claims = append(r.Claims, Claimed{moment(5.5), compute.Report{Instance: i.ID, Claim: "c9"}})
	}
	asked := func(at schedule.Seconds) func(*Recording, *compute.Instance) {
		return func(r *Recording, i *compute.Instance) {
			r.asks(at, schedule.Load{Op: schedule.LoadBoot, Boot: &compute.Boot{Flavor: "m1.small"}}, nil)
			r.Asks[len(r.Asks)-1].Name = i.Boot.Name
		}
	}
	inSet := func(_ *Recording, i *compute.Instance) {
		i.Boot.Rules = compute.RulesOf("", compute.Set{ID: "set-1", Size: 2}, compute.PriorityHigh)
	}
	sees(t, checkNeeded, map[string]func(*Recording){
		"right: it waited a moment before":                    waited(12, 12),
		"vm-1 has notice for work of m1.small.priority-high":  waited(12, 40),
		"right: its partition has no leader for long":         waited(12, 130, hindered),
		"right: its work was seen with it":                    waited(5, 5, hindered, asked(1)),
		"right: its work was seen after it":                   waited(4.5, 4.5, hindered, asked(1)),
		"vm-1 has notice for work of m1.small.p":              waited(5, 5, asked(1)),
		"vm-1 has notice for work of m1.small.pr":             waited(3.5, 3.5, hindered, asked(1)),
		"vm-1 has notice for work of m1.small.priority":       waited(120, 130, hindered),
		"vm-1 has notice for work of m1.small.priority-":      waited(12, 130, killed),
		"right: it has waited since it was asked for":         waited(7, 7, asked(3)),
		"vm-1 has notice for work of m1.small.prior":          waited(7, 7, asked(4.5)),
		"right: a conductor was away for long":                waited(12, 105, killed),
		"vm-1 has notice for work of m1.small.":               waited(17.5, 17.5, claimed),
		"right: the claim of a set may be lost with its host": waited(17.5, 17.5, inSet, claimed),
		"vm-1 has notice for work of m1.small": func(r *Recording) {
			waited(17.5, 17.5, inSet, claimed)(r)
			granted := compute.Instance{ID: "vm-2", State: compute.StateStarting, Claim: "c9"}
			r.Log = append(r.Log, Written{Seen: moment(18), Instance: granted})
		},
	})
}
