// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// timer is something that is due. An entry has one for all that may become due
// for it, so has a host for its silence and a queue for its next question.
type timer struct {
	due   time.Time
	made  uint64 // of two due at once, the older goes first
	index int32
	owner interface {
		// fire does what is due at until; it sets the timer anew if more will be.
		fire(s *step, until time.Time)
	}
}

func sooner(a, b *timer) bool {
	if c := a.due.Compare(b.due); c != 0 {
		return c < 0
	}
	return a.made < b.made
}

func (s *State) newTimer(owner interface{ fire(*step, time.Time) }) timer {
	s.made++
	return timer{made: s.made, owner: owner}
}

// schedule sets when a timer is due; the zero time is never.
func (s *State) schedule(t *timer, due time.Time) {
	if due.IsZero() {
		s.timers.remove(t)
		return
	}
	t.due = due
	s.timers.fix(t)
}

// tick fires the timers that are due. All of them are taken out first, so that one which is set
// again while it fires waits for the next tick.
func (s *step) tick(until time.Time) {
	var due []*timer
	for len(s.timers.items) > 0 && !s.timers.top().due.After(until) {
		due = append(due, s.timers.top())
		s.timers.remove(s.timers.top())
	}
	for _, t := range due {
		t.owner.fire(s, until)
	}
}

// reschedule sets the timer of an entry by all that may become due for it.
func (s *State) reschedule(e *entry) { s.schedule(&e.timer, s.next(e)) }

func (s *State) next(e *entry) time.Time { return earliest(s.askEndAt(e), s.nextOfRecord(e)) }

func (s *State) nextOfRecord(e *entry) time.Time {
	inst := e.inst
	switch {
	case inst.State == compute.StateQueued:
		return earliest(
			inst.Deadline, s.noCapacity(e), inst.PublishAt, s.republishAt(e), s.softDue(e), s.awaitedEnough(e), s.reservedDue(e),
		)
	case inst.State.Ended():
		return endedAt(inst).Add(s.opts.KeepEnded)
	case inst.HoldsRoom():
		return earliest(s.repeatAt(e), inst.Boot.Placeholder().Until)
	case !noticeDue(inst).IsZero():
		return earliest(noticeDue(inst), s.repeatAt(e))
	}
	return s.repeatAt(e)
}

// repeatAt is when the host of an instance is told again what it has not answered; zero: there is nothing, or it is
// silent.
func (s *State) repeatAt(e *entry) time.Time {
	if s.unanswered(e) {
		repeat := e.toldAt.Add(s.opts.RepeatEvery)
		if again := s.hosts[e.inst.Host].askAgainAt[e]; again.After(e.toldAt) {
			return earliest(repeat, again)
		}
		return repeat
	}
	return time.Time{}
}

// noCapacity is when a request that does not want to wait has waited enough;
// zero if it wants to. Whether a claim was kept for it before it was loaded is in no record, so that its
// time begins anew then.
func (s *State) noCapacity(e *entry) time.Time {
	if e.inst.Boot.OnNoCapacity != compute.FailAtOnce || e.kept() != nil {
		return time.Time{}
	}
	since := latest(e.inst.UnclaimedSince(), e.keptLost())
	if e.loaded {
		since = latest(since, s.loadedAt)
	}
	if p := s.placeholderOf(e.inst); p != nil {
		since = latest(since, fromOf(p))
	}
	return since.Add(s.opts.NoCapacityAfter)
}

// unanswered says whether the host has been told something it has not answered
// and can hear it again.
func (s *State) unanswered(e *entry) bool {
	inst := e.inst
	if h := s.hosts[inst.Host]; h == nil || h.silent {
		return false
	}
	return inst.State != compute.StateActive || inst.Command != nil || inst.Confirm || e.confirmAsked || going(inst)
}

// fire does the first thing that is due; one is enough, since each either
// changes the record or puts the rest off.
func (e *entry) fire(s *step, until time.Time) {
	due := func(t time.Time) bool { return !t.IsZero() && !t.After(until) }
	inst := e.inst
	switch {
	case due(s.askEndAt(e)):
		s.hosts[hostOf(inst)].askEndAt = time.Time{}
		s.askStreamEnd(e)
		s.reschedule(e)
	case inst.State.Ended():
		if !due(s.next(e)) {
			s.reschedule(e)
			return
		}
		s.forget(e)
	case inst.HoldsRoom() && due(inst.Boot.Placeholder().Until):
		s.endPlaceholder(e)
	case inst.State != compute.StateQueued:
		if !s.takeWhenDue(e, until) {
			s.repeatUnanswered(e)
		}
	case due(inst.Deadline):
		s.end(e, s.deadlineExceeded(e))
	case due(s.noCapacity(e)):
		s.end(e, s.notTaken(e))
	case due(inst.PublishAt):
		s.change(e, func(inst *compute.Instance) { inst.PublishAt = time.Time{} })
	case due(s.softDue(e)):
		e.in.gaveUp = true
		if e.pub.told || e.in.heldAs != "" {
			s.emitEffects(e) // else it is offered to all already
			return
		}
		s.reschedule(e)
	case due(s.awaitedEnough(e)):
		s.lookForQueue(e)
	case due(s.reservedDue(e)):
		s.emitEffects(e)
	case due(s.republishAt(e)):
		s.republish(e)
	default:
		s.reschedule(e)
	}
}

// repeatUnanswered says again what a host that is heard has not answered.
func (s *step) repeatUnanswered(e *entry) {
	if s.unanswered(e) {
		s.repeatCommands(e)
		return
	}
	s.reschedule(e)
}

func (s *step) deadlineExceeded(e *entry) *compute.Reason {
	inst := e.inst
	why := s.view.capacity(cmp.Or(inst.Whole(), inst.Queue))
	switch held, set, room := s.waitsForGroup(e), s.waitsForSet(inst), s.waitsForReservation(e); {
	case room != nil:
		why = room
	case held != nil:
		why = held
	case set != nil:
		why = set
	case pinned(inst):
		why = &compute.Reason{Code: compute.PinnedHostUnavailable, Host: inst.Boot.Host}
	}
	return &compute.Reason{
		Code: compute.DeadlineExceeded, Host: why.Host, Hosts: why.Hosts,
		Detail: fmt.Sprintf("unclaimed for %s: %s", inst.Boot.Deadline, describeWait(why)),
	}
}

// describeWait is why something waited: of a group or a set what holds it up, else the code.
func describeWait(why *compute.Reason) string {
	if why.Code == compute.GroupRule || why.Code == compute.SetWaits || why.Code == compute.ReservationWaits {
		return why.String()
	}
	return string(why.Code)
}

func (s *step) notTaken(e *entry) *compute.Reason {
	inst := e.inst
	if held := s.waitsForGroup(e); held != nil {
		return held
	}
	if room := s.waitsForReservation(e); room != nil {
		return room
	}
	if pinned(inst) {
		return &compute.Reason{
			Code: compute.PinnedHostUnavailable, Host: inst.Boot.Host,
			Detail: fmt.Sprintf("the host has not taken it within %s", s.opts.NoCapacityAfter),
		}
	}
	return s.view.capacity(cmp.Or(inst.Whole(), inst.Queue))
}

// earliest ignores zero times; zero if all are.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// latest is the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
