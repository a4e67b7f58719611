// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Of two changes of the catalog at once one may be refused; of one alone it may not.
func TestRefusedForTheCatalog(t *testing.T) {
	conflict := &compute.Error{
		Kind:    compute.KindConflict,
		Message: "somebody else changed the catalog at the same time",
	}
	for name, x := range map[string]struct {
		began schedule.Seconds // of the other change
		wrong bool
	}{"at the same time": {1.2, false}, "long after": {3, true}} {
		r := made()
		first := Ask{
			Load:     schedule.Load{Op: schedule.LoadAddFlavor},
			Began:    moment(1),
			Answered: moment(1.5),
			Err:      "no",
			Why:      conflict,
		}
		second := Ask{
			Load:     schedule.Load{Op: schedule.LoadAddFlavor},
			Began:    moment(x.began),
			Answered: moment(x.began + 1),
			OK:       true,
		}
		r.Asks = append(r.Asks, first, second)
		if found := checkRefused(r); (len(found) > 0) != x.wrong {
			t.Errorf("%s: %v", name, found)
		}
	}
}
