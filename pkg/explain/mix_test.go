// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/conductor/quota"
	"github.com/berth-project/berth/pkg/compute"
)

// TestAdmitIsWhatConductorsDo: a quota allows as many of each kind as a conductor admits if they come one after the other.
func TestAdmitIsWhatConductorsDo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mix := rapid.SliceOfN(rapid.Custom(anyKind), 0, 4).Draw(rt, "mix")
		anyClass := rapid.SampledFrom(compute.Priorities())
		for i := range mix {
			mix[i].Priority = anyClass.Draw(rt, "class")
		}
		limits, used, index := compute.PartAmounts{}, compute.PartAmounts{}, quota.NewIndex()
		admit := func(p compute.Priority, r compute.Resources) {
			i := &compute.Instance{Project: "p", State: compute.StateQueued, Resources: r}
			i.Boot.Rules = compute.RulesOf("", compute.Set{}, p)
			index.Replace(nil, i)
		}
		admit(anyClass.Draw(rt, "class"), anyAmounts(rt, 0, 9, "used"))
		own := compute.Quota{Limits: compute.Resources{}, Classes: compute.ClassLimits{}}
		for _, part := range compute.AllQuotaParts() {
			limits[part], used[part] = compute.Resources{}, index.UsedOf("p", part).Clone()
			for _, c := range []compute.ResourceClass{compute.Instances, compute.VCPU, compute.MemoryMB} {
				if rapid.Bool().Draw(rt, "limited") {
					limits[part][c] = rapid.Int64Range(0, 30).Draw(rt, "limit")
				}
			}
			if p, class := part.Priority(); class {
				own.Classes[p] = limits[part]
			} else {
				own.Limits = limits[part]
			}
		}
		got, want := Admit(limits, used, mix), make([]int64, len(mix))
		for i, k := range mix {
			for range k.Count {
				if index.Check("p", quota.Ask(k.Priority, k.Resources), quota.Limits{Own: own}) == nil {
					admit(k.Priority, k.Resources)
					want[i]++
				}
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("%v, one by one %v, of %+v under %v", got, want, mix, limits)
		}
	})
}

// TestTellMix says of each kind that does not fit why.
func TestTellMix(t *testing.T) {
	hosts := []Host{host("h1", 4), host("h2", 8, in(compute.HostDisabled, "new disks"))}
	told := func(hosts []Host, mix ...Kind) Told {
		filled := Fill(nil, mix, hosts)
		m := Mix{}
		for i, k := range mix {
			m.Kinds = append(m.Kinds, MixKind{
				Name: "some", Count: k.Count, Fits: filled.Fits[i], Alone: Fill(nil, mix[i:i+1], hosts).Fits[0], Sums: true,
				Before: Hosts(k.Wanted, hosts), After: Hosts(filled.OneMore(i, k.Wanted), filled.Left), Group: k.Group,
			})
		}
		return TellMix(m)
	}
	for name, c := range map[string]struct {
		told Told
		want string
	}{
		"all":  {told(hosts, kind(2, 1), kind(1, 2)), "there is room for all 3 now"},
		"none": {told(nil, kind(2, 1)), "there is room for 0 of 2 now; of some 0: there is no host"},
		"some": {
			told(hosts, kind(3, 2)),
			"there is room for 2 of 3 now; of some 2: the host that lacks least for one more is short of 2 processors",
		},
		"not now": {
			told(hosts, kind(2, 6)),
			"there is room for 0 of 2 now; of some 0: no host can take one now: of 2 hosts 1 full (the nearest is short of 2 processors), 1 disabled",
		},
		"never": {
			told(hosts, kind(2, 60)),
			"there is room for 0 of 2 now; of some 0: no host can ever take one: of 2 hosts 2 too small even when empty",
		},
		"not together": {
			told(hosts, kind(1, 3), kind(1, 2)),
			"there is room for 1 of 2 now; of some 0: alone all of them have room, and not with the others",
		},
	} {
		if c.told.Summary != c.want {
			t.Errorf("%s: %s", name, c.told.Summary)
		}
	}
	some := told(hosts, kind(3, 2))
	if want := "free 2 processors on host h1"; !slices.Contains(some.Operators, want) || some.Asker[0] != "boot as many as have room" ||
		!strings.Contains(strings.Join(some.Operators, "\n"), "berth host enable h2") {
		t.Errorf("%+v", some)
	}
}
