// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// opened is a fetch under way.
type opened struct {
	offer.Reserved
	queues map[compute.QueueName]bool
	chosen time.Time // when queues were chosen for it
	began  time.Time
	room   offer.Room                 // of the host when it was opened
	passed map[compute.QueueName]bool // chosen then, and left out
	extra  []compute.QueueName        // waited on for a short poll only: work is said to lie there
	rung   []compute.QueueName        // looked at because the host was rung
}

// split finds the queues that came up since: the host was rung for them, they were
// not there, or their work did not fit then. Queues sampled since, and work that is known to lie
// somewhere, wait for the next fetch: where there is more work than hosts can take, every host would open
// another fetch.
func (f *Fetcher) split(o opened, some []offer.Candidate) (missed, rest []offer.Candidate) {
	for _, c := range some {
		if c.Called() || !o.passed[c.Queue] && (!f.heard[c.Queue].Before(o.chosen) || !o.room.Fits(c.Needs)) {
			missed = append(missed, c)
		} else {
			rest = append(rest, c)
		}
	}
	return missed, rest
}

// spareOverdue is when a fetch in a spare lane should long have ended: there is
// trouble, and the first lane does not wait for it.
const spareOverdue = 1500 * time.Millisecond

// assign gives the candidates of each lane to the lane, or if a fetch is open there,
// those that came up since to the spare one beside it. While one is open in the
// spare lane alone, which is not for long, the other waits: then it lists all.
func (f *Fetcher) assign(q *Question, now time.Time) (lanes []wire.Lane, plan []offer.Lane) {
	add := func(lane wire.Lane, p offer.Lane) { lanes, plan = append(lanes, lane), append(plan, p) }
	for _, lane := range slices.SortedFunc(maps.Keys(q.at), byLane) {
		var some []offer.Candidate
		for _, ref := range q.at[lane] {
			if is, ok := f.queues[ref.Name]; ok && is.TopicID == ref.TopicID && !f.leftAlone(ref.Name, now) {
				some = append(some, q.chosen[ref.Name])
			}
		}
		spare := lane
		spare.Spare = true
		o, busy := f.open[lane]
		s, spared := f.open[spare]
		if overdue := s.began.Add(spareOverdue); spared && !busy {
			if spared = now.Before(overdue); spared && (f.again.IsZero() || overdue.Before(f.again)) {
				f.again = overdue
			}
		}
		switch {
		case !busy && !spared:
			add(lane, offer.Lane{Candidates: some})
		case busy && !spared:
			missed, rest := f.split(o, some)
			add(lane, offer.Lane{Open: &o.Reserved, Candidates: rest})
			add(spare, offer.Lane{Candidates: missed})
		case busy:
			add(lane, offer.Lane{Open: &o.Reserved, Candidates: some})
		}
	}
	return lanes, plan
}

// first is the lane that a spare one is beside.
func first(lane wire.Lane) wire.Lane {
	lane.Spare = false
	return lane
}

func byLane(a, b wire.Lane) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Broker, b.Broker))
}

// ShortPoll is how long a host waits for work that is said to lie somewhere: it would
// come at once.
const ShortPoll = 500 * time.Millisecond

// RungPoll is how long a host that was rung waits for work: a ring may come a moment
// before the work does. While it lasts, the host cannot follow its other rings.
const RungPoll = 100 * time.Millisecond

// begin opens a fetch of what is planned for a lane, if anything is.
func (f *Fetcher) begin(lane wire.Lane, p offer.Planned, o opened, refs []wire.QueueRef) {
	f.sampler.Planned(p.Listed, p.Left)
	if len(p.Listed) == 0 {
		return
	}
	o.Reserved, o.queues, o.passed = p.Reserved, map[compute.QueueName]bool{}, map[compute.QueueName]bool{}
	var wait time.Duration
	for _, c := range p.Listed {
		o.queues[c.Queue] = true
		if c.Extra {
			o.extra, wait = append(o.extra, c.Queue), ShortPoll
		}
		if f.hiding(c.Queue) {
			wait = ShortPoll
		}
	}
	for _, c := range p.Listed {
		if c.Rung {
			o.rung, wait = append(o.rung, c.Queue), RungPoll
		}
	}
	for _, c := range p.Left {
		o.passed[c.Queue] = true
	}
	if wait == 0 {
		wait = f.untilOwed(o)
	}
	f.open[lane] = o
	f.o.Opened()
	refs = slices.DeleteFunc(slices.Clone(refs), func(r wire.QueueRef) bool { return !o.queues[r.Name] })
	f.o.Puller.Open(lane, refs, wait)
}

// untilOwed is how long a fetch may last at most because the host was rung for another
// queue, for which there may be no room beside it: until that queue is no longer left to
// other hosts, or for a short poll. Zero: for as long as any.
func (f *Fetcher) untilOwed(o opened) (wait time.Duration) {
	f.rings.Listed(o.began, func(q compute.QueueName, look bool) {
		alone, is := f.alone[q]
		if look && !o.queues[q] && (is || o.passed[q]) {
			if after := max(ShortPoll, alone.Sub(o.began)); wait == 0 || after < wait {
				wait = after
			}
		}
	})
	return wait
}
