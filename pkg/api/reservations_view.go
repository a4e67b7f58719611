// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// The states of a reservation.
const (
	reservationAccepted = "accepted"
	reservationWaiting  = "waiting"
	reservationHeld     = "held"
	reservationEnded    = "ended"
)

// reservation shows one, if there is any record of it.
func (s *presenter) reservation(key compute.ReservationKey, each bool) (out rest.ReservationView, ok bool) {
	list := s.views.instances.placeholders(key)
	if len(list) == 0 {
		return out, false
	}
	return s.reservationOf(key, list, each), true
}

// reservationOf shows the one of these placeholders.
func (s *presenter) reservationOf(key compute.ReservationKey, list []entry, each bool) (out rest.ReservationView) {
	of, b := list[0].boot().Placeholder(), list[0].boot()
	out = rest.ReservationView{
		Project: key.Project, Name: key.Name, State: reservationEnded, Flavor: b.Flavor, With: b.With, Queue: list[0].queue(),
		Count: int(of.Size), From: of.From, Until: of.Until, Priority: rest.FromBoot("", "", *b).Priority,
	}
	waiting, accepted, ended := 0, 0, 0
	for _, k := range list {
		p := rest.PlaceholderView{ID: k.key().id, State: rest.State(s.state(k).String())}
		if i := k.instance; i != nil {
			out.Resources = i.Resources
			shown := s.instance(k, fields{"waiting"})
			p.Waiting, p.Host = shown.Waiting, shown.Host
			if i.HoldsRoom() {
				p.Taker = i.Boot.Placeholder().Taker
			} else if out.Reason == nil {
				out.Reason = shown.Reason
			}
		}
		switch {
		case k.instance == nil:
			accepted++
		case !k.instance.HoldsRoom():
			ended++
		case s.state(k) == compute.StateActive:
			out.Held++
		default:
			waiting++
		}
		if p.Taker != "" {
			out.Taken++
			if t := s.takerOf(k.instance); t != nil && (t.State.OnHost() || !t.ActiveAt.IsZero()) {
				out.Started++
			}
		}
		if each {
			out.Placeholders = append(out.Placeholders, p)
		}
	}
	// Of a reservation that was made again, what ends of the one before may be listed beside it.
	missing := out.Count - accepted - waiting - out.Held
	ended = max(0, min(ended, missing))
	switch {
	case accepted > 0:
		out.State = reservationAccepted
	case waiting > 0, out.Held > 0 && missing > 0:
		out.State = reservationWaiting
	case out.Held > 0:
		out.State = reservationHeld
	}
	if out.State == reservationWaiting && ended > 0 {
		out.Reason = endedInPart(ended, out.Count, out.Reason)
	} else if out.State != reservationEnded {
		out.Reason = nil
	}
	if each {
		out.Refused = s.lostTo(key, list[0])
	}
	return out
}

// endedInPart is why hosts will never hold all of a reservation that goes on. first is why the first of its ended
// placeholders has ended; nil: no record says why.
func endedInPart(ended, count int, first *rest.Reason) *rest.Reason {
	why := fmt.Sprintf("%d of its %d placeholders have ended and are not held again", ended, count)
	if first != nil {
		why += ": " + first.Message
	}
	return &rest.Reason{Code: compute.ReservationEnded, Message: why}
}

// placeholderOf is the placeholder that an instance waits for; nil: it waits for none.
func (s *presenter) placeholderOf(i *compute.Instance) *compute.Instance {
	in := i.Boot.In()
	if in.ID == "" {
		return nil
	}
	k, _ := s.views.instances.get(instanceKey{i.Project, in.ID})
	return k.instance
}

// takerOf is the instance that has a placeholder; nil: nothing has it, or nothing is known of that.
func (s *presenter) takerOf(i *compute.Instance) *compute.Instance {
	t := i.Boot.Placeholder().Taker
	if t == "" {
		return nil
	}
	k, _ := s.views.instances.get(instanceKey{i.Project, t})
	return k.instance
}

// olderAgents are the hosts whose agents know no reservations. While there is one, no host holds room for any.
func (s *presenter) olderAgents() []compute.HostID {
	if !s.askedOlder {
		s.older, s.askedOlder = s.views.hosts.thatDoNotRead(wire.SchemaReserved), true
	}
	return s.older
}

// waitingToHold is why a placeholder waits, beside room; nil: for that alone.
func (s *presenter) waitingToHold(i *compute.Instance) *compute.Reason {
	if !i.IsPlaceholder() {
		return nil
	}
	detail := ""
	if i.PublishAt.After(s.now.log) && len(i.Failures) == 0 {
		detail = explain.WaitsForItsTime(i)
	} else if i.Boot.Placeholder().Kept {
		detail = compute.KeptFor(i)
	} else if n := len(s.olderAgents()); n > 0 {
		detail = explain.WaitsForAgents(n)
	}
	if detail == "" {
		return nil
	}
	return &compute.Reason{Code: compute.ReservationWaits, Detail: detail}
}

// addPlaceholder and removePlaceholder keep which placeholders are of which reservation.
func (t *projectIndex) addPlaceholder(k *entry) {
	if n := k.boot().Placeholder().Of; n != "" {
		addIn(&t.byReservation, n, k)
	}
}

func (t *projectIndex) removePlaceholder(k *entry) {
	if n := k.boot().Placeholder().Of; n != "" {
		removeIn(t.byReservation, n, k)
	}
}

// reservations are the names of those of a project that have not ended, sorted.
func (v *instances) reservations(p compute.Project) (names []compute.ReservationName) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.byProject[p]
	if t == nil {
		return nil
	}
	for n, all := range t.byReservation {
		for k := range all {
			if k.notEnded() {
				names = append(names, n)
				break
			}
		}
	}
	slices.Sort(names)
	return names
}

// placeholders are those of the reservation that a name means, in the order of lists.
func (v *instances) placeholders(key compute.ReservationKey) []entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.byProject[key.Project]
	if t == nil {
		return nil
	}
	var named *entry
	for k := range t.byReservation[key.Name] {
		if named == nil || v.hasNameBefore(k, named) {
			named = k
		}
	}
	var all []entry
	for k := range t.byReservation[key.Name] {
		if v.sameRequest(k, named) {
			all = append(all, *k)
		}
	}
	slices.SortFunc(all, entry.compare)
	return all
}

// notEnded are the placeholders of a name that have not ended, whichever of several undecided requests they are of.
func (v *instances) notEnded(key compute.ReservationKey) (all []entry) {
	all = v.ofName(key, (*entry).notEnded)
	slices.SortFunc(all, entry.compare)
	return all
}

// ofName are those placeholders of a name that are wanted, of whichever requests, in no order.
func (v *instances) ofName(key compute.ReservationKey, wanted func(*entry) bool) (all []entry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.byProject[key.Project]
	if t == nil {
		return nil
	}
	for k := range t.byReservation[key.Name] {
		if wanted(k) {
			all = append(all, *k)
		}
	}
	return all
}

// sameReservationOf says whether a placeholder is of the reservation of another one of that name, which is of the
// newest. Where a conductor has not decided yet, it may still move the beginning.
func sameReservationOf(k, newest *entry) bool {
	x, y := k.boot().Placeholder(), newest.boot().Placeholder()
	decided := k.instance != nil && newest.instance != nil
	if k.lostItsName() != newest.lostItsName() || k.lostItsName() && !k.requestedAt().Equal(newest.requestedAt()) {
		return false
	}
	return x.Until.Equal(y.Until) && x.Size == y.Size && (x.From.Equal(y.From) || !decided) &&
		(k.instance == nil || k.instance.EndedAt.IsZero() || !k.instance.EndedAt.Before(newest.requestedAt()))
}
