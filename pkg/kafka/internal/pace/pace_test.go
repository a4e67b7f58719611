// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFailuresInARowAreToldEverLessOften(t *testing.T) {
	var told []int
	for n := 1; n <= 100; n++ {
		if Telling(n) {
			told = append(told, n)
		}
	}
	if diff := cmp.Diff([]int{1, 2, 4, 8, 16, 32, 64}, told); diff != "" {
		t.Error(diff)
	}
}
