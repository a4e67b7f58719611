// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// The instances of a set start all or not at all. Their boots are admitted in one step, against quota as one; then each is
// published as any other. A claim of one is not answered but *kept*, and its host keeps what it has prepared, until each
// has one: then all are granted in one step, which is one batch of the log. Kept claims are not written down: hosts repeat
// claims until they are answered, so a new owner of the partition hears of them again.
//
//	 waiting ──each has a claim──▶ granted ──each has run──▶ (as if there were no set)
//	  │   ▲                          │
//	  │   └─ after a pause ──┐       └─ one fails for good: the others are deleted
//	  ├─ no new claim for a time: all claims are given back
//	  ├─ a claim is not repeated for a time: its host is asked, and one that it does not know is offered again
//	  └─ one fails for good, is deleted, or its deadline passes: all end
//
// Two sets that have each a part of the room give it back after a while, and come again after pauses that differ, and grow
// with each try; so one of them finds the room that both need (decision 0063).

// set is what a partition knows of one set, as long as one of its instances has not ended.
type set struct {
	id      compute.InstanceID
	timer   // of the present try
	members map[*entry]bool
	size    uint32    // how many it has if none has ended
	granted bool      // each was granted a host
	claimed int       // members whose claim is kept
	since   time.Time // when this try began: with its first claim, once there is one
	heard   time.Time // when the last claim of it was kept
	ending  bool      // endSet is under way
	// See whole.go:
	unclaimed int  // tries in a row in which it was offered whole, and nobody claimed any
	postponed bool // it is among State.wholes
}

// keptClaim is a claim that waits for those of the rest of its set.
type keptClaim struct {
	compute.Report
	heard time.Time // when it was last repeated
	asked time.Time // when its host was last asked whether it has it; zero: it was not
}

// kept is the claim of an instance whose set waits; nil: it was not claimed.
func (e *entry) kept() *keptClaim {
	if e.pub == nil || e.pub.claims == nil {
		return nil
	}
	return e.pub.claims.kept
}

// keptLost is when the last claim that was kept for this attempt was lost; zero: none was.
func (e *entry) keptLost() time.Time {
	if e.pub.claims == nil {
		return time.Time{}
	}
	return e.pub.claims.lost
}

// setOf is the set of an instance; nil: it is of none, or has ended.
func (s *State) setOf(inst *compute.Instance) *set {
	if inst == nil || inst.State.Ended() {
		return nil
	}
	return s.sets[inst.Boot.Set().ID]
}

// joinSet makes the set of an entry's instance know it as it is now. It is called with each new version.
func (s *State) joinSet(e *entry, old *compute.Instance, now time.Time) {
	if e.inst == nil || e.inst.State.Ended() {
		if x := s.setOf(old); x != nil {
			if delete(x.members, e); len(x.members) == 0 {
				s.schedule(&x.timer, time.Time{})
				delete(s.sets, x.id)
			}
		}
		return
	}
	id := e.inst.Boot.Set().ID
	if id == "" {
		return
	}
	x := s.sets[id]
	if x == nil {
		x = &set{id: id, size: e.inst.Boot.Set().Size, members: map[*entry]bool{}}
		x.since, x.heard = latest(now, e.inst.PublishAt), latest(now, e.inst.PublishAt)
		x.timer = s.newTimer(x)
		s.sets[x.id] = x
	}
	x.granted = x.granted || e.inst.Boot.Set().Granted
	if !x.members[e] {
		x.members[e] = true
		s.scheduleSet(x)
	}
}

// tries is how often the claims of the set were given back.
func (x *set) tries() (n int) {
	for e := range x.members {
		n = max(n, triesOf(e.inst))
	}
	return n
}

// triesOf is that by the record of one of the set: each time its attempts rise, without a failure.
func triesOf(inst *compute.Instance) int { return max(0, int(inst.Attempt)-1-len(inst.Failures)) }

// scheduleSet sets when the present try of a set is over, or a host is to be asked about a claim of it.
func (s *State) scheduleSet(x *set) {
	if x.granted {
		s.schedule(&x.timer, time.Time{})
		return
	}
	due := s.tryOver(x)
	for e := range x.members {
		if k := e.kept(); k != nil {
			due = earliest(due, s.askAboutAt(k))
		}
	}
	s.schedule(&x.timer, due)
}

// tryOver is when the present try of a set is over.
func (s *State) tryOver(x *set) time.Time {
	due := x.since.Add(s.opts.SetTry)
	if x.claimed > 0 && x.wholeIn() == "" { // else one host has all of it in hand, and holds up no other set
		due = earliest(due, x.heard.Add(s.opts.setPatience(x.tries())))
	}
	return due
}

// askAboutAt is when the host of a claim is asked whether it has it, unless it repeats it: an agent that was killed may
// have claimed what the next one knows nothing of.
func (s *State) askAboutAt(k *keptClaim) time.Time {
	return latest(k.heard, k.asked).Add(s.opts.SetAsk)
}

// askAboutKept asks hosts about what they have claimed of a set and not repeated.
func (s *step) askAboutKept(x *set, until time.Time) {
	for _, e := range sorted(x.members) {
		if k := e.kept(); k != nil && !s.askAboutAt(k).After(until) {
			k.asked = s.now
			s.emit(Tell{Host: k.Host, Command: s.answer(compute.CommandConfirm, k.Report)})
		}
	}
	s.scheduleSet(x)
}

// fire asks hosts about claims, and ends a try that is over: what is claimed is given back, as others may need it.
// Where nobody has claimed anything the set is offered again: what was published of a later try than the first is void
// by now.
func (x *set) fire(s *step, until time.Time) {
	switch {
	case s.sets[x.id] != x || x.granted:
	case s.tryOver(x).After(until):
		s.askAboutKept(x, until)
	case len(x.members) < int(x.size):
		s.endSet(x, &compute.Reason{
			Code:   compute.SetFailed,
			Detail: fmt.Sprintf("set %s: %d of its %d instances are there", x.id, len(x.members), x.size),
		})
	case x.claimed == 0:
		x.since, x.heard = s.now, s.now
		s.offerAgain(x)
		s.scheduleSet(x)
	default:
		s.giveBack(x)
	}
}

// offerAgain offers a set of which nobody has claimed any in this try.
func (s *step) offerAgain(x *set) {
	if q := s.offerOtherwise(x); q != x.wholeIn() && s.allDue(x) {
		s.decideWhole(x, q)
		return
	}
	for _, e := range sorted(x.members) {
		if e.inst.PublishAt.IsZero() && triesOf(e.inst) > 0 {
			s.emitEffects(e)
		}
	}
}

// giveBack denies what is claimed of a set, and offers all of it again after a pause. The attempts rise, so that what of
// this try is still in queues is over.
func (s *step) giveBack(x *set) {
	at, whole := s.at().Add(s.setPause(x)), s.wholeFor(x)
	if s.view.CatalogBehind {
		whole = x.wholeIn() // the rule of its group may not be known
	}
	for _, e := range sorted(x.members) {
		s.change(e, func(inst *compute.Instance) {
			requeue(inst, at)
			offerIn(inst, whole)
		})
	}
	x.unclaimed = 0
	x.since, x.heard = at, at
	s.scheduleSet(x)
}

// setPatience is how long a set waits for the next claim, after that many tries: longer each time, as images may have to be
// fetched.
func (o Options) setPatience(tries int) time.Duration {
	return min(o.SetPatience+time.Duration(tries)*o.SetPatience/2, o.SetTry)
}

// setPause is how long a set leaves the room to others: longer after each try, and not the same for two sets. It grows
// faster than what a set holds room for, so however many sets there are, at some time most of them pause.
func (s *step) setPause(x *set) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, x.id, x.tries()) // a hash takes all
	pause := double(s.opts.SetPatience, x.tries(), s.opts.SetPauseMax)
	return pause/2 + time.Duration(h.Sum64()%uint64(pause))
}

// keepClaim keeps a claim of one of a set until the rest have one too.
func (s *step) keepClaim(e *entry, r compute.Report) {
	x := s.setOf(e.inst)
	switch {
	case e.kept() != nil:
		e.kept().heard = s.now // it is a repeat
		return
	case r.Message != "":
		s.emit(s.denial(r, attemptOver(r, "it could not be prepared")))
		s.failedAttempt(e, failure(r, s.at()))
		if !e.inst.State.Ended() {
			x.heard = latest(x.heard, e.inst.PublishAt) // the others wait for it
			s.scheduleSet(x)
		}
		return
	}
	s.unpublish(e)
	e.pub.ensureClaims().kept, e.pub.state = &keptClaim{Report: r, heard: s.now}, claimed
	if s.keeping[r.Host] == nil {
		s.keeping[r.Host] = map[*entry]bool{}
	}
	s.keeping[r.Host][e] = true
	if x.claimed++; x.claimed == 1 {
		x.since = s.now // however long nobody has taken any
		s.firstKept(x)
	}
	x.heard = latest(x.heard, s.now)
	s.regroup(e)
	s.reschedule(e)
	if x.claimed == len(x.members) && x.claimed == int(x.size) {
		s.grantSet(x)
		return
	}
	s.scheduleSet(x)
}

// keeps says whether this is the claim that is kept for an instance.
func (e *entry) keeps(r compute.Report) bool {
	return e != nil && e.kept() != nil && e.kept().Host == r.Host && e.kept().Claim == r.Claim
}

// dropKept forgets the claim of an instance whose set waits.
func (s *State) dropKept(e *entry, inst *compute.Instance) {
	if k := e.kept(); k != nil {
		e.pub.claims.kept = nil
		s.setOf(inst).claimed--
		if delete(s.keeping[k.Host], e); len(s.keeping[k.Host]) == 0 {
			delete(s.keeping, k.Host)
		}
	}
}

// loseKept offers an instance again whose claim is kept no longer, and is not kept again: its host has undone what it had.
func (s *step) loseKept(e *entry) {
	s.takeKept(e)
	s.emitEffects(e)
}

// takeKept is that without the offer.
func (s *step) takeKept(e *entry) {
	x := e.pub.claims
	e.noteOver(x.kept.Report)
	x.lost = s.at()
	s.dropKept(e, e.inst)
	s.regroup(e)
	e.pub.state = unpublished
	s.scheduleSet(s.setOf(e.inst))
}

// grantSet grants all of a set, in one step, unless one of the hosts may not have its part any more.
func (s *step) grantSet(x *set) {
	for _, e := range sorted(x.members) {
		r := e.kept().Report
		if why := cmp.Or(s.hostRefused(e, r), s.skewRefuses(e)); why != nil {
			s.emit(s.denial(r, why))
			s.loseKept(e)
		} else if s.now.Sub(e.kept().heard) >= s.opts.SilentAfter {
			s.loseKept(e)
		}
	}
	if x.claimed < len(x.members) {
		return
	}
	granted := compute.Set{ID: x.id, Size: x.size, Granted: true}
	for _, e := range sorted(x.members) {
		s.grant(e, e.kept().Report, granted)
	}
	s.scheduleSet(x)
}

// loseKeptOf takes from a host what it has claimed of sets.
func (s *step) loseKeptOf(id compute.HostID, lost func(*keptClaim) bool) {
	for _, e := range sorted(s.keeping[id]) {
		if e.kept() != nil && lost(e.kept()) {
			s.loseKept(e)
		}
	}
}

// denyKeptOf denies what is kept for members of a group whose rule is another now: none of them is on a host, so the new
// rule holds for them. It answers the members.
func (s *step) denyKeptOf(g *group) (denied []*entry) {
	for _, e := range sorted(g.members) {
		if k := e.kept(); k != nil {
			s.emit(s.denial(k.Report, attemptOver(k.Report, "the rule of its group was changed")))
			s.takeKept(e)
			denied = append(denied, e)
		}
	}
	return denied
}

// forgetKept hears the journal that a host has now: of what it claimed under another one it knows nothing.
func (s *step) forgetKept(id compute.HostID, journal compute.JournalID) {
	s.loseKeptOf(id, func(k *keptClaim) bool { return journal != "" && k.Journal != "" && k.Journal != journal })
}

// denyKept answers a claim that was kept, once its instance has another record: it ended, or was given back.
func (s *step) denyKept(e *entry, was *keptClaim, of *set) {
	why := e.inst.Reason
	if !e.inst.State.Ended() || why == nil {
		why = &compute.Reason{
			Code: compute.SetWaits, Host: was.Host, Attempt: was.Attempt,
			Detail: fmt.Sprintf("set %s has not got a host for each of its instances in time", of.id),
		}
	}
	s.emit(s.denial(was.Report, why))
}

// waitsForSet is why one of a set waits of which others have a host; nil: that is not why.
func (s *State) waitsForSet(inst *compute.Instance) *compute.Reason {
	x := s.setOf(inst)
	if x == nil || !inst.Waits() || x.claimed == 0 {
		return nil
	}
	return &compute.Reason{
		Code: compute.SetWaits, Detail: fmt.Sprintf("set %s: %d of %d instances have a host", x.id, x.claimed, x.size),
	}
}

// memberEnded ends the rest of a set if it cannot start whole any more: as long as it waits when one of it ends, and until
// each has run when one of it fails.
func (s *step) memberEnded(x *set, e *entry) {
	inst := e.inst
	failed := inst.State == compute.StateError && (inst.ActiveAt.IsZero() || !x.settled())
	if x.ending || inst.Boot.Set().Granted && !failed {
		return
	}
	why := "it was deleted"
	if inst.State == compute.StateError && inst.Reason != nil {
		why = inst.Reason.String()
	}
	s.endSet(x, setFailed(inst.ID, why))
}

// settled says whether each of a set has run.
func (x *set) settled() bool {
	for e := range x.members {
		if e.inst.ActiveAt.IsZero() {
			return false
		}
	}
	return true
}

// endSet ends all of a set that have not ended.
func (s *step) endSet(x *set, why *compute.Reason) {
	x.ending = true // the end of each is not again the end of all
	defer func() { x.ending = false }()
	for _, e := range sorted(x.members) {
		switch {
		case e.inst.State == compute.StateQueued:
			s.end(e, why)
		case running(e.inst):
			s.destroy(e, why)
		}
	}
}
