// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// A key is as long as the API takes one; with --count there has to be room for
// what is put behind it.
func TestLongestKey(t *testing.T) {
	for _, c := range []struct {
		length, count int
		fits          bool
	}{{255, 1, true}, {256, 1, false}, {240, 2, true}, {241, 2, false}} {
		f := bootFlags{
			flavor:       "m1.small",
			name:         "web",
			onNoCapacity: "wait",
			count:        c.count,
			key:          strings.Repeat("k", c.length),
		}
		_, err := f.boot(newBoot(&settings{}))
		if (err == nil) != c.fits || err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%d of length %d: %v", c.count, c.length, err)
		}
	}
}
