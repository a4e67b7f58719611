// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Ratios is how much of a class a host offers for each one it has: 4 for VCPU
// offers four virtual processors for each real one. A class that is not named is
// offered as it is.
type Ratios map[compute.ResourceClass]float64

// MostRatio is the largest ratio.
const MostRatio = 64

// Check refuses what can never be right. Only what machines take turns at, or
// mostly leave unused, may be promised more than once: a device is there or not.
func (r Ratios) Check() error {
	for _, class := range slices.Sorted(maps.Keys(r)) {
		given := fmt.Sprintf("%s: %v", class, r[class])
		switch {
		case class != compute.VCPU && class != compute.MemoryMB && class != compute.DiskGB:
			return compute.Invalid(
				"over_commit",
				given,
				fmt.Sprintf(
					"only %s, %s and %s can be promised more than once",
					compute.VCPU, compute.MemoryMB, compute.DiskGB,
				),
			)
		case !(r[class] > 0 && r[class] <= MostRatio): // NaN, too
			return compute.Invalid(
				"over_commit", given,
				fmt.Sprintf("give more than 0 and at most %d: what is offered for each one that is there", MostRatio),
			)
		}
	}
	return nil
}

// Of is an inventory as it is offered. What the host keeps for itself is real and
// kept before the rest is promised; what other machines use is counted as what
// ours use is.
func (r Ratios) Of(inv compute.Inventory) compute.Inventory {
	inv.Totals = r.scale(inv.Totals, math.Floor)
	inv.Reserved = r.scale(inv.Reserved, math.Ceil)
	return inv
}

// largest is how much of each class that is promised more than once one machine may
// have: what is promised to several is there only once.
func (r Ratios) largest(inv compute.Inventory) compute.Resources {
	out := compute.Resources{}
	for class, ratio := range r {
		if n, ok := inv.Totals[class]; ok && ratio > 1 {
			out[class] = max(0, n-inv.Reserved[class])
		}
	}
	return out
}

func (r Ratios) scale(of compute.Resources, round func(float64) float64) compute.Resources {
	out := of.Clone()
	for class, ratio := range r {
		if n, ok := out[class]; ok {
			out[class] = min(int64(round(float64(n)*ratio)), compute.MaxAmount)
		}
	}
	return out
}
