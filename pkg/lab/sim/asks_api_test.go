// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestAnswersRightAfterABoot(t *testing.T) {
	const id = compute.InstanceID("1")
	l := schedule.Load{Name: "vm-1", Boot: &compute.Boot{Flavor: "m1.small", Image: "debian"}}
	right := client.Instance{ID: id, Name: "vm-1", Flavor: "m1.small", Image: "debian", State: "queued"}
	other := right
	other.Image = "another"
	differs := &compute.Error{Kind: compute.KindConflict, Reason: &compute.Reason{Code: compute.RequestDiffers}}
	conflict, absent := &compute.Error{Kind: compute.KindConflict}, &compute.Error{Kind: compute.KindNotFound}
	later := &compute.Error{Kind: compute.KindUnavailable}
	for what, c := range map[string]struct {
		said  string
		wrong bool
	}{
		"shown":                          {shownElsewhere(l, right, nil), false},
		"no answer now":                  {shownElsewhere(l, client.Instance{}, later), false},
		"not known":                      {shownElsewhere(l, client.Instance{}, absent), true},
		"shown as another":               {shownElsewhere(l, other, nil), true},
		"the same again":                 {sameBody(id, id, nil), false},
		"the same is another":            {sameBody(id, "another", nil), true},
		"the same is refused":            {sameBody(id, "", differs), true},
		"another is refused":             {otherBody("", differs), false},
		"another is accepted":            {otherBody(id, nil), true},
		"another conflicts":              {otherBody("", conflict), true},
		"in another project":             {otherProject("", absent), false},
		"another project's key is taken": {otherProject("", differs), true},
	} {
		if c.wrong != (c.said != "") {
			t.Errorf("%s: says %q", what, c.said)
		}
	}
}
