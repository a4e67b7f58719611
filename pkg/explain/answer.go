// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Answer is what all hosts are to one machine.
type Answer struct {
	Counts  Counts
	Short   []Shortage // of hosts that are full; the class that most lack comes first
	Traits  []Unfit    // of hosts that lack one; the trait that most lack comes first
	Nearest []Verdict  // at most MostNearest
	Savers  Savers
	first   [standings]Verdict
	Room    int64 // how many such machines all hosts could begin now
	Empty   int64 // how many they could have if all that may be were empty
}

// MostNearest bounds the hosts of an answer.
const MostNearest = 8

// Shortage is one resource class of which full hosts have too little free.
type Shortage struct {
	Class compute.ResourceClass
	Hosts uint32 // that have too little
	Least int64  // what has to become free on the one of them that has most
}

// Unfit is a trait for which hosts do not do.
type Unfit struct {
	Trait    compute.Trait
	Hosts    uint32
	Required bool // they lack it; otherwise they have it and must not
}

// Hosts judges every host.
func Hosts(w Wanted, hosts []Host) Answer {
	var out Answer
	short, traits := map[compute.ResourceClass]Shortage{}, map[compute.Trait]Unfit{}
	order, roomiest := nearer(w), int64(0)
	for _, h := range hosts {
		v := Judge(w, h)
		out.Counts[v.Standing]++
		out.Room, roomiest = out.Room+v.Room, max(roomiest, v.Room)
		out.Empty += v.Empty
		switch v.Standing {
		case Full:
			for c, n := range v.Short {
				s, more := short[c]
				if !more {
					s = Shortage{Class: c, Least: n}
				}
				s.Hosts, s.Least = s.Hosts+1, min(s.Least, n)
				short[c] = s
			}
		case LacksTrait:
			for _, t := range v.Traits {
				u := traits[t]
				traits[t] = Unfit{Trait: t, Hosts: u.Hosts + 1, Required: slices.Contains(w.Required, t)}
			}
		}
		out.Savers.note(w, v)
		out.near(v, order)
		if first := &out.first[v.Standing]; first.Host == "" || order(v, *first) < 0 {
			*first = v
		}
	}
	if out.Room = min(out.Room, w.Group.atMost()); w.Group.together() {
		out.Room = roomiest
	}
	out.Short = slices.SortedFunc(maps.Values(short), func(a, b Shortage) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Class, b.Class))
	})
	out.Traits = slices.SortedFunc(maps.Values(traits), func(a, b Unfit) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Trait, b.Trait))
	})
	return out
}

// near keeps the nearest, in order.
func (a *Answer) near(v Verdict, order func(a, b Verdict) int) {
	if len(a.Nearest) == MostNearest && order(v, a.Nearest[MostNearest-1]) > 0 {
		return // as nearly all of a large cell are
	}
	at, _ := slices.BinarySearchFunc(a.Nearest, v, order)
	if at == MostNearest {
		return
	}
	a.Nearest = slices.Insert(a.Nearest[:min(len(a.Nearest), MostNearest-1)], at, v)
}

// Total is how many hosts there are.
func (a Answer) Total() (n uint32) {
	for _, c := range a.Counts {
		n += c
	}
	return n
}

// Now is how many can take it now, Later how many when something changes there, and Never how many cannot, whatever
// becomes free.
func (a Answer) Now() uint32   { return a.sum(Standing.Now) }
func (a Answer) Never() uint32 { return a.sum(Standing.Never) }
func (a Answer) Later() uint32 { return a.Total() - a.Now() - a.Never() }

func (a Answer) sum(is func(Standing) bool) (n uint32) {
	for s, c := range a.Counts {
		if is(Standing(s)) {
			n += c
		}
	}
	return n
}
