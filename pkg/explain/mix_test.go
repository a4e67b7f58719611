// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestUses: each machine counts in the whole quota and in the part of its class, and is one instance.
func TestUses(t *testing.T) {
	high := kind(3, 2)
	high.Priority = compute.PriorityHigh
	got, want := Uses([]Kind{high, kind(1, 4)}), compute.PartAmounts{}
	for p, r := range map[compute.Priority]compute.Resources{
		compute.PriorityHigh:   {compute.VCPU: 6, compute.Instances: 3},
		compute.PriorityNormal: {compute.VCPU: 4, compute.Instances: 1},
	} {
		for _, part := range compute.QuotaParts(p) {
			want.Add(part, r, 1)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAdmitOfNothing: what wants none of a class is not kept out by its limit.
func TestAdmitOfNothing(t *testing.T) {
	limits := compute.PartAmounts{}
	for _, part := range compute.AllQuotaParts() {
		limits[part] = compute.Resources{compute.VCPU: 0}
	}
	if got := Admit(limits, compute.PartAmounts{}, []Kind{kind(3, 0)}); !slices.Equal(got, []int64{3}) {
		t.Errorf("%v", got)
	}
}

// TestMixInWords: what waits before, what the others of the mix take, and what is asked for once.
func TestMixInWords(t *testing.T) {
	now, disabled := []Host{host("h1", 1)}, []Host{host("h1", 8, in(compute.HostDisabled, ""))}
	one, two := kind(1, 1).Wanted, kind(1, 2).Wanted
	some := func(fits, alone int64, change ...func(*MixKind)) MixKind {
		k := MixKind{Name: "some", Count: 2, Fits: fits, Alone: alone, Before: Hosts(one, now), After: Hosts(two, now),
			Sums: true}
		for _, f := range change {
			f(&k)
		}
		return k
	}
	noSums := func(k *MixKind) { k.Sums = false }
	later := func(k *MixKind) { k.Before, k.After = Hosts(one, disabled), Hosts(one, disabled) }
	unknown := func(k *MixKind) { k.After = Answer{} }
	const short, none = "the host that lacks least for one more is short of 1 processor", "no host has room for one more"
	const smaller, fewer, most = "delete machines that are not needed, or boot a smaller flavor",
		"boot fewer of the others first", "boot as many as have room"
	for _, c := range []struct {
		mix   Mix
		says  string
		asker []string
	}{
		{Mix{Kinds: []MixKind{some(2, 2)}, Ahead: 1}, "there is room for all 2 now, behind 1 that waits before them", nil},
		{Mix{Kinds: []MixKind{some(2, 2)}, Ahead: 2}, "there is room for all 2 now, behind 2 that wait before them", nil},
		{Mix{Kinds: []MixKind{some(0, 1)}}, "there is room for 0 of 2 now; of some 0: " + short, []string{smaller}},
		{Mix{Kinds: []MixKind{some(1, 1)}}, "there is room for 1 of 2 now; of some 1: " + short, []string{most, smaller}},
		{Mix{Kinds: []MixKind{some(0, 1), some(1, 1)}},
			"there is room for 1 of 4 now; of some 0: " + short + "; of some 1: " + short,
			[]string{fewer, smaller, most}},
		{Mix{Kinds: []MixKind{some(0, 0), some(2, 2)}}, "there is room for 2 of 4 now; of some 0: " + short,
			[]string{smaller}},
		{Mix{Kinds: []MixKind{some(0, 0, noSums)}}, "there is room for 0 of 2 now; of some 0: " + none, []string{smaller}},
		{Mix{Kinds: []MixKind{some(0, 0, noSums, later)}}, "there is room for 0 of 2 now; of some 0: " + none, nil},
		{Mix{Kinds: []MixKind{some(0, 0, unknown)}}, "there is room for 0 of 2 now; of some 0: " + none, nil},
	} {
		got := TellMix(c.mix)
		if got.Summary != c.says || !slices.Equal(got.Asker, c.asker) {
			t.Errorf("%s: %q, want %s: %q", got.Summary, got.Asker, c.says, c.asker)
		}
		if len(got.Operators) > 1 {
			t.Errorf("operators are told twice: %q", got.Operators)
		}
	}
}
