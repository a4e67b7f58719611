// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// What waits in a reservation is not bound to the placeholder that it took at first. At the end of a step in which something
// happened in the reservation, what waits in vain for its own is given one that a host holds and nobody has taken:
//
//	its own                                                is given
//	is not held, or by a host that is silent               any other
//	is of a host where it failed                           one of a host where it has not failed
//
// The first is that which has waited longest. What an instance leaves counts in the quota, what it is given does not: what
// the project uses stays the same. What a host may have been told of before is behind the times, by a new attempt.

// free says whether nobody has taken a placeholder.
func free(p *entry) bool { return p.inst.Boot.Placeholder().Taker == "" }

// ready says whether a host that is heard holds a placeholder.
func (s *State) ready(p *entry) bool {
	h := s.hosts[p.inst.Host]
	return p.inst.State == compute.StateActive && h != nil && !h.silent
}

// heard says whether a placeholder is on a host of which this owner of the partition has heard.
func (s *State) heard(p *entry) bool {
	h := s.hosts[p.inst.Host]
	return h != nil && len(h.voices) > 0
}

// touchReservation has the reservation of a placeholder, or of what has taken one, looked at at the end of the step.
func (s *step) touchReservation(inst *compute.Instance) {
	if r := s.reservations[inst.ReservationKey()]; r != nil {
		s.touchRoomsOf(r)
	}
}

func (s *step) touchRoomsOf(r *reservation) {
	if !r.touched {
		r.touched, s.rooms = true, append(s.rooms, r)
	}
}

// touchHeld does that for all that a host holds: it fell silent, or is heard again.
func (s *step) touchHeld(h *host) {
	for e := range h.instances {
		if e.inst.HoldsRoom() {
			s.touchReservation(e.inst)
		}
	}
}

// touchLoaded does that for all, with the first that happens after a load: which hosts are silent a new owner finds out
// anew. What it reads before changes no record.
func (s *step) touchLoaded(in Input) {
	if _, read := in.(HostsRead); read || !s.roomsLoaded {
		return
	}
	s.roomsLoaded = false
	for _, key := range slices.SortedFunc(maps.Keys(s.reservations), func(a, b compute.ReservationKey) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	}) {
		s.touchRoomsOf(s.reservations[key])
	}
}

// giveRooms gives what waits in vain what is free, in all reservations in which something happened.
func (s *step) giveRooms() {
	all := s.rooms
	s.rooms = nil
	for _, r := range all {
		r.touched = false
	}
	for _, r := range all {
		s.giveRoomsOf(r)
	}
}

func (s *step) giveRoomsOf(r *reservation) {
	var held, waiting []*entry
	for _, p := range sorted(r.members) {
		if t := s.takerOf(p.inst); t != nil && t.inst.State == compute.StateQueued {
			waiting = append(waiting, t)
		} else if free(p) && s.ready(p) {
			held = append(held, p)
		}
	}
	if len(held) == 0 {
		return
	}
	slices.SortStableFunc(waiting, func(a, b *entry) int { return a.inst.QueuedAt.Compare(b.inst.QueuedAt) })
	for _, t := range waiting {
		if n := slices.IndexFunc(held, func(p *entry) bool { return s.better(t, p) }); n >= 0 {
			s.giveRoom(t, held[n])
			held = slices.Delete(held, n, n+1)
		}
	}
}

// better says whether what waits is to have this placeholder and not its own.
func (s *step) better(t, than *entry) bool {
	own, failed := s.placeholderOf(t.inst), failedHosts(t.inst)
	if !s.ready(own) {
		return true
	}
	return slices.Contains(failed, own.inst.Host) && !slices.Contains(failed, than.inst.Host)
}

// giveRoom gives what waits a placeholder in place of its own.
func (s *step) giveRoom(t, p *entry) {
	own := s.placeholderOf(t.inst)
	s.moveTo(t, p, own.inst.State == compute.StateActive)
	s.setTaker(own, "")
}

// moveTo has what waits be in another placeholder. held says whether a host held its own, and so may have been told
// of it.
func (s *step) moveTo(t, p *entry, held bool) {
	s.setTaker(p, t.inst.ID)
	told := held && t.inst.PublishAt.IsZero()
	s.change(t, func(inst *compute.Instance) {
		if inst.Boot.Takes(compute.InPlaceholder{ID: p.inst.ID}); told {
			requeue(inst, inst.PublishAt)
		}
	})
}

// losePlaceholder is for what waits and never ran, and of which the placeholder ends, which a host held or not. As
// long as the reservation goes on it is given any other one that is free: one that no host holds yet is as good as
// its own was.
func (s *step) losePlaceholder(t, own *entry, held bool) {
	r := s.reservations[compute.ReservationKey{Project: t.inst.Project, Name: t.inst.Boot.Reservation()}]
	if r != nil && !isOver(own.inst) {
		if p := s.furthest(r); p != nil {
			s.moveTo(t, p, held)
			return
		}
	}
	s.end(t, whyEnded(own.inst))
}
