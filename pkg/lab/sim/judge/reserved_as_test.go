// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// reserves has room-1 be a reservation of two placeholders, asked for at 10 s, of which so many are in the log.
func reserves(r *Recording, logged int) {
	l := schedule.Load{
		Op: schedule.LoadReserve, Name: "room-1", Project: schedule.Reserving, Count: 2, For: 3 * 3600,
		Boot: &compute.Boot{Flavor: "m1.small"},
	}
	r.Schedule.Load = append(r.Schedule.Load, l)
	r.Asks = append(r.Asks, Ask{Load: l, Began: moment(10), Answered: moment(10.1), OK: true})
	for part := range logged {
		i := compute.Instance{Project: l.Project, State: compute.StateQueued, Attempt: 1, Queue: "m1.small"}
		i.ID, i.Boot, i.Resources = wire.KeyedInstance(l.Project, l.PartName(part)), *l.Boot, r.Log[0].Instance.Resources
		i.Boot.Name = l.PartName(part)
		i.Boot.AsPlaceholder(compute.Placeholder{Of: "room-1"})
		r.refused(10.2, i)
	}
}

// takes asks for vm-2 into room-1.
func takes(r *Recording, at schedule.Seconds, why *compute.Error) {
	b := compute.Boot{Flavor: "m1.small"}
	b.Reserving("room-1")
	r.asks(at, schedule.Load{Op: schedule.LoadTake, Project: schedule.Reserving, Boot: &b, Own: "id"}, why)
	a := &r.Asks[len(r.Asks)-1]
	a.Name, a.ID = "vm-2", "vm-2"
}

func TestReservationsThatWereAccepted(t *testing.T) {
	sees(t, checkAccepted, map[string]func(*Recording){
		"right: all are there":                          func(r *Recording) { reserves(r, 2) },
		"reserve of room-1-2 was accepted at 10.100s":   func(r *Recording) { reserves(r, 1) },
		"take of vm-2 was accepted at 20.100s and left": func(r *Recording) { reserves(r, 2); takes(r, 20, nil) },
	})
}

// endsUnknown has vm-2 be asked for into room-1, and refused by a conductor that knows no such reservation.
func endsUnknown(r *Recording, at schedule.Seconds) { endsBecause(r, at, compute.NoSuchReservation) }

// endsBecause has vm-2 be asked for into room-1, and refused by a conductor.
func endsBecause(r *Recording, at schedule.Seconds, why compute.ReasonCode) {
	takes(r, at, nil)
	i := compute.Instance{ID: "vm-2", Project: schedule.Reserving, State: compute.StateError}
	i.Reason = &compute.Reason{Code: why}
	i.Boot.Name = "vm-2"
	i.Boot.Reserving("room-1")
	r.refused(at, i)
}

func TestNoSuchReservation(t *testing.T) {
	refusal := &compute.Error{Kind: compute.KindNotFound, Reason: &compute.Reason{Code: compute.NoSuchReservation}}
	slow := func(r *Recording) {
		r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
	}
	sees(t, (*Recording).refusedInReservations, map[string]func(*Recording){
		"right: its reservation is not admitted yet": func(r *Recording) { reserves(r, 0); endsUnknown(r, 11) },
		"vm-2 ended without a cause":                 func(r *Recording) { reserves(r, 0); endsUnknown(r, 20) },
		"right: a conductor is hindered":             func(r *Recording) { reserves(r, 0); endsUnknown(r, 20); slow(r) },
	})
	sees(t, (*Recording).refusedAtOnce, map[string]func(*Recording){
		"right: a node may not have read of it": func(r *Recording) { reserves(r, 2); takes(r, 11, refusal) },
		"take vm-2 was refused without a cause": func(r *Recording) { reserves(r, 2); takes(r, 20, refusal) },
		"right: there is none":                  func(r *Recording) { takes(r, 20, refusal) },
		"right: a node may hear of it late":     func(r *Recording) { reserves(r, 2); takes(r, 20, refusal); slow(r) },
	})
}

// endsFull has vm-3 be asked for into room-1 at 20 s, and then vm-2, which is refused: each placeholder is taken.
func endsFull(r *Recording, at schedule.Seconds) {
	takes(r, 20, nil)
	first := &r.Asks[len(r.Asks)-1]
	first.Name, first.ID = "vm-3", "vm-3"
	endsBecause(r, at, compute.ReservationFull)
}

// fails has the second placeholder fail at 25 s, with its queue.
func fails(r *Recording) {
	i := r.Log[len(r.Log)-1].Instance
	i.State, i.Reason = compute.StateError, &compute.Reason{Code: compute.QueueClosedReason}
	r.refused(25, i)
}

func TestReservationFull(t *testing.T) {
	sees(t, (*Recording).refusedInReservations, map[string]func(*Recording){
		"vm-2 ended without a cause":   func(r *Recording) { reserves(r, 2); endsFull(r, 30) },
		"room-1-2 ended without":       func(r *Recording) { reserves(r, 2); fails(r); endsFull(r, 30) },
		"right: a placeholder failed":  func(r *Recording) { drops(r); reserves(r, 2); fails(r); endsFull(r, 30) },
		"vm-2 ended without a cause: ": func(r *Recording) { drops(r); reserves(r, 2); fails(r); endsFull(r, 22) },
	})
}

// A placeholder that failed leaves no room for what would take it, and is no cause of its own end.
func TestReservationEnded(t *testing.T) {
	// over has the placeholders be refused: the time of their reservation is over.
	over := func(r *Recording) {
		reserves(r, 2)
		for n := range r.Log {
			if i := &r.Log[n].Instance; i.Boot.Placeholder().Of != "" {
				i.State, i.Reason = compute.StateError, &compute.Reason{Code: compute.ReservationEnded}
			}
		}
	}
	sees(t, (*Recording).refusedInReservations, map[string]func(*Recording){
		"room-1-1 ended without a cause": over,
		"right: it is over":              func(r *Recording) { over(r); r.Asks[len(r.Asks)-1].For = 0.05 },
		"right: a placeholder has failed": func(r *Recording) {
			drops(r)
			reserves(r, 2)
			fails(r)
			endsBecause(r, 30, compute.ReservationEnded)
		},
		"vm-2 ended without a cause": func(r *Recording) { reserves(r, 2); endsBecause(r, 30, compute.ReservationEnded) },
	})
}

// drops has m1.small be asked to be removed at 15 s.
func drops(r *Recording) {
	l := schedule.Load{Op: schedule.LoadDropFlavor, Flavor: &compute.Flavor{Name: "m1.small"}}
	r.asks(15, l, nil)
}

// A request says in milliseconds when a reservation ends: the fraction of both its times together is cut off. The log is a
// millisecond off at most.
func TestReservationIsOver(t *testing.T) {
	r := made()
	a := Ask{Load: schedule.Load{Op: schedule.LoadReserve, From: 8.4852, For: 68.2552}, Began: moment(0.9392)}
	for at, over := range map[schedule.Seconds]bool{77.6779: false, 77.678: true, 77.6793: true} {
		if got := r.maybeOver(a, moment(at)); got != over {
			t.Errorf("at %s it may be over: %t", r.At(moment(at)), got)
		}
	}
}
