package offer

import (
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// MostListed is how many queues one fetch lists at most.
const MostListed = 64

// Lane is one lane as Plan sees it.
type Lane struct {
	// Open is what the fetch that is open in it may bring at most; nil if the
	// lane is idle.
	Open compute.Resources
	// Candidates are the queues drawn that are fetched there; for an open lane
	// those that its fetch does not list.
	Candidates []Candidate
}

// Planned is what is to be fetched in one lane.
type Planned struct {
	Listed []Candidate       // nothing: no fetch
	Left   []Candidate       // drawn, and not listed now; of idle lanes only
	Most   compute.Resources // what it may bring at most: to be reserved while it is open
}

// Plan fills the idle lanes. Whatever all open fetches bring at once fits: each
// reserves the largest amount of each class among the queues it lists, and the
// sum of all reservations is never above free. slots bounds how many fetches
// are open at once.
//
// Where not everything fits beside everything, candidates are served in their
// order, whichever lane they are of. A candidate that was left out and whose
// lane is busy holds its share back, against those that were left out less
// often: otherwise a lane that is always asked first would keep, say, the only
// device of the host to itself.
func Plan(free compute.Resources, lanes []Lane, slots int) []Planned {
	p := plan{out: make([]Planned, len(lanes)), most: make([]compute.Resources, len(lanes)), free: free.Clone()}
	var all []pair
	for i, l := range lanes {
		p.most[i] = compute.Resources{}
		if l.Open != nil {
			slots--
			p.most[i] = l.Open
			p.free = p.free.Minus(l.Open)
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
	out  []Planned
	most []compute.Resources // of each lane
	free compute.Resources   // beside all of most
}

func (p *plan) serve(x pair, slots int) int {
	grown := p.most[x.lane].Max(x.Needs)
	more := grown.Minus(p.most[x.lane])
	first := x.idle && len(p.out[x.lane].Listed) == 0
	fits := more.FitsIn(p.free)
	if x.idle && (!fits || first && slots < 1 || len(p.out[x.lane].Listed) == MostListed) {
		p.out[x.lane].Left = append(p.out[x.lane].Left, x.Candidate)
		return slots
	}
	if !fits {
		return slots
	}
	p.most[x.lane], p.free = grown, p.free.Minus(more)
	if x.idle {
		p.out[x.lane].Listed = append(p.out[x.lane].Listed, x.Candidate)
		p.out[x.lane].Most = grown
	}
	if first {
		slots--
	}
	return slots
}
