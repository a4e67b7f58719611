// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// publication is what became of the work of a queued instance. It is begun anew
// with every load and decides only whether to publish again.
//
//	unpublished ─▶ pending ─▶ known ─▶ passed ──▶ pending, again
//	     │          ▲   │                           ▲
//	     ▼          │   └─▶ unknown (or loaded) ────┘
//	    held ───────┘
type publication struct {
	state  progress
	at     time.Time       // when it was published, or loaded
	topic  compute.TopicID // the queue's, as it was listed then
	offset int64           // known only
	again  int             // how often this attempt was published again
	place  int             // in queue.known
}

type progress uint8

const (
	unpublished progress = iota // not due, or no longer queued
	held                        // its queue is not listed
	pending                     // published; where it landed is not known yet
	known                       // published at an offset
	passed                      // the queue is finished with that offset: lost, unless a claim comes
	unknown                     // perhaps published, nobody knows where
)

// queue is what waits in one queue, as far as this partition knows. There are
// as many as queues that anybody ever asked for.
type queue struct {
	name  compute.QueueName
	timer // of the next question
	held  map[*entry]bool
	known heap[*entry] // by offset: the least is the first to be passed
	asked time.Time
}

func (s *State) queue(name compute.QueueName) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{name: name, held: map[*entry]bool{}, known: heap[*entry]{
			less:  func(a, b *entry) bool { return a.pub.offset < b.pub.offset },
			place: func(e *entry) *int { return &e.pub.place },
		}}
		q.timer = s.newTimer(q)
		s.queues[name] = q
	}
	return q
}

// hold keeps work until its queue is listed.
func (s *State) hold(e *entry) {
	s.unpublish(e)
	e.pub.state = held
	s.queue(e.inst.Queue).held[e] = true
}

// release publishes what was held for queues that are listed now, in the order
// it was admitted, and doubts what went to topics that are not theirs any more.
func (s *step) release(names []compute.QueueName) {
	for _, name := range names {
		q := s.queues[name]
		if q == nil || !s.view.listed(name) {
			continue
		}
		s.doubt(q)
		waiting := sorted(q.held)
		slices.SortStableFunc(waiting, func(a, b *entry) int { return a.inst.QueuedAt.Compare(b.inst.QueuedAt) })
		for _, e := range waiting {
			s.follow(e)
		}
	}
}

// doubt finds out that a queue's topic was made anew: where work landed in the
// one before says nothing about this one, whose offsets begin again.
func (s *step) doubt(q *queue) {
	for _, e := range slices.Clone(q.known.items) {
		if !s.current(e) {
			q.known.remove(e)
			e.pub.state = unknown
			s.reschedule(e)
		}
	}
	s.question(q)
}

// current says whether an attempt was published to the topic its queue has now.
func (s *step) current(e *entry) bool { return e.pub.topic == s.view.Queues[e.inst.Queue].TopicID }

// unpublish forgets where an attempt waits; how often it was published stays.
func (s *State) unpublish(e *entry) {
	if e.pub == nil {
		return
	}
	switch e.pub.state {
	case held:
		delete(s.queue(e.inst.Queue).held, e)
	case known:
		q := s.queue(e.inst.Queue)
		q.known.remove(e)
		s.question(q)
	}
	*e.pub = publication{again: e.pub.again}
}

// published hears where a publication landed. One that is not the last of the
// current attempt no longer matters.
func (s *step) published(in Published) {
	e := s.instances[in.Instance]
	if e == nil || e.inst.State != compute.StateQueued || e.inst.Attempt != in.Attempt || !e.pub.at.Equal(in.At) {
		return
	}
	switch {
	case in.Outcome == TopicGone && !s.promised(e.inst):
		s.end(e, gone(e.inst))
	case e.pub.state != pending:
	case in.Outcome != Delivered, !s.current(e):
		e.pub.state = unknown
		s.reschedule(e)
	default:
		e.pub.state, e.pub.offset = known, in.Offset
		q := s.queue(e.inst.Queue)
		q.known.fix(e)
		s.question(q)
	}
}

// promised says whether the work's topic is sure to be there (again): its queue
// is listed and open, so a broker that does not know the topic is behind, or
// the queue manager is about to make it anew.
func (s *step) promised(inst *compute.Instance) bool {
	q, listed := s.view.Queues[inst.Queue]
	return listed && q.State == compute.QueueOpen && !pinned(inst)
}

func gone(inst *compute.Instance) *compute.Reason {
	if pinned(inst) {
		return &compute.Reason{
			Code: compute.PinnedHostUnavailable, Host: inst.Boot.Host, Detail: "there is no such host",
		}
	}
	return &compute.Reason{Code: compute.QueueClosedReason, Detail: fmt.Sprintf("queue %s was removed", inst.Queue)}
}

// question sets when the queue's start offset is asked: once its first
// publication has gone unclaimed for long enough, and not too often. Offsets
// rise with time, so no other needs looking at.
func (s *State) question(q *queue) { s.schedule(&q.timer, s.askAt(q)) }

func (s *State) askAt(q *queue) time.Time {
	if len(q.known.items) == 0 {
		return time.Time{}
	}
	due := q.known.top().pub.at.Add(s.opts.LostAfter)
	if next := q.asked.Add(s.opts.AskEvery); next.After(due) {
		return next
	}
	return due
}

// fire asks, unless what waited has ended in this very tick.
func (q *queue) fire(s *step, until time.Time) {
	if due := s.askAt(q); !due.IsZero() && !due.After(until) {
		q.asked = s.now
		s.emit(AskStart{Queue: q.name})
	}
	s.question(q)
}

// passed hears up to where a queue is finished with. What lies before and is
// still unclaimed is published again when its own time has come: its timer lets
// a claim that is already in the log go first.
func (s *step) passed(name compute.QueueName, start int64) {
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
	s.question(q)
}

// again is when the work of an attempt is published once more; zero if there is
// no sign that it was lost.
func (s *State) again(e *entry) time.Time {
	if e.pub.state != passed && e.pub.state != unknown {
		return time.Time{}
	}
	return e.pub.at.Add(s.opts.lost(e.pub.again))
}
