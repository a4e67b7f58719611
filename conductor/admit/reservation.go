// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// A reservation is some *placeholders*: instances without a machine, which are queued, claimed and granted as all others
// are, so that hosts hold room. A boot that names the reservation *takes* one of them for itself: the record of each names
// the other, in one step, and from then on the taker counts in the quota, and the placeholder does not. The taker is
// offered to the host of its placeholder alone, which makes it in that room (decision 0070).
//
//	placeholder  queued ──claim──▶ starting ─▶ active ──its time is over, deleted──▶ deleting ─▶ deleted
//	                ▲                             │
//	                └── its host is lost, or has no use for it: held elsewhere ◀──┘
//	taker        held here until its placeholder is active and its time has come ─▶ offered to that host ─▶ as any other
//
// A placeholder of which the taker is on a host is not published: it would be room for nobody. When one ends, the other
// goes on without it, but for a taker that waits and never ran: that goes on in a placeholder that is free, and ends if
// there is none, or if the reservation is over.

// reservation is what a partition knows of one that has not ended.
type reservation struct {
	members map[*entry]bool
	touched bool // something happened in it in this step
}

// joinReservation makes the reservation of an entry's instance know it as it is now. It is called with each new version.
func (s *State) joinReservation(e *entry, old *compute.Instance) {
	s.noteLeft(e, old)
	is, was := e.inst != nil && e.inst.HoldsRoom(), old != nil && old.HoldsRoom()
	if is == was {
		return
	}
	inst := old
	if is {
		inst = e.inst
	}
	key := inst.ReservationKey()
	r := s.reservations[key]
	if r == nil {
		r = &reservation{members: map[*entry]bool{}}
		s.reservations[key] = r
	}
	if is {
		r.members[e] = true
	} else if delete(r.members, e); len(r.members) == 0 {
		delete(s.reservations, key)
	}
}

// noteLeft makes the taker of a placeholder that its host is to give up know it: as long as both are on that host, they
// are in one room, and one of them counts.
func (s *State) noteLeft(e *entry, old *compute.Instance) {
	if old != nil && old.State == compute.StateDeleting && s.left[old.Boot.Placeholder().Taker] == e {
		delete(s.left, old.Boot.Placeholder().Taker)
	}
	if e.inst != nil && e.inst.State == compute.StateDeleting && e.inst.Boot.Placeholder().Taker != "" {
		s.left[e.inst.Boot.Placeholder().Taker] = e
	}
}

// placeholderOf is the placeholder that an instance has; nil: none, or it has ended.
func (s *State) placeholderOf(inst *compute.Instance) *entry {
	if p := s.instances[inst.Boot.In().ID]; p != nil && p.inst.HoldsRoom() {
		return p
	}
	return nil
}

// takerOf is the instance that has a placeholder; nil: it is free.
func (s *State) takerOf(inst *compute.Instance) *entry {
	if t := s.instances[inst.Boot.Placeholder().Taker]; t != nil && t.inst.Boot.In().ID == inst.ID && !t.inst.State.Ended() {
		return t
	}
	return nil
}

// taking says whether an instance is to have the room of a placeholder.
func taking(inst *compute.Instance) bool { return inst.Boot.In().ID != "" }

// take gives an instance that is being admitted the placeholder that has come furthest of those that are free; the reason
// is why it is refused. What it is made of is that of the placeholder, and so is its class.
func (s *step) take(inst *compute.Instance) *compute.Reason {
	name := inst.Boot.Reservation()
	r := s.reservations[inst.ReservationKey()]
	if r == nil {
		return noReservation(fmt.Sprintf("there is no reservation %s, or it has ended", name))
	}
	for _, p := range sorted(r.members) {
		if of := p.inst; !sameQueue(of, inst) {
			return noReservation(fmt.Sprintf(
				"reservation %s is of queue %s, and the request is for %s", name, of.Boot.Queue(), inst.Boot.Queue(),
			))
		}
	}
	best := s.furthest(r)
	if best == nil {
		return &compute.Reason{
			Code: compute.ReservationFull, Detail: fmt.Sprintf("each of the %d placeholders of reservation %s is taken",
				len(r.members), name),
		}
	}
	of := best.inst
	inst.Queue, inst.Resources, inst.Required, inst.Forbidden = of.Queue, of.Resources, of.Required, of.Forbidden
	rules := compute.PlacementRules{
		Reservation: name, Priority: of.Boot.Priority(), In: compute.InPlaceholder{ID: of.ID},
	}
	inst.Boot.Rules = &rules
	s.setTaker(best, inst.ID)
	return nil
}

// furthest is the placeholder that has come furthest of those that are free; nil: each is taken.
func (s *State) furthest(r *reservation) (best *entry) {
	for _, p := range sorted(r.members) {
		if free(p) && (best == nil || s.further(p, best)) {
			best = p
		}
	}
	return best
}

// further says whether a placeholder has come further than another. A new owner of the partition takes no host for
// silent; one that it has heard already is better.
func (s *State) further(p, than *entry) bool {
	if is := s.ready(p); is != s.ready(than) {
		return is
	}
	if is := s.heard(p); is != s.heard(than) {
		return is
	}
	return p.inst.State > than.inst.State
}

func noReservation(detail string) *compute.Reason {
	return &compute.Reason{Code: compute.NoSuchReservation, Detail: detail}
}

// sameQueue says whether a boot asks for what a placeholder is of, but for the class.
func sameQueue(p, inst *compute.Instance) bool {
	return compute.NameQueue(p.Boot.Flavor, p.Boot.With) == compute.NameQueue(inst.Boot.Flavor, inst.Boot.With)
}

// setTaker writes down who has a placeholder. Nothing follows from that for any host.
func (s *step) setTaker(p *entry, taker compute.InstanceID) {
	s.note(p, func(inst *compute.Instance) { inst.Boot.TakenBy(taker) })
}

// reservationChanged has a placeholder and its taker follow each other, once one of them has another record.
func (s *step) reservationChanged(e *entry, was *compute.Instance) {
	switch {
	case e.inst.IsPlaceholder():
		s.placeholderChanged(e, was)
		s.touchReservation(e.inst)
	case taking(e.inst):
		s.takerChanged(e)
		s.touchReservation(e.inst)
	case s.left[e.inst.ID] != nil:
		s.takerChanged(e)
	}
}

func (s *step) placeholderChanged(p *entry, was *compute.Instance) {
	t := s.takerOf(p.inst)
	if t == nil {
		return
	}
	waits, lost := t.inst.State == compute.StateQueued, was != nil && was.State == compute.StateActive &&
		(p.inst.State != compute.StateActive || p.inst.Attempt != was.Attempt)
	switch {
	case !p.inst.HoldsRoom() && waits && t.inst.ActiveAt.IsZero():
		s.losePlaceholder(t, p, lost)
	case !p.inst.HoldsRoom():
		s.leavePlaceholder(t, lost)
	case lost && waits && t.inst.PublishAt.IsZero():
		s.change(t, func(inst *compute.Instance) { requeue(inst, time.Time{}) }) // what that host has prepared is in no room
	case was != nil && was.State != p.inst.State && waits && t.inst.PublishAt.IsZero():
		s.emitEffects(t)
	}
}

// leavePlaceholder has a taker be an instance as any other, since its placeholder ends: one that is on a host, or that was
// and waits for the next. What was prepared for that in the room of the placeholder is in no room, if that is lost.
func (s *step) leavePlaceholder(t *entry, lost bool) {
	if t.inst.State == compute.StateQueued {
		s.change(t, func(inst *compute.Instance) {
			if inst.Boot.Takes(compute.InPlaceholder{}); lost {
				requeue(inst, inst.PublishAt)
			}
		})
		return
	}
	s.note(t, func(inst *compute.Instance) { inst.Boot.Takes(compute.InPlaceholder{}) })
}

// takerChanged has a placeholder be free once its taker has ended. One that its host is to give up counts for itself as
// soon as its taker is not there.
func (s *step) takerChanged(t *entry) {
	p := s.left[t.inst.ID]
	if p != nil && !t.inst.State.OnHost() {
		s.setTaker(p, "")
	}
	if p = s.placeholderOf(t.inst); p == nil || p.inst.Boot.Placeholder().Taker != t.inst.ID {
		return
	}
	waits := p.inst.State == compute.StateQueued && (p.pub.state == heldForReservation || p.inst.Boot.Placeholder().Kept)
	if t.inst.State.Ended() {
		s.setTaker(p, "")
	}
	if waits && !t.inst.State.OnHost() {
		s.offerKept(p)
	}
}

// noteKept has the record of a placeholder say that it is in no queue, as long as what has taken it is on a host. It looks
// at the next version before that is the record.
func (s *State) noteKept(next *compute.Instance) {
	if is := next.Boot.Placeholder(); is.Of != "" && is.Kept != s.kept(next) {
		next.Boot.Keep(!is.Kept)
	}
}

// kept says whether a placeholder that waits is not to be offered, since its taker is on a host.
func (s *State) kept(p *compute.Instance) bool {
	t := s.takerOf(p)
	return p.State == compute.StateQueued && t != nil && t.inst.State.OnHost()
}

// offerKept offers a placeholder of which the taker is on no host any more.
func (s *step) offerKept(p *entry) {
	if p.inst.Boot.Placeholder().Kept {
		s.note(p, func(*compute.Instance) {}) // noteKept sees that it is not kept any more
	}
	s.emitEffects(p)
}

// reservationLets says whether a placeholder, or what takes one, may be offered now.
func (s *step) reservationLets(e *entry) bool {
	inst := e.inst
	if inst.IsPlaceholder() {
		return s.view.ReadReserved && !s.kept(inst)
	}
	if !taking(inst) {
		return true
	}
	p := s.placeholderOf(inst)
	return p != nil && p.inst.State == compute.StateActive && p.inst.Host != s.losing && !s.at().Before(fromOf(p))
}

// fromOf is from when on something may start in the room of a placeholder.
func fromOf(p *entry) time.Time { return p.inst.Boot.Placeholder().From }

// holdForReservation keeps a placeholder, or a taker, until it may be offered.
func (s *step) holdForReservation(e *entry) {
	s.unpublish(e)
	e.pub.state, e.pub.at = heldForReservation, s.at()
}

// reservedDue is when what is kept for a reservation is looked at again: when its time has come, and now and then. A new
// owner does not know what was offered; before its time no taker was.
func (s *State) reservedDue(e *entry) time.Time {
	var begins time.Time
	if p := s.placeholderOf(e.inst); p != nil && fromOf(p).After(e.pub.at) {
		begins = fromOf(p)
	}
	switch {
	case e.pub.state == unknown:
		return begins
	case e.pub.state != heldForReservation:
		return time.Time{}
	case e.inst.IsPlaceholder():
		return e.pub.at.Add(s.opts.GroupEvery)
	}
	return earliest(e.pub.at.Add(s.opts.RepublishAfter), begins)
}

// asTaker is what a taker's work is offered as: to the host of its placeholder, with that.
func (s *step) asTaker(e *entry, effect Effect) Effect {
	publish, queued := effect.(Publish)
	p := s.placeholderOf(e.inst)
	if !queued || p == nil {
		return effect
	}
	build := publish.Build
	build.In = compute.InPlaceholder{ID: p.inst.ID, Attempt: p.inst.Attempt}
	return tellBuild(p.inst.Host, e.inst, build)
}

// refuseTaker is why a host may not have what takes a placeholder: that is elsewhere. Nil: it may.
func (s *step) refuseTaker(e *entry, r compute.Report) *compute.Reason {
	if !taking(e.inst) {
		return nil
	}
	if p := s.placeholderOf(e.inst); p == nil || p.inst.State != compute.StateActive || p.inst.Host != r.Host {
		return attemptOver(r, "it is for the room of placeholder "+string(e.inst.Boot.In().ID)+", which is not here")
	}
	return nil
}

// takerRefused hears that the host of a placeholder does not make what has taken it: it is drained, or disabled, or knows
// nothing of the placeholder. That is held elsewhere then, once this host has said that it holds it no more.
func (s *step) takerRefused(e *entry, r compute.Report) {
	p := s.placeholderOf(e.inst)
	if p == nil || e.inst.Attempt != r.Attempt || p.inst.State != compute.StateActive || p.inst.Host != r.Host ||
		!e.inst.PublishAt.IsZero() {
		return
	}
	s.holdForReservation(e)
	s.reschedule(e)
	s.emit(tell(p.inst, compute.CommandDelete, s.at()))
}

// heldWell is how long a placeholder was held if its host did not lose it at once.
const heldWell = 5 * time.Minute

// holdElsewhere has another host hold a placeholder that this one does not: nothing is lost with it. With each time in a
// row it waits longer. Of the failures the first of that row and the last are kept.
func (s *step) holdElsewhere(e *entry, f compute.Failure) {
	ran := e.inst.State == compute.StateActive
	failures := append(slices.Clone(e.inst.Failures), f)
	if ran && s.at().Sub(e.inst.ActiveAt) >= heldWell {
		failures = []compute.Failure{f}
	}
	if len(failures) > compute.DefaultAttempts {
		failures = slices.Delete(failures, 1, 2)
	}
	reason := &compute.Reason{Code: compute.BuildFailed, Host: f.Host, Attempt: f.Attempt, Class: f.Class, Detail: f.Message}
	if ran {
		reason.Code, reason.Detail = compute.HostLost, "the host does not hold it any more: "+f.Message
	}
	s.change(e, func(inst *compute.Instance) {
		requeue(inst, s.at().Add(s.opts.retry(1+int(f.Attempt-failures[0].Attempt))))
		inst.Failures, inst.Reason = failures, reason
	})
}

// endPlaceholder ends one of which the time is over.
func (s *step) endPlaceholder(e *entry) {
	why := reservationEnded(e.inst, "its time is over")
	if e.inst.State == compute.StateQueued {
		s.deleted(e, why)
		return
	}
	s.destroy(e, why)
}

// isOver says whether a placeholder ends because the time of its reservation is over.
func isOver(p *compute.Instance) bool {
	return p.Reason != nil && p.Reason.Code == compute.ReservationEnded
}

// whyEnded is why what waits for the room of a placeholder that has ended does so no more.
func whyEnded(p *compute.Instance) *compute.Reason {
	if isOver(p) {
		return p.Reason
	}
	how := "was deleted"
	if p.State == compute.StateError {
		how = "has failed: " + p.Reason.Detail
	}
	return reservationEnded(p, fmt.Sprintf("its placeholder %s %s; no other one was free", p.ID, how))
}

func reservationEnded(p *compute.Instance, why string) *compute.Reason {
	return &compute.Reason{
		Code: compute.ReservationEnded, Detail: fmt.Sprintf("reservation %s: %s", p.Boot.Placeholder().Of, why),
	}
}

// waitsForReservation is why what takes a placeholder waits; nil: it takes none.
func (s *State) waitsForReservation(e *entry) *compute.Reason {
	if !taking(e.inst) {
		return nil
	}
	p := s.placeholderOf(e.inst)
	if p == nil {
		return nil
	}
	return &compute.Reason{Code: compute.ReservationWaits, Detail: compute.WaitsIn(p.inst, s.lastNow)}
}
