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
		began  schedule.Seconds // of the other change
		op     string           // of both; the second one's project is
		second compute.Project
		wrong  bool
	}{
		"at the same time": {began: 1.2, op: schedule.LoadAddFlavor}, "long after": {3, schedule.LoadAddFlavor, "", true},
		"a quota twice":           {1.2, schedule.LoadQuota, "red", false},
		"the quota of two":        {1.2, schedule.LoadQuota, "blue", true},
		"a quota, and long after": {3, schedule.LoadQuota, "red", true},
	} {
		r := made()
		first := Ask{
			Load:     schedule.Load{Op: x.op, Project: "red"},
			Began:    moment(1),
			Answered: moment(1.5),
			Err:      "no",
			Why:      conflict,
		}
		second := Ask{
			Load:     schedule.Load{Op: x.op, Project: x.second},
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

// A change that is refused was never in force, unless it lost against another: it was there until it was taken back.
func TestARefusedChangeMayHaveBeenInForce(t *testing.T) {
	for message, want := range map[string]bool{
		"somebody else changed the catalog at the same time": true, "is there, and differs": false,
	} {
		r := made()
		r.Asks = append(r.Asks, Ask{
			Load:  schedule.Load{Op: schedule.LoadQuota, Project: "red", Limits: compute.Resources{compute.VCPU: 1}},
			Began: moment(1), Answered: moment(3), Tries: 1,
			Why: &compute.Error{Kind: compute.KindConflict, Message: message},
		})
		limits := r.limitsAt("red", moment(2), moment(2.1))
		if got := len(limits) > 1; got != want {
			t.Errorf("%q: the limits may be %v", message, limits)
		}
	}
}
