// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// publication is what became of the work of a queued instance. It is begun anew
// with every load and decides only whether to publish again, and when a set is granted.
//
//	 unpublished ─▶ pending ─▶ known ─▶ passed ──▶ pending, again (a denied claim: pending ─▶ passed)
//	     │           ▲   │                           ▲
//	     ▼           │   └─▶ unknown (or loaded) ────┘
//	awaitingQueue ───┘
//	heldByGroup ─────┤
//	heldByShare ─────┤
//	heldForReservation
type publication struct {
	state       progress
	told        bool            // it was offered to one host
	landed      bool            // told only: that is in its stream for certain
	republished int32           // how often this attempt was published again, but after failures and denials
	at          time.Time       // when it was published, or loaded; or began to await its queue, or was last looked at
	topic       compute.TopicID // the queue's, as it was listed then
	offset      int64           // known only
	index       int32           // in queue.known or share.held
	number      uint32          // in share.line
	share       *share          // of its project; nil: it is in none, neither held nor in the line
	claims      *claims         // nil: it was never claimed
}

// claims are those of an attempt that waits.
type claims struct {
	kept *keptClaim   // state claimed only
	over []hostsClaim // those that were denied, or kept and are not any more; the last heard is the last
	lost time.Time    // when the last that was kept was lost; zero: none was
}

type hostsClaim struct {
	host  compute.HostID
	claim compute.ClaimID
}

// ensureClaims returns what is known of the claims, and begins to keep it with the first.
func (p *publication) ensureClaims() *claims {
	if p.claims == nil {
		p.claims = &claims{}
	}
	return p.claims
}

type progress uint8

const (
	unpublished        progress = iota // not due, or no longer queued
	awaitingQueue                      // its queue is not listed
	heldByGroup                        // no host may have it now, by the rule of its group
	heldByShare                        // its project has as many in the queue as it may
	heldForReservation                 // a placeholder, or what takes one, that is not to be offered now
	pending                            // published; where it landed is not known yet
	known                              // published at an offset
	passed                             // out of the queue, and nobody's: lost, unless a claim comes
	unknown                            // perhaps published, at an offset that is not known
	claimed                            // a host has claimed it, and waits for the rest of its set
	carried                            // published with the one that leads its set, which is offered whole
)

// queue is what waits in one queue, as far as this partition knows. There is one for each
// queue that was ever asked for, until the partition is loaded again.
type queue struct {
	name     compute.QueueName
	timer    // of the next question
	awaiting map[*entry]bool
	known    heap[*entry] // by offset: the least is the first to be passed
	asked    time.Time
}

func (s *State) queue(name compute.QueueName) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{name: name, awaiting: map[*entry]bool{}, known: heap[*entry]{
			less:  func(a, b *entry) bool { return a.pub.offset < b.pub.offset },
			index: func(e *entry) *int32 { return &e.pub.index },
		}}
		q.timer = s.newTimer(q)
		s.queues[name] = q
	}
	return q
}

// awaitQueue keeps work until its queue is listed.
func (s *State) awaitQueue(e *entry) {
	s.unpublish(e)
	e.pub.state, e.pub.at = awaitingQueue, s.lastNow
	s.queue(queueOf(e)).awaiting[e] = true
}

// awaitedEnough is when it is looked whether a queue that work awaits will be listed at all; zero: it awaits none.
func (s *State) awaitedEnough(e *entry) time.Time {
	if e.pub.state != awaitingQueue {
		return time.Time{}
	}
	return e.pub.at.Add(s.opts.RepublishAfter)
}

// lookForQueue ends work that awaits a queue which will not be made: its flavor or a value that it chose was removed at
// the time at which it was admitted.
func (s *step) lookForQueue(e *entry) {
	_, gone := s.view.fromCatalog(e.inst.Boot)
	if gone == nil || e.inst.Whole() != "" || s.view.CatalogBehind {
		e.pub.at = s.now
		s.reschedule(e)
		return
	}
	s.end(e, &compute.Reason{
		Code: compute.QueueClosedReason, Detail: fmt.Sprintf("queue %s is not made: %s", e.inst.Queue, gone.Detail),
	})
}

// releaseListed publishes what awaited queues that are listed now, in the order it was
// admitted, and no longer trusts the offsets of what went to topics that are not theirs
// any more.
func (s *step) releaseListed(names []compute.QueueName) {
	for _, name := range names {
		q := s.queues[name]
		if q == nil || !s.view.listed(name) {
			continue
		}
		s.recheckTopic(q)
		waiting := sorted(q.awaiting)
		slices.SortStableFunc(waiting, func(a, b *entry) int { return a.inst.QueuedAt.Compare(b.inst.QueuedAt) })
		for _, e := range waiting {
			s.emitEffects(e)
		}
	}
}

// releaseLoaded publishes what was loaded and awaits a queue that is listed: that its owner before did so is nowhere
// written.
func (s *step) releaseLoaded() {
	if s.unreleased {
		s.unreleased = false
		s.releaseListed(slices.Sorted(maps.Keys(s.queues)))
	}
}

// recheckTopic finds out that a queue's topic was made anew: where work landed in the
// one before says nothing about this one, whose offsets begin again.
func (s *step) recheckTopic(q *queue) {
	for _, e := range slices.Clone(q.known.items) {
		if !s.sameTopic(e) {
			q.known.remove(e)
			e.pub.state = unknown
			s.reschedule(e)
		}
	}
	s.scheduleAsk(q)
}

// sameTopic says whether an attempt was published to the topic its queue has now.
func (s *step) sameTopic(e *entry) bool { return e.pub.topic == s.view.Queues[queueOf(e)].TopicID }

// unpublish forgets where an attempt waits; how often it was published stays.
func (s *State) unpublish(e *entry) {
	if e.pub == nil {
		return
	}
	s.setOut(e, false)
	s.leaveShare(e)
	switch e.pub.state {
	case heldByGroup:
		s.unhold(e)
	case awaitingQueue:
		delete(s.queue(queueOf(e)).awaiting, e)
	case known:
		q := s.queue(queueOf(e))
		q.known.remove(e)
		s.scheduleAsk(q)
	}
	*e.pub = publication{republished: e.pub.republished, claims: e.pub.claims}
}

// published hears where a publication landed. One that is not the last of the
// current attempt no longer matters.
func (s *step) published(in Published) {
	e := s.instances[in.Instance]
	if e == nil || e.inst.State != compute.StateQueued || e.inst.Attempt != in.Attempt || !e.pub.at.Equal(in.At) ||
		e.pub.told != in.Told {
		return
	}
	if in.Outcome != Delivered && (e.pub.told || e.pub.state == pending) {
		e.pub.republished = max(0, e.pub.republished-1) // a broker that was away for long does not put it off
	}
	switch {
	case in.Outcome == TopicGone && e.inst.Whole() != "":
		s.decideWhole(s.setOf(e.inst), "")
	case in.Outcome == TopicGone && !s.topicExpected(e.inst):
		s.end(e, topicGone(e.inst))
	case e.pub.told:
		e.pub.landed = in.Outcome == Delivered
		s.reschedule(e)
	case e.pub.state != pending:
	case in.Outcome != Delivered, !s.sameTopic(e):
		e.pub.state = unknown
		s.reschedule(e)
	default:
		e.pub.state, e.pub.offset = known, in.Offset
		q := s.queue(queueOf(e))
		q.known.fix(e)
		s.scheduleAsk(q)
	}
}

// topicExpected says whether the work's topic is sure to be there (again): its queue
// is listed and open, so a broker that does not know the topic is behind, or
// the queue manager is about to make it anew.
func (s *step) topicExpected(inst *compute.Instance) bool {
	q, listed := s.view.Queues[inst.Queue]
	return listed && q.State == compute.QueueOpen && !pinned(inst)
}

func topicGone(inst *compute.Instance) *compute.Reason {
	if pinned(inst) {
		return &compute.Reason{
			Code: compute.PinnedHostUnavailable, Host: inst.Boot.Host, Detail: "there is no such host",
		}
	}
	return &compute.Reason{Code: compute.QueueClosedReason, Detail: fmt.Sprintf("queue %s was removed", inst.Queue)}
}

// scheduleAsk sets when the queue's start offset is asked: once its first
// publication has gone unclaimed for long enough, and not too often. Offsets
// rise with time, so no other needs looking at.
func (s *State) scheduleAsk(q *queue) { s.schedule(&q.timer, s.askAt(q)) }

func (s *State) askAt(q *queue) time.Time {
	if len(q.known.items) == 0 {
		return time.Time{}
	}
	due := q.known.top().pub.at.Add(s.opts.RepublishAfter)
	if next := q.asked.Add(s.opts.AskEvery); next.After(due) {
		return next
	}
	return due
}

// fire asks, unless what waited has ended in this very tick. A queue may have been removed
// beside work that was just published to it: it has gone with the topic, and nobody is there
// to be asked.
func (q *queue) fire(s *step, until time.Time) {
	if due := s.askAt(q); !due.IsZero() && !due.After(until) {
		if q.asked = s.now; s.view.listed(q.name) {
			s.emit(AskStart{Queue: q.name})
		} else {
			s.recheckTopic(q)
		}
	}
	s.scheduleAsk(q)
}

// startMoved hears up to where a queue is finished with. What lies before and is
// still unclaimed is published again when its own time has come: its timer lets
// a claim that is already in the log go first.
func (s *step) startMoved(name compute.QueueName, start int64) {
	q := s.queues[name]
	if q == nil {
		return
	}
	for len(q.known.items) > 0 && q.known.top().pub.offset < start {
		e := q.known.top()
		q.known.remove(e)
		e.pub.state = passed
		s.reschedule(e)
	}
	s.scheduleAsk(q)
}

// takenInVain hears that a claim of the present attempt is denied: its host has taken the work out of the queue. The
// queue may never say so, since it is finished with nothing that lies behind work which no host takes. That is no loss,
// after which work is published ever later.
func (s *step) takenInVain(e *entry, r compute.Report) {
	if e == nil || e.pub == nil || r.Attempt != e.inst.Attempt || e.wasDenied(r) {
		return
	}
	switch e.pub.state {
	case known:
		q := s.queue(queueOf(e))
		q.known.remove(e)
		s.scheduleAsk(q)
	case pending:
	default:
		return
	}
	e.pub.state, e.pub.republished = passed, max(0, e.pub.republished-1)
	s.reschedule(e)
}

// republishAt is when the work of an attempt is published once more; zero if there is
// no sign that it was lost.
func (s *State) republishAt(e *entry) time.Time {
	if e.pub.state != passed && e.pub.state != unknown {
		return time.Time{}
	}
	wait := s.opts.republish(int(e.pub.republished))
	if e.pub.state == passed {
		// No host finds it, however many have room. What all hosts refused must not wait long for one that is enabled.
		wait = min(wait, s.opts.RepublishPassed)
	}
	return e.pub.at.Add(wait)
}

// republish publishes the work of an attempt once more. What is in the stream of a silent host would only be there
// twice: all that is offered to a host is offered again once it is heard (offerAnew). Until then it is looked at again.
func (s *step) republish(e *entry) {
	if e.pub.landed {
		if h := s.hosts[s.toldTo(e)]; h != nil && h.silent {
			e.pub.at = s.at()
			s.reschedule(e)
			return
		}
	}
	e.pub.republished++
	e.giveWay(s.at())
	s.emitEffects(e)
}

// toldTo is the host that work was told to, and no other.
func (s *State) toldTo(e *entry) compute.HostID {
	switch p, g := s.placeholderOf(e.inst), e.group(); {
	case p != nil:
		return p.inst.Host
	case pinned(e.inst):
		return e.inst.Boot.Host
	case g != nil:
		return compute.HostID(g.place)
	}
	return ""
}
