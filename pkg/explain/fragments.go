// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/berth-project/berth/pkg/compute"

// Pool is what hosts of one sort, as those of one zone, have for machines.
type Pool struct {
	Hosts    uint32            // of that sort
	Taking   uint32            // of them: those that take work
	Spare    compute.Resources // what is free on those that take work
	Unusable compute.Resources // of Spare: what stays, whichever one kind is begun on a host as often as it fits
	Kinds    []Capacity        // of each kind that is asked about
	Largest  int               // the kind of which one machine takes the largest part of what is there, of those with room; -1: none has
}

// PoolOf is the pool of the hosts that could have, when empty, what a choice wants by itself. asked are the kinds whose
// machines are counted, and unusable is what Unusable says of the hosts.
func PoolOf(choice Wanted, asked []Wanted, hosts []Host, unusable []compute.Resources) Pool {
	out := Pool{Spare: compute.Resources{}, Unusable: compute.Resources{}, Kinds: make([]Capacity, len(asked)), Largest: -1}
	whole := compute.Resources{}
	for at, h := range hosts {
		s := choice.At(h)
		if s.Never() {
			continue
		}
		out.Hosts++
		whole.Add(h.whole())
		for i, w := range asked {
			out.Kinds[i].Add(w, h)
		}
		if s.Now() || s == Full {
			out.Taking++
			out.Spare.Add(h.Beacon.Free)
			out.Unusable.Add(unusable[at])
		}
	}
	for i, w := range asked {
		if out.Kinds[i].Room > 0 && (out.Largest < 0 || share(whole, w.Resources) > share(whole, asked[out.Largest].Resources)) {
			out.Largest = i
		}
	}
	return out
}

// Unusable is what stays free of each class on each host, whichever one of all kinds is begun there as often as it fits.
// It is the same for every pool that the hosts are in, so it is worked out once.
func Unusable(all []Wanted, hosts []Host) []compute.Resources {
	out := make([]compute.Resources, len(hosts))
	for i, h := range hosts {
		out[i] = unusable(all, h)
	}
	return out
}

func unusable(all []Wanted, h Host) compute.Resources {
	out := h.Beacon.Free.Clone()
	for _, w := range all {
		if !w.At(h).Now() {
			continue
		}
		n := times(w.Resources, h.Beacon.Free)
		for class, amount := range w.Resources {
			out[class] = min(out[class], h.Beacon.Free[class]-n*amount)
		}
	}
	return out
}
