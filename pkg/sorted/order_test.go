// SPDX-License-Identifier: Apache-2.0

package sorted

import (
	"slices"
	"testing"
	"time"
)

func TestOrders(t *testing.T) {
	some := []bool{false, true, false, true, true}
	slices.SortFunc(some, TrueFirst)
	if !slices.Equal(some, []bool{true, true, true, false, false}) {
		t.Errorf("sorted: %v", some)
	}
	at := time.Unix(1, 0)
	for _, later := range []time.Time{at, at.Add(1)} {
		if a, b := Sooner(at, later), Sooner(later, at); !a.Equal(at) || !b.Equal(at) {
			t.Errorf("the sooner of %s and %s: %s, %s", at, later, a, b)
		}
	}
}
