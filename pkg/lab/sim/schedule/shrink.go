// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
)

// Shrink drops faults, then load, for as long as the schedule still fails, and
// answers the smallest that did.
func Shrink(s Schedule, fails func(Schedule) bool) Schedule {
	for before := -1; before != len(s.Faults)+len(s.Load); {
		before = len(s.Faults) + len(s.Load)
		s.Faults = fewer(s.Faults, func(f []Fault) bool { t := s; t.Faults = f; return fails(t) })
		s.Load = fewer(s.Load, func(l []Load) bool { t := s; t.Load = l; return fails(t) })
	}
	return s
}

// fewer leaves out as much as it can: halves, then quarters, then one by one.
func fewer[T any](list []T, fails func([]T) bool) []T {
	for n := (len(list) + 1) / 2; n > 0; n /= 2 {
		for at := 0; at < len(list); {
			without := slices.Concat(list[:at], list[min(at+n, len(list)):])
			if fails(without) {
				list = without
			} else {
				at += n
			}
		}
	}
	return list
}
