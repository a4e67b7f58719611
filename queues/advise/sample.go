// SPDX-License-Identifier: Apache-2.0

package advise

import "github.com/berth-project/berth/pkg/compute"

// Reaches takes note that a host's command stream is there, or that this is not
// known any more: then it cannot be rung.
func (a *Advisor) Reaches(id compute.HostID, stream bool) {
	if h := a.hosts[id]; h != nil {
		h.stream = stream
	}
}

// Eligible counts the hosts that fit a queue's work now, and the machines of it that
// they have room for together.
func (a *Advisor) Eligible(q compute.QueueName) (hosts int, room uint64) {
	i, listed := a.at[q]
	if !listed {
		return 0, 0
	}
	return int(a.counts[i][eligible]), a.rooms[i]
}

// Fits says whether a host fits a queue's work now, by its last beacon, and can be rung.
func (a *Advisor) Fits(q compute.QueueName, id compute.HostID) bool {
	i, listed := a.at[q]
	h := a.hosts[id]
	return listed && h != nil && h.canTake(i)
}

func (h *host) canTake(i int) bool { return h.stream && h.beacon.Rings && h.is[i] == eligible }

// Sample picks at random up to n hosts that fit a queue's work now and can be rung, and for
// none of which not is true. Of two at a time it takes the one with the lower rank, the
// emptier one where both spread: that spreads machines almost as evenly as looking at all hosts does.
func (a *Advisor) Sample(q compute.QueueName, n int, not func(compute.HostID) bool) []compute.HostID {
	i, listed := a.at[q]
	if !listed || n <= 0 || a.counts[i][eligible] == 0 {
		return nil
	}
	usable := func(h *host) bool { return h.canTake(i) && !not(h.beacon.Host) }
	if few := 2 * n * len(a.order) / int(a.counts[i][eligible]); 4*few < len(a.order) {
		if drawn := a.sampleFew(n, 8*few, usable); len(drawn) == n {
			return drawn
		}
	}
	var pool []*host
	for _, h := range a.order {
		if usable(h) {
			pool = append(pool, h)
		}
	}
	var out []compute.HostID
	for len(out) < n && len(pool) > 0 {
		at := a.randomBelow(len(pool))
		if other := a.randomBelow(len(pool)); pool[other].rank < pool[at].rank {
			at = other
		}
		out = append(out, pool[at].beacon.Host)
		pool[at] = pool[len(pool)-1]
		pool = pool[:len(pool)-1]
	}
	return out
}

// sampleFew samples hosts without looking at all of them. It gives up after so many tries.
func (a *Advisor) sampleFew(n, tries int, usable func(*host) bool) (out []compute.HostID) {
	drawn := make(map[*host]bool, n)
	var first *host
	for range tries {
		h := a.order[a.randomBelow(len(a.order))]
		if drawn[h] || h == first || !usable(h) {
			continue
		}
		if first == nil {
			first = h
			continue
		}
		if h.rank < first.rank {
			first = h
		}
		drawn[first] = true
		out, first = append(out, first.beacon.Host), nil
		if len(out) == n {
			break
		}
	}
	return out
}

// randomBelow is a number by lot, from 0 to n-1 (splitmix64).
func (a *Advisor) randomBelow(n int) int {
	a.random += 0x9e3779b97f4a7c15
	x := a.random
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

// rank is lower the more often a host should be drawn: by how full it is, or by how empty if it packs.
func rank(b compute.Beacon) float64 {
	if b.Weigher == compute.Pack {
		return 1 - used(b)
	}
	return used(b)
}

// used is the largest share of any class that is in use on a host, from 0 to 1.
func used(b compute.Beacon) float64 {
	most := 0.0
	for class, total := range b.Inventory.Totals {
		if there := total - b.Inventory.Reserved[class]; there > 0 {
			most = max(most, 1-float64(b.Free[class])/float64(there))
		}
	}
	return most
}
