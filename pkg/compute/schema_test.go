// SPDX-License-Identifier: Apache-2.0

package compute

import "testing"

func TestReadByAll(t *testing.T) {
	for _, c := range []struct {
		said []Schema
		want Schema
	}{
		{nil, 1},
		{[]Schema{1}, 1},
		{[]Schema{3}, 3},
		{[]Schema{3, 2, 3}, 2},
		{[]Schema{2, 2}, 2},
		{[]Schema{3, 0, 3}, 1}, // a version that says nothing
		{[]Schema{0}, 1},
	} {
		if got := ReadByAll(c.said...); got != c.want {
			t.Errorf("%v: %d, want %d", c.said, got, c.want)
		}
	}
}
