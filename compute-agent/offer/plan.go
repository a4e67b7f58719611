// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// MostListed is how many queues one fetch lists at most.
const MostListed = 64

// Reserved is what an open fetch may bring at most, and where that would be. It is
// the fetch's own for as long as it is open.
type Reserved struct {
	Most  compute.Resources
	Place compute.Place
}

// Session is one share session as Plan sees it.
type Session struct {
	Open *Reserved // of the fetch that is open in it; nil if the session is idle
	// Candidates are the queues chosen that are fetched there; for an open session
	// those that its fetch does not list.
	Candidates []Candidate
	// Ahead are queues that the open fetch lists, and of which it will soon be known whether work lies there.
	Ahead []Candidate
}

// Planned is what is to be fetched in one session.
type Planned struct {
	Listed   []Candidate // nothing: no fetch
	Left     []Candidate // chosen, and not listed now; of idle sessions only
	Reserved             // to be held while it is open
	// Awaited says that other work is not fetched until it is known whether work lies in what is listed: the fetch is to
	// end soon.
	Awaited bool
}

// Plan fills the idle sessions. Whatever all open fetches bring at once has room: each
// reserves a place for a machine with the largest amount of each class among the
// queues it lists. slots bounds how many fetches are open at once.
//
// Where not everything fits beside everything, candidates are served in their order, whichever session they are of. A
// candidate that was left out, because its session is busy or the open fetches leave no room for it, holds its share
// back, against those that were left out less often: otherwise a session that is always asked first would keep, say,
// the only device of the host to itself, and two sessions that are open in turn would keep a machine of the host's
// size away for ever.
//
// Where work of several classes is known to lie, it is served by rank (Candidate.ranked), and what comes later in that
// order is not listed beside what comes first as long as there may not be room for both: a fetch brings whatever it
// comes upon.
func Plan(room Room, sessions []Session, slots int) []Planned {
	p := plan{
		sessions: sessions,
		out:      make([]Planned, len(sessions)),
		next:     make([]Reserved, len(sessions)),
		room:     room,
		around:   map[int]Room{},
	}
	var all []pair
	for i, l := range sessions {
		if l.Open != nil {
			slots--
		}
		for _, c := range l.Ahead {
			p.ahead = append(p.ahead, pair{i, false, c})
		}
		for _, c := range l.Candidates {
			if l.Open == nil || c.Skipped > 0 {
				all = append(all, pair{i, l.Open == nil, c})
			}
		}
	}
	p.slots, p.byRank = slots, p.several(all)
	slices.SortStableFunc(all, p.compare)
	for _, x := range all {
		slots = p.serve(x, slots)
	}
	return p.out
}

type pair struct {
	session int
	idle    bool
	Candidate
}

// before keeps the candidates' order, but lets sessions that can fetch now go
// first among those left out equally often: two sessions that held back for each
// other would both never fetch.
func (a pair) before(b pair) int {
	if a.Skipped == b.Skipped && a.idle != b.idle {
		if a.idle {
			return -1
		}
		return 1
	}
	return a.Candidate.before(b.Candidate)
}

// several says whether work of several classes is known to lie where this host fetches, or would.
func (p *plan) several(all []pair) bool {
	var known []Candidate
	for _, x := range slices.Concat(p.ahead, all) {
		known = append(known, x.Candidate)
	}
	return severalClasses(known)
}

func (p *plan) compare(a, b pair) int {
	if p.byRank {
		if by := a.ranked(b.Candidate); by != 0 {
			return by
		}
	}
	return a.before(b)
}

type plan struct {
	sessions []Session
	out      []Planned
	next     []Reserved // of each session: what its next fetch is to have
	room     Room       // beside no fetch
	held     []Reserved // kept for candidates until the open fetches have ended
	slots    int        // for fetches that are not open yet
	byRank   bool       // work of several classes is known to lie where this host fetches, or would
	ahead    []pair     // with work that is served before what comes next

	around map[int]Room // beside all other sessions, by session; worked out when it is asked for
}

func (p *plan) serve(x pair, slots int) int {
	out := &p.out[x.session]
	opens := x.idle && len(out.Listed) == 0
	noSlot := opens && slots < 1
	full := noSlot || len(out.Listed) == MostListed
	yields := x.idle && !full && p.yields(x)
	if full || yields || !p.reserve(x) {
		known := p.byRank && !x.Since.IsZero()
		if !full && !yields && x.idle && (x.waited() || known) {
			p.holdBack(x)
		}
		if yields || x.idle && known && (noSlot || !full) {
			p.await()
		}
		if x.idle {
			out.Left = append(out.Left, x.Candidate)
		}
		return slots
	}
	if x.idle {
		out.Listed, out.Reserved = append(out.Listed, x.Candidate), p.next[x.session]
		out.Awaited = out.Awaited || x.overdue()
		if !x.Since.IsZero() {
			p.ahead = append(p.ahead, x)
		}
	}
	if opens {
		slots--
	}
	return slots
}

// await has fetches end soon that list what is ahead: work that is known to lie elsewhere was left out for it.
func (p *plan) await() {
	for _, y := range p.ahead {
		p.out[y.session].Awaited = p.out[y.session].Awaited || y.idle
	}
}

// reserve makes what the session's next fetch is to have large enough for one more
// candidate, beside the other sessions. What its open fetch has is its own by then.
func (p *plan) reserve(x pair) bool {
	next := &p.next[x.session]
	if next.Most != nil && x.Needs.FitsIn(next.Most) {
		return true
	}
	prefer := next.Place
	if open := p.sessions[x.session].Open; open != nil && next.Most == nil {
		prefer = open.Place
	}
	room, most := p.others(x.session), next.Most.Max(x.Needs)
	place, _, ok := room.Allocate(most, prefer)
	if ok {
		*next = Reserved{most, place}
		clear(p.around)
		p.around[x.session] = room
	}
	return ok
}

// holdBack keeps, against all that are served after it, what a candidate will have
// when the fetches that are open now have ended. It is for work that is there: small
// work is not to wait until a queue with nothing in it was fetched alone. Where nobody says what is there it does so
// now and then: fetches of small work, each at another broker, would else end in turn and leave no room for large work.
func (p *plan) holdBack(x pair) {
	room := p.room
	for _, h := range p.held {
		room = room.Hold(h.Most, h.Place)
	}
	if place, _, ok := room.Allocate(x.Needs, compute.Place{}); ok {
		p.held = append(p.held, Reserved{x.Needs, place})
		clear(p.around)
	}
}

// others is the room beside all other sessions.
func (p *plan) others(mine int) Room {
	room, known := p.around[mine]
	if known {
		return room
	}
	room = p.room
	for _, h := range p.held {
		room = room.Hold(h.Most, h.Place)
	}
	for session := range p.sessions {
		if session != mine {
			room = p.beside(room, session)
		}
	}
	p.around[mine] = room
	return room
}

// beside is the room beside a session: beside what its open fetch has and what its
// next one is to have, which is the same as far as it goes.
func (p *plan) beside(room Room, session int) Room {
	open, next := p.sessions[session].Open, p.next[session]
	switch {
	case open == nil && next.Most == nil:
		return room
	case open == nil:
		return room.Hold(next.Most, next.Place)
	case next.Most == nil:
		return room.Hold(open.Most, open.Place)
	case !slices.Equal(open.Place.Nodes, next.Place.Nodes):
		return room.Hold(open.Most, open.Place).Hold(next.Most, next.Place)
	}
	devices := slices.Concat(open.Place.Devices, next.Place.Devices) // what is in both is lost once
	return room.Hold(open.Most.Max(next.Most), compute.Place{Devices: devices, Nodes: open.Place.Nodes})
}
