// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

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
		"vm-1, which is active on host-1, is missing": {nil, all},
		"vm-1, which is active on host-1, is there and should not be": {
			[]rest.Instance{shown}, none,
		},
		"vm-1 is shown as version 2, active on host-1, and is version 3, active on host-1": {
			[]rest.Instance{older}, all,
		},
		"vm-1 is shown as version 3, active on host-2, and is version 3, active on host-1": {
			[]rest.Instance{moved}, all,
		},
	} {
		said := strings.ReplaceAll(r.ListDiffers(c.got, "red", c.wants), `"`, "")
		if said != want {
			t.Errorf("says %q, want %q", said, want)
		}
	}
}
