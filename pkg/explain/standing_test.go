// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func TestOneHost(t *testing.T) {
	wants := func(vcpus int64, change ...func(*Wanted)) Wanted {
		w := Wanted{Resources: compute.Resources{compute.VCPU: vcpus, compute.MemoryMB: 0}}
		for _, f := range change {
			f(&w)
		}
		return w
	}
	leaves := func(h *Host) { h.Beacon.Leaves = true }
	for name, c := range map[string]struct {
		w    Wanted
		h    Host
		want Verdict
	}{
		"a class of which none is wanted": {wants(4), host("h1", 8), Verdict{Standing: Fits, Room: 2, Empty: 2}},
		"another host": {wants(4, func(w *Wanted) { w.Host = "h2" }), host("h1", 8),
			Verdict{Standing: OtherHost}},
		"too small": {wants(9), host("h1", 8), Verdict{
			Standing: TooSmall, Short: compute.Resources{compute.VCPU: 1},
		}},
		"larger than its beacon says": {wants(9), host("h1", 8, func(h *Host) {
			h.Whole = compute.Resources{compute.VCPU: 18}
		}), Verdict{Standing: Full, Short: compute.Resources{compute.VCPU: 1}, Empty: 2}},
		"its agent ends":       {wants(4), host("h1", 8, leaves), Verdict{Standing: Silent, Empty: 2}},
		"it says it is silent": {wants(4), host("h1", 8, in(compute.HostSilent, "")), Verdict{Standing: Silent, Empty: 2}},
		"mistrusts the image of what is for it": {
			wants(4, func(w *Wanted) { w.Host, w.Image = "h1", "bad" }), host("h1", 8, mistrusts("bad")),
			Verdict{Standing: Fits, Room: 2, Empty: 2},
		},
		"room beside what it saves": {
			wants(2), host("h1", 8, savesFor("q", 6)), Verdict{Standing: Fits, Room: 1, Empty: 4},
		},
		"none beside what it saves": {
			wants(3), host("h1", 8, savesFor("q", 6)), Verdict{
				Standing: Full, Short: compute.Resources{compute.VCPU: 1}, Empty: 2, Saving: &compute.Saving{},
			},
		},
		"a trait that it must not have, and has not": {
			wants(4, func(w *Wanted) { w.Forbidden = []compute.Trait{"CUSTOM_A"} }), host("h1", 8, traits("CUSTOM_B")),
			Verdict{Standing: Fits, Room: 2, Empty: 2},
		},
		"wrong traits": {
			wants(4, func(w *Wanted) {
				w.Required, w.Forbidden = []compute.Trait{"CUSTOM_A", "CUSTOM_B"}, []compute.Trait{"CUSTOM_C", "CUSTOM_D"}
			}), host("h1", 8, traits("CUSTOM_A", "CUSTOM_C")),
			Verdict{Standing: LacksTrait, Traits: []compute.Trait{"CUSTOM_B", "CUSTOM_C"}},
		},
	} {
		if c.want.Host = "h1"; c.want.Saving != nil {
			c.want.Saving = c.h.Beacon.Saving
		}
		if diff := cmp.Diff(c.want, Judge(c.w, c.h)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNoStanding: a number of a later version is no host that takes something.
func TestNoStanding(t *testing.T) {
	if s := standings; s.String() != "unknown" || s.Now() || s.Never() {
		t.Errorf("%s: now %t, never %t", s, s.Now(), s.Never())
	}
}
