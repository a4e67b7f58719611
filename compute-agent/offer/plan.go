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

// Lane is one lane as Plan sees it.
type Lane struct {
	Open *Reserved // of the fetch that is open in it; nil if the lane is idle
	// Candidates are the queues drawn that are fetched there; for an open lane
	// those that its fetch does not list.
	Candidates []Candidate
}

// Planned is what is to be fetched in one lane.
type Planned struct {
	Listed   []Candidate // nothing: no fetch
	Left     []Candidate // drawn, and not listed now; of idle lanes only
	Reserved             // to be held while it is open
}

// Plan fills the idle lanes. Whatever all open fetches bring at once has room: each
// reserves a place for a machine with the largest amount of each class among the
// queues it lists. slots bounds how many fetches are open at once.
//
// Where not everything fits beside everything, candidates are served in their
// order, whichever lane they are of. A candidate that was left out and whose
// lane is busy holds its share back, against those that were left out less
// often: otherwise a lane that is always asked first would keep, say, the only
// device of the host to itself.
func Plan(room Room, lanes []Lane, slots int) []Planned {
	p := plan{lanes: lanes, out: make([]Planned, len(lanes)), held: make([]Reserved, len(lanes)), room: room}
	var all []pair
	for i, l := range lanes {
		if l.Open != nil {
			slots--
			p.room = p.room.Hold(l.Open.Most, l.Open.Place)
		}
		for _, c := range l.Candidates {
			if l.Open == nil || c.Skipped > 0 {
				all = append(all, pair{i, l.Open == nil, c})
			}
		}
	}
	slices.SortStableFunc(all, pair.before)
	for _, x := range all {
		slots = p.serve(x, slots)
	}
	return p.out
}

type pair struct {
	lane int
	idle bool
	Candidate
}

// before keeps the candidates' order, but lets lanes that can fetch now go
// first among those left out equally often: two lanes that held back for each
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

type plan struct {
	lanes []Lane
	out   []Planned
	held  []Reserved // of each lane, beside what its open fetch has
	room  Room       // beside all open fetches
}

func (p *plan) serve(x pair, slots int) int {
	out := &p.out[x.lane]
	opens := x.idle && len(out.Listed) == 0
	if opens && slots < 1 || len(out.Listed) == MostListed || !p.reserve(x) {
		if x.idle {
			out.Left = append(out.Left, x.Candidate)
		}
		return slots
	}
	if x.idle {
		out.Listed, out.Reserved = append(out.Listed, x.Candidate), p.held[x.lane]
	}
	if opens {
		slots--
	}
	return slots
}

// reserve makes what the lane holds large enough for one more candidate, beside
// what the others hold.
func (p *plan) reserve(x pair) bool {
	needs := x.Needs
	if open := p.lanes[x.lane].Open; open != nil { // its fetch keeps what it has
		needs = needs.Minus(open.Most).Max(nil)
	}
	mine := &p.held[x.lane]
	if mine.Most != nil && needs.FitsIn(mine.Most) {
		return true
	}
	most, room := mine.Most.Max(needs), p.room
	for lane, r := range p.held {
		if lane != x.lane && r.Most != nil {
			room = room.Hold(r.Most, r.Place)
		}
	}
	place, _, ok := room.Take(most, mine.Place)
	if ok {
		*mine = Reserved{most, place}
	}
	return ok
}
