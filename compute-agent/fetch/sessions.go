// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
	"github.com/berth-project/berth/pkg/wire"
)

// opened is a fetch under way.
type opened struct {
	offer.Reserved
	queues map[compute.QueueName]bool
	chosen time.Time // when queues were chosen for it
	began  time.Time
	room   offer.Room                 // of the host when it was opened
	passed map[compute.QueueName]bool // chosen then for its session, and left out
	others map[compute.QueueName]bool // chosen then, for any session, and listed in none
	extra  []compute.QueueName        // waited on for a short poll only: work is said to lie there
	rung   []compute.QueueName        // looked at because the host was rung
	full   []offer.Candidate          // listed, if others had to be left out because one fetch lists no more
	ahead  []offer.Candidate          // listed, with work that others may have to wait for: it ends soon
}

// split finds the queues that came up since: the host was rung for them, they were
// not there, or their work did not fit then. Queues sampled since, and work that is known to lie
// somewhere, wait for the next fetch: where there is more work than hosts can take, every host would open
// another fetch.
func (f *Fetcher) split(o opened, some []offer.Candidate) (missed, rest []offer.Candidate) {
	for _, c := range some {
		if c.Called() || !o.passed[c.Queue] && (!f.since[c.Queue].Before(o.chosen) || !o.room.Fits(c.Needs)) {
			missed = append(missed, c)
		} else {
			rest = append(rest, c)
		}
	}
	return missed, rest
}

// secondaryOverdue is when a fetch in a secondary session should long have ended: there is
// trouble, and the primary session does not wait for it.
const secondaryOverdue = 1500 * time.Millisecond

// assign gives the candidates of each session to the session, or if a fetch is open there,
// those that came up since to the secondary one beside it. While one is open in the
// secondary session alone, which is not for long, the other waits: then it lists all.
// Sessions that have no candidate and an open fetch are there for what that has, for as long as it lasts.
func (f *Fetcher) assign(q *Question, now time.Time) (sessions []wire.SessionID, plan []offer.Session) {
	add := func(session wire.SessionID, p offer.Session) {
		sessions, plan = append(sessions, session), append(plan, p)
	}
	for _, session := range slices.SortedFunc(maps.Keys(q.at), bySession) {
		var some []offer.Candidate
		for _, ref := range q.at[session] {
			if is, ok := f.queues[ref.Name]; ok && is.TopicID == ref.TopicID && !f.leftAlone(ref.Name, now) {
				some = append(some, q.chosen[ref.Name])
			}
		}
		secondary := session
		secondary.Secondary = true
		o, busy := f.open[session]
		s, secondaryBusy := f.open[secondary]
		if overdue := s.began.Add(secondaryOverdue); secondaryBusy && !busy {
			if secondaryBusy = now.Before(overdue); secondaryBusy && (f.again.IsZero() || overdue.Before(f.again)) {
				f.again = overdue
			}
		}
		switch {
		case !busy && !secondaryBusy:
			add(session, offer.Session{Candidates: some})
		case busy && !secondaryBusy:
			missed, rest := f.split(o, some)
			add(session, offer.Session{Open: &o.Reserved, Candidates: rest, Ahead: o.ahead})
			add(secondary, offer.Session{Candidates: missed})
		case busy:
			add(session, offer.Session{Open: &o.Reserved, Candidates: some, Ahead: o.ahead})
		}
	}
	for _, session := range slices.SortedFunc(maps.Keys(f.open), bySession) {
		if !slices.Contains(sessions, session) {
			o := f.open[session]
			add(session, offer.Session{Open: &o.Reserved})
		}
	}
	return sessions, plan
}

// primary is the session that a secondary one is beside.
func primary(session wire.SessionID) wire.SessionID {
	session.Secondary = false
	return session
}

func bySession(a, b wire.SessionID) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Broker, b.Broker), sorted.TrueFirst(b.Secondary, a.Secondary),
	)
}

// ShortPoll is how long a host waits for work that is said to lie somewhere: it would
// come at once.
const ShortPoll = 500 * time.Millisecond

// RungPoll is how long a host that was rung waits for work: a ring may come a moment
// before the work does. While it lasts, the host cannot follow its other rings.
const RungPoll = 100 * time.Millisecond

// BehindPoll is how long a host that keeps work locked waits for what lies behind it, which is there already. No other
// host can have the locked work meanwhile, and 18 hosts may lock it in turn before its conductor is told.
const BehindPoll = 100 * time.Millisecond

// begin opens a fetch of what is planned for a session, if anything is.
func (f *Fetcher) begin(session wire.SessionID, p offer.Planned, o opened, refs []wire.QueueRef) {
	f.sampler.Planned(p.Listed, p.Left)
	if len(p.Listed) == 0 {
		return
	}
	o.Reserved, o.queues, o.passed = p.Reserved, map[compute.QueueName]bool{}, map[compute.QueueName]bool{}
	var wait time.Duration
	hides := slices.ContainsFunc(p.Listed, func(c offer.Candidate) bool { return f.hiding(c.Queue) })
	if hides {
		wait = BehindPoll
	}
	for _, c := range p.Listed {
		o.queues[c.Queue] = true
		if c.Extra && !hides { // what does not come within the short look may still lie there
			o.extra, wait = append(o.extra, c.Queue), ShortPoll
		}
	}
	for _, c := range p.Listed {
		if c.Rung {
			o.rung, wait = append(o.rung, c.Queue), RungPoll
		}
		if c.Probe {
			o.extra, wait = append(o.extra, c.Queue), RungPoll
		}
	}
	for _, c := range p.Left {
		o.passed[c.Queue] = true
	}
	if p.Awaited && wait == 0 {
		wait = RungPoll
	}
	o.goAhead(p.Listed, wait > 0, p.Awaited)
	if len(p.Listed) == offer.MostListed {
		o.full = p.Listed
	}
	if wait == 0 {
		wait = f.untilOwed(o)
	}
	f.open[session], f.first = o, ""
	f.o.Opened()
	refs = slices.DeleteFunc(slices.Clone(refs), func(r wire.QueueRef) bool { return !o.queues[r.Name] })
	f.o.Puller.Open(session, refs, wait)
}

// goAhead notes what a fetch that ends soon lists that has work, for which other work may have to wait: if some does,
// what is not found is known not to be there, so that nothing waits for what was said and is not so.
func (o *opened) goAhead(listed []offer.Candidate, soon, awaited bool) {
	for _, c := range listed {
		if c.Since.IsZero() || !soon {
			continue
		}
		if o.ahead = append(o.ahead, c); awaited && !slices.Contains(o.extra, c.Queue) {
			o.extra = append(o.extra, c.Queue)
		}
	}
}

// untilOwed is how long a fetch may last at most because the host was rung for another
// queue, at any broker, for which there may be no room beside it: until that queue is no longer left to
// other hosts, or for a short poll. Zero: for as long as any. What the host has no room for at all waits until it has.
func (f *Fetcher) untilOwed(o opened) (wait time.Duration) {
	f.rings.Listed(o.began, func(q compute.QueueName, look bool) {
		alone, is := f.alone[q]
		needs, _, ours := f.needs(q)
		if look && !o.queues[q] && (is || o.others[q]) && ours && o.room.Fits(needs) {
			if after := max(ShortPoll, alone.Sub(o.began)); wait == 0 || after < wait {
				wait = after
			}
		}
	})
	return wait
}
