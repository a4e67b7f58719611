// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestAnswersRightAfterABoot(t *testing.T) {
	l := Load{Name: "vm-1", Boot: &compute.Boot{Flavor: "m1.small", Image: "debian"}}
	right := client.Instance{ID: madeID, Name: "vm-1", Flavor: "m1.small", Image: "debian", State: "queued"}
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
		"the same again":                 {sameBody(madeID, madeID, nil), false},
		"the same is another":            {sameBody(madeID, "another", nil), true},
		"the same is refused":            {sameBody(madeID, "", differs), true},
		"another is refused":             {otherBody("", differs), false},
		"another is accepted":            {otherBody(madeID, nil), true},
		"another conflicts":              {otherBody("", conflict), true},
		"in another project":             {otherProject("", absent), false},
		"another project's key is taken": {otherProject("", differs), true},
	} {
		if c.wrong != (c.said != "") {
			t.Errorf("%s: says %q", what, c.said)
		}
	}
}

func TestListDiffers(t *testing.T) {
	all := func(compute.Instance) bool { return true }
	none := func(compute.Instance) bool { return false }
	r := made()
	r.now[madeID] = r.Log[2].Instance
	shown := rest.Instance{ID: madeID, Name: "vm-1", Version: 3, State: "active", Host: "host-1"}
	older, moved := shown, shown
	older.Version, moved.Host = 2, "host-2"
	for want, c := range map[string]struct {
		got   []rest.Instance
		wants func(compute.Instance) bool
	}{
		"":                    {[]rest.Instance{shown}, all},
		"vm-1 is there twice": {[]rest.Instance{shown, shown}, all},
		"vm-1, which is active on host-1, is missing":                                      {nil, all},
		"vm-1, which is active on host-1, is there and should not be":                      {[]rest.Instance{shown}, none},
		"vm-1 is shown as version 2, active on host-1, and is version 3, active on host-1": {[]rest.Instance{older}, all},
		"vm-1 is shown as version 3, active on host-2, and is version 3, active on host-1": {[]rest.Instance{moved}, all},
	} {
		said := strings.ReplaceAll(r.listDiffers(c.got, "red", c.wants), `"`, "")
		if said != want {
			t.Errorf("says %q, want %q", said, want)
		}
	}
}
