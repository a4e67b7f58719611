// SPDX-License-Identifier: Apache-2.0

package compute

import "testing"

// TestTimesTaken: a notice counts once the machine was queued again for it, also where an older version wrote the
// record.
func TestTimesTaken(t *testing.T) {
	for name, c := range map[string]struct {
		last *Notice
		want uint32
	}{
		"never noticed":         {nil, 0},
		"noticed":               {&Notice{Times: 2}, 2},
		"deleted with a notice": {&Notice{}, 0},
		"taken":                 {&Notice{Taken: true, Times: 3}, 3},
		"by an older version":   {&Notice{Taken: true}, 1},
	} {
		var i Instance
		if i.GiveNotice(c.last); i.TimesTaken() != c.want {
			t.Errorf("%s: %d", name, i.TimesTaken())
		}
	}
}
