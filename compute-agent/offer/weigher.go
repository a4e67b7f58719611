// SPDX-License-Identifier: Apache-2.0

package offer

import "github.com/berth-project/berth/pkg/compute"

// tilt multiplies the chance of waiting; used is the share of the host in use,
// from 0 to 1. It is between ½ and 1½, so that it never shuts anybody out.
func tilt(w compute.Weigher, used float64) float64 {
	if w == compute.Pack {
		return 0.5 + used
	}
	return 1.5 - used
}

// Chance is how likely a host of which this share is in use should wait, if any does with
// such a chance. Where everybody should, no weigher keeps anybody away.
func Chance(w compute.Weigher, of, used float64) float64 {
	if of >= 1 {
		return 1
	}
	return min(1, of*tilt(w, used))
}

// Waits says whether a host waits on a queue that it should now wait on with another chance than the one
// it was sampled with: it joins, or leaves, only as far as the chance has changed.
func Waits(w compute.Weigher, sampled bool, then, now float64, random uint64, used float64) bool {
	then, now = Chance(w, then, used), Chance(w, now, used)
	if sampled {
		return fraction(random)*then < now
	}
	return fraction(random)*(1-then) < now-then
}

// Used is the largest share of any class that is in use, from 0 to 1.
func Used(totals, free compute.Resources) float64 {
	used := 0.0
	for class, n := range totals {
		if n > 0 {
			used = max(used, 1-float64(free[class])/float64(n))
		}
	}
	return min(1, max(0, used))
}
