// SPDX-License-Identifier: Apache-2.0

package sorted

import "time"

// TrueFirst compares so that what is true comes before what is not.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Sooner is the earlier of two times.
func Sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
