// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// verifyReservations looks at each placeholder and its taker by their records alone.
func (c *checked) verifyReservations() {
	c.t.Helper()
	live := map[compute.ReservationKey]int{}
	for _, inst := range c.last {
		p, in := inst.Boot.Placeholder(), inst.Boot.In()
		if t := c.last[p.Taker]; p.Kept != (inst.State == compute.StateQueued && t != nil && t.State.OnHost()) {
			c.t.Fatalf("placeholder %s is %s, kept is %t, and its taker %s is %+v", inst.ID, inst.State, p.Kept, p.Taker, t)
		}
		if inst.HoldsRoom() {
			live[compute.ReservationKey{Project: inst.Project, Name: p.Of}]++
			if t := c.last[p.Taker]; p.Taker != "" && (t == nil || t.State.Ended() || t.Boot.In().ID != inst.ID) {
				c.t.Fatalf("placeholder %s is taken by %s, which does not have it", inst.ID, p.Taker)
			}
		}
		if in.ID == "" || inst.State.Ended() {
			continue
		}
		of := c.last[in.ID]
		if of == nil || !of.HoldsRoom() || of.Boot.Placeholder().Taker != inst.ID || of.Boot.Placeholder().Of != inst.Boot.Reservation() {
			c.t.Fatalf("%s has placeholder %s, which is not its own: %+v", inst.ID, in.ID, of)
		}
		if of.State == compute.StateActive && inst.State.OnHost() && of.Host != inst.Host {
			c.t.Fatalf("%s is on %s, and its placeholder is held by %s", inst.ID, inst.Host, of.Host)
		}
		if !inst.Resources.Equal(of.Resources) || inst.Queue != of.Queue || inst.Boot.Priority() != of.Boot.Priority() {
			c.t.Fatalf("%s is not like its placeholder", inst.ID)
		}
	}
	for key, r := range c.reservations {
		c.verifyRooms(r)
		if len(r.members) != live[key] || live[key] == 0 {
			c.t.Fatalf("reservation %v has %d placeholders, and %d are known", key, live[key], len(r.members))
		}
	}
	if len(c.reservations) != len(live) {
		c.t.Fatalf("%d reservations are known, and there are %d", len(c.reservations), len(live))
	}
}

// verifyRooms finds what waits for a placeholder that is not held while a host that is heard holds one that is free: not
// before anything has happened after a load.
func (c *checked) verifyRooms(r *reservation) {
	c.t.Helper()
	if c.roomsLoaded {
		return
	}
	var waits, held *entry
	for p := range r.members {
		t := c.last[p.inst.Boot.Placeholder().Taker]
		switch {
		case t == nil && c.ready(p):
			held = p
		case t != nil && t.State == compute.StateQueued && !c.ready(p):
			waits = c.instances[t.ID]
		}
	}
	if waits != nil && held != nil {
		c.t.Fatalf("%s waits in placeholder %s, and %s on %s is free", waits.inst.ID, waits.inst.Boot.In().ID, held.inst.ID, held.inst.Host)
	}
	if r.touched {
		c.t.Fatalf("the reservation is still to be looked at")
	}
}

// verifyNothingLeft finds what ends with its placeholder while its reservation goes on and has one that is free. It
// looks at the records as they were when this one was written.
func (c *checked) verifyNothingLeft(inst *compute.Instance, now time.Time) {
	c.t.Helper()
	if !taking(inst) || inst.State != compute.StateError || inst.Reason.Code != compute.ReservationEnded {
		return
	}
	for _, p := range c.last {
		is := p.Boot.Placeholder()
		if p.HoldsRoom() && is.Of == inst.Boot.Reservation() && is.Taker == "" && is.Until.After(now) {
			c.t.Fatalf("%s ends with its placeholder %s, and %s is free", inst.ID, inst.Boot.In().ID, p.ID)
		}
	}
}

// TestPlaceholdersWaitForReaders: while one conductor or agent does not read reservations, no placeholder is published.
func TestPlaceholdersWaitForReaders(t *testing.T) {
	s := newStory(t)
	s.view.ReadReserved = false
	if got := s.tell(t, "reserve r 11 for=1h\n+1m"); s.builds[long("11")].Instance != "" {
		t.Errorf("it is published all the same: %s", got)
	}
	s.view.ReadReserved = true
	if s.tell(t, "+5s"); !s.builds[long("11")].Placeholder {
		t.Error("it is not published once all read it, or not as what it is")
	}
}

// TestReservationsAreTouchedOnceLoaded: all of them, in an order that is always the same; what that takes does not grow
// with their placeholders.
func TestReservationsAreTouchedOnceLoaded(t *testing.T) {
	load := func(size int) *step {
		s := &step{State: New(Options{})}
		for r := range 200 {
			of := &reservation{members: map[*entry]bool{}}
			key := compute.ReservationKey{Project: "p", Name: compute.ReservationName(fmt.Sprintf("r%03d", r))}
			for n := range size {
				inst := &compute.Instance{ID: compute.InstanceID(fmt.Sprintf("%03d-%03d", n, r)), Project: key.Project}
				inst.Boot.AsPlaceholder(compute.Placeholder{Of: key.Name, Size: 1})
				of.members[&entry{inst: inst}] = true
			}
			s.reservations[key] = of
		}
		return s
	}
	takes := func(s *step) float64 {
		return testing.AllocsPerRun(1, func() {
			s.roomsLoaded, s.rooms = true, nil
			for _, r := range s.reservations {
				r.touched = false
			}
			s.touchLoaded(Tick{})
		})
	}
	many := load(100)
	if one, hundred := takes(load(1)), takes(many); hundred > one+10 {
		t.Errorf("with 100 placeholders each it takes %.0f allocations, with one %.0f", hundred, one)
	}
	var again []*reservation
	for n := range 200 {
		again = append(again, many.reservations[compute.ReservationKey{
			Project: "p", Name: compute.ReservationName(fmt.Sprintf("r%03d", n)),
		}])
	}
	if !slices.Equal(many.rooms, again) {
		t.Error("not all reservations are touched, or not in their order")
	}
}
