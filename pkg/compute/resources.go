// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ResourceClass names something a host has a countable amount of.
type ResourceClass string

// The classes Berth knows; operators add their own as CUSTOM_….
const (
	VCPU      ResourceClass = "VCPU"      // virtual processors
	MemoryMB  ResourceClass = "MEMORY_MB" // MiB
	DiskGB    ResourceClass = "DISK_GB"   // GiB
	Instances ResourceClass = "INSTANCES" // in quotas only: how many instances
)

// Check refuses a class that is neither known nor CUSTOM_….
func (c ResourceClass) Check() error {
	own, custom := strings.CutPrefix(string(c), ownPrefix)
	if c == VCPU || c == MemoryMB || c == DiskGB || custom && ownShape.fits(own) {
		return nil
	}
	return Invalid("resource class", string(c),
		"use VCPU, MEMORY_MB, DISK_GB or CUSTOM_ followed by upper-case letters, digits and underscores")
}

// MaxAmount is the most of one class that anything may have or ask for. Sums of
// millions of such amounts still fit an int64.
const MaxAmount = 1 << 40

// MaxClasses is how many classes anything may have or ask for: it all has to
// fit into one record.
const MaxClasses = 64

// Resources is an amount for each class; a class that is not there counts zero.
// Methods never change the receiver.
type Resources map[ResourceClass]int64

// Check refuses unknown classes, too many of them, and amounts outside
// 1..MaxAmount.
func (r Resources) Check() error {
	if len(r) > MaxClasses {
		return Invalid("resources", fmt.Sprintf("%d classes", len(r)),
			fmt.Sprintf("give at most %d classes", MaxClasses))
	}
	wrong := false
	for c, n := range r {
		wrong = wrong || checkAmount(c, n) != nil
	}
	if !wrong {
		return nil
	}
	for _, c := range r.Classes() { // the first in order, so that it is always the same one
		if err := checkAmount(c, r[c]); err != nil {
			return err
		}
	}
	return nil
}

func checkAmount(c ResourceClass, n int64) error {
	if err := c.Check(); err != nil {
		return err
	}
	if n < 1 || n > MaxAmount {
		return Invalid(string(c), fmt.Sprint(n), fmt.Sprintf("give a whole number from 1 to %d", int64(MaxAmount)))
	}
	return nil
}

// Classes lists the classes in alphabetical order.
func (r Resources) Classes() []ResourceClass { return slices.Sorted(maps.Keys(r)) }

// Clone is a copy that can be changed.
func (r Resources) Clone() Resources { return maps.Clone(r) }

// Plus is the sum, class by class.
func (r Resources) Plus(s Resources) Resources {
	return r.merge(s, func(a, b int64) int64 { return a + b })
}

// Add makes r the sum, class by class: to add up many without making as many maps.
func (r Resources) Add(s Resources) {
	for c, n := range s {
		r[c] += n
	}
}

// Minus is the difference, class by class; it may be negative.
func (r Resources) Minus(s Resources) Resources {
	return r.merge(s, func(a, b int64) int64 { return a - b })
}

// Max is the larger amount, class by class.
func (r Resources) Max(s Resources) Resources {
	return r.merge(s, func(a, b int64) int64 { return max(a, b) })
}

func (r Resources) merge(s Resources, f func(a, b int64) int64) Resources {
	out := make(Resources, len(r)+len(s))
	for c, n := range r {
		out[c] = f(n, s[c])
	}
	for c, n := range s {
		if _, both := r[c]; !both {
			out[c] = f(0, n)
		}
	}
	return out
}

// FitsIn says whether every class asked for is there in that amount.
func (r Resources) FitsIn(free Resources) bool {
	for c, n := range r {
		if n > free[c] {
			return false
		}
	}
	return true
}

// IsZero says whether nothing is asked for.
func (r Resources) IsZero() bool {
	for _, n := range r {
		if n != 0 {
			return false
		}
	}
	return true
}

// Equal says whether both mean the same; absent and zero are one.
func (r Resources) Equal(s Resources) bool { return r.Minus(s).IsZero() }

// String is "MEMORY_MB=2048 VCPU=1", in alphabetical order, zeros left out.
func (r Resources) String() string {
	var parts []string
	for _, c := range r.Classes() {
		if r[c] != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", c, r[c]))
		}
	}
	return strings.Join(parts, " ")
}
