// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWrongSpreads: what no group can be is refused with the field, the value and the remedy.
func TestWrongSpreads(t *testing.T) {
	spread := Group{Project: "p", Name: "web", Policy: SpreadOnly, Spread: "zone", Skew: 1}
	with := func(edit func(*Group)) Group {
		g := spread
		edit(&g)
		return g
	}
	for _, g := range []Group{
		spread,
		with(func(g *Group) { g.Skew = 0 }),
		with(func(g *Group) { g.Policy, g.Most = AntiAffinity, 1 }),
		with(func(g *Group) { g.Policy, g.Most, g.Over = AntiAffinity, 1, "zone" }),
		with(func(g *Group) { g.Policy, g.Over = Affinity, "rack" }),
		with(func(g *Group) { g.Policy = SoftAffinity }),
	} {
		if err := g.Check(); err != nil {
			t.Errorf("%+v: %v", g, err)
		}
	}
	for _, c := range []struct {
		group                Group
		field, value, remedy string
	}{
		{with(func(g *Group) { g.Spread, g.Skew = "", 0 }), "policy", "none", "give a spread too"},
		{with(func(g *Group) { g.Most = 2 }), "max_per_host", "2", "leave it out with none"},
		{with(func(g *Group) { g.Over = "rack" }), "over", "rack", "leave it out with none"},
		{with(func(g *Group) { g.Policy, g.Most, g.Spread = AntiAffinity, 1, "" }), "max_skew", "1",
			"say over which capability"},
		{with(func(g *Group) { g.Skew = MaxSkew + 1 }), "max_skew", "10001", "give 1 to 10000"},
		{with(func(g *Group) { g.Policy, g.Over = Affinity, "zone" }), "spread", "zone", "has all members on one zone"},
		{with(func(g *Group) { g.Spread = "host" }), "spread", "host", "give a capability"},
		{with(func(g *Group) { g.Spread = "No Axis" }), "capability", "No Axis", ""},
	} {
		err := c.group.Check()
		e, ok := err.(*Error)
		if !ok || c.remedy != "" && (e.Field != c.field || e.Value != c.value) || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%+v is refused with %v, want %s %q: %s", c.group, err, c.field, c.value, c.remedy)
		}
	}
}

func TestSpreadInWords(t *testing.T) {
	for want, g := range map[string]Group{
		"spread over zone": {Policy: SpreadOnly, Spread: "zone"},
		"at most 2 on one host, spread over zone with a skew of at most 1": {Policy: AntiAffinity, Most: 2,
			Spread: "zone", Skew: 1},
		"rather all on one host, spread over zone": {Policy: SoftAffinity, Spread: "zone"},
	} {
		if got := g.Rule(); got != want {
			t.Errorf("%q is told as %q", want, got)
		}
	}
}

// TestFewest: members that come one after the other are spread evenly, whatever the values are called, and not all
// groups begin with the same one.
func TestFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfNDistinct(rapid.SampledFrom([]AxisValue{"a", "b", "c", "d", "e"}), 1, 5,
			rapid.ID).Draw(t, "values")
		g := Group{Project: "p", Name: GroupName(rapid.StringMatching("[a-z]{1,5}").Draw(t, "name"))}
		n := map[AxisValue]uint32{}
		of := func(v AxisValue) uint32 { return n[v] }
		for range rapid.IntRange(0, 20).Draw(t, "members") {
			v := g.Fewest(values, of)
			backwards := slices.Clone(values)
			slices.Reverse(backwards)
			if other := g.Fewest(backwards, of); other != v {
				t.Fatalf("the order of the values decides: %s, or %s", v, other)
			}
			for _, other := range values {
				if n[other] < n[v] {
					t.Fatalf("%s has %d, and %s, which has %d, is chosen", other, n[other], v, n[v])
				}
			}
			n[v]++
		}
	})
	first := map[AxisValue]int{}
	for i := range 300 {
		g := Group{Project: "p", Name: GroupName(fmt.Sprintf("web%d", i))}
		first[g.Fewest([]AxisValue{"a", "b", "c"}, func(AxisValue) uint32 { return 0 })]++
	}
	for _, v := range []AxisValue{"a", "b", "c"} {
		if first[v] < 60 {
			t.Errorf("of 300 groups this many begin with each: %v", first)
		}
	}
	if v := (Group{}).Fewest(nil, nil); v != "" {
		t.Errorf("of no values %s has fewest", v)
	}
}

func TestLeft(t *testing.T) {
	type counts = map[AxisValue]uint32
	for _, c := range []struct {
		skew        uint32
		there, stay counts
		left        uint32
		least       AxisValue
	}{
		{1, counts{}, counts{}, 1, "b"},
		{2, counts{"a": 1}, counts{"a": 1}, 1, "b"},
		{1, counts{"a": 1}, counts{"a": 1}, 0, "b"},
		{1, counts{"a": 5}, counts{"a": 5}, 0, "b"},
		{1, counts{"a": 1, "b": 1, "c": 2}, counts{"a": 1, "b": 1, "c": 2}, 1, "b"},
		{1, counts{"a": 1, "b": 1, "c": 0}, counts{"a": 1, "b": 1}, 0, "c"},
		{1, counts{"a": 0, "b": 5, "c": 5}, counts{"b": 5, "c": 5}, 6, "b"},
		{1, counts{"a": 1, "b": 1, "c": 1}, counts{"a": 1, "c": 1}, 0, "b"}, // the one of b is being deleted
		{1, counts{"a": 3, "b": 3, "c": 3}, counts{"b": 3, "c": 3}, 1, "b"}, // those of a are
		{0, counts{"a": 3}, counts{}, math.MaxUint32, ""},
	} {
		e := Even{
			Skew: c.skew, Values: []AxisValue{"a", "b", "c"},
			There: func(v AxisValue) uint32 { return c.there[v] }, Stay: func(v AxisValue) uint32 { return c.stay[v] },
		}
		if left, least := e.Left("a"); left != c.left || least != c.least {
			t.Errorf("%v: %d more may come, and %q has fewest", c, left, least)
		}
		if left, least := e.Left(""); left != math.MaxUint32 || least != "" {
			t.Errorf("one without a value: %d, %q", left, least)
		}
		e.Values = []AxisValue{"a"}
		if left, least := e.Left("a"); left != math.MaxUint32 || least != "" {
			t.Errorf("there is no other value: %d, %q", left, least)
		}
	}
}

// TestAsked: what a conductor chose was not asked for, and what was asked for was.
func TestAsked(t *testing.T) {
	b := Boot{Flavor: "m1.small", With: Choices{"gpu": "a100"}, Rules: InGroup("web")}
	chosen := b.Having("zone", "a")
	chosen.Rules = &PlacementRules{Group: "web", Spread: "zone", Chosen: true}
	own := b.Having("zone", "a")
	own.Rules = &PlacementRules{Group: "web", Spread: "zone"}
	for what, c := range map[string]struct {
		of   Boot
		want Choices
	}{
		"chosen": {chosen, Choices{"gpu": "a100"}}, "its own": {own, Choices{"gpu": "a100", "zone": "a"}},
		"no spread": {b, Choices{"gpu": "a100"}}, "no group": {Boot{With: Choices{"zone": "a"}}, Choices{"zone": "a"}},
	} {
		before := fmt.Sprint(c.of.With)
		got := c.of.Asked()
		if fmt.Sprint(got.With) != fmt.Sprint(c.want) || got.Group() != c.of.Group() || got.Spread().Spread != "" {
			t.Errorf("%s was asked for with %v of group %s", what, got.With, got.Group())
		}
		if fmt.Sprint(c.of.With) != before {
			t.Errorf("%s: the record was changed to %v", what, c.of.With)
		}
	}
	if alone := (Boot{Rules: chosen.Rules}).Having("zone", "a").Asked(); alone.With != nil {
		t.Errorf("a boot without choices had %#v", alone.With)
	}
}
