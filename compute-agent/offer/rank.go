// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// Lies is what a host knows of the work that lies in a queue.
type Lies struct {
	Priority compute.Priority
	Since    time.Time // since when the oldest of it waits; zero: nothing is known to lie there
	// Most is how much of it may come to this host before the rest is elsewhere; at least 1 where something lies.
	Most int64
}

// rank is what is served first of what lies in queues.
func (l Lies) rank() time.Time { return l.Priority.Rank(l.Since) }

// LiesBy is what advice says of a queue. On a host of W that fit now, two of W-th parts of what lies there and one more
// are expected at most: where many hosts have room, no class has to wait for another.
func LiesBy(a compute.QueueAdvice, p compute.Priority) Lies {
	l := Lies{Priority: p}
	if a.Depth > 0 {
		l.Since, l.Most = a.Oldest, int64(min(a.Depth, 1+2*a.Depth/uint64(max(a.Eligible, 1)), mostExpected))
	}
	return l
}

// mostExpected bounds Lies.Most: no host builds as many at once.
const mostExpected = 1000

// sortExtra has the queues first that a host should look at, of those at which it looks because work lies there: by
// rank, if that is of several classes, else by chance, so that not all hosts look at the same ones.
func sortExtra(all []Candidate) {
	byRank := severalClasses(all)
	slices.SortFunc(all, func(a, b Candidate) int {
		if byRank {
			if by := a.ranked(b); by != 0 {
				return by
			}
		}
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Queue, b.Queue))
	})
}

// severalClasses says whether work of more than one class is known to lie in the queues.
func severalClasses(all []Candidate) bool {
	class, some := compute.PriorityNormal, false
	for _, c := range all {
		switch {
		case c.Since.IsZero():
		case some && c.Priority != class:
			return true
		default:
			class, some = c.Priority, true
		}
	}
	return false
}

// ranked is the order of candidates where work of several classes is known to lie: first what is looked for behind work
// that is kept locked, then by rank what lies in queues, then the rest. So the oldest work is served first, whatever
// was left out how often before: what is left out grows older, and its turn comes by that.
func (c Candidate) ranked(d Candidate) int {
	return cmp.Or(
		sorted.TrueFirst(c.Behind, d.Behind), sorted.TrueFirst(!c.Lies.Since.IsZero(), !d.Lies.Since.IsZero()),
		c.rank().Compare(d.rank()),
	)
}

// yields says whether a candidate is to wait until what is ahead of it is taken: some of that is of another class, and
// there is no room for all of it and one of the candidate's, or too few slots.
func (p *plan) yields(x pair) bool {
	if !p.byRank || x.Since.IsZero() || x.Behind {
		return false
	}
	other, sum, builds := false, x.Needs, int64(1)
	for _, y := range p.ahead {
		other = other || y.Priority != x.Priority
		sum, builds = sum.Plus(times(y.Needs, y.Most)), builds+y.Most
	}
	return other && (builds > int64(p.slots) || !sum.FitsIn(p.room.Free()))
}

func times(r compute.Resources, n int64) compute.Resources {
	out := make(compute.Resources, len(r))
	for c, amount := range r {
		out[c] = amount * n
	}
	return out
}
