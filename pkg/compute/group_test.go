// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"
)

// Each policy has a name that is read back, and says whether it is hard and what it asks.
func TestGroupPolicies(t *testing.T) {
	want := []struct {
		policy      GroupPolicy
		name, rule  string
		apart, soft bool
	}{
		{AntiAffinity, "anti-affinity", "at most 2 on one host", true, false},
		{Affinity, "affinity", "all on one host", false, false},
		{SoftAntiAffinity, "soft-anti-affinity", "rather at most 2 on one host", true, true},
		{SoftAffinity, "soft-affinity", "rather all on one host", false, true},
		{SpreadOnly, "none", (Group{Policy: SpreadOnly}).Rule(), false, false}, // its rule is the spread's
	}
	all := GroupPolicies()
	if len(all) != len(want) {
		t.Fatalf("there are %v", all)
	}
	for i, w := range want {
		p, err := ParseGroupPolicy(w.name)
		if err != nil || p != w.policy || all[i] != p || p.String() != w.name || p.Apart() != w.apart || p.Soft() != w.soft {
			t.Errorf("%s is %s: %v", w.name, p, err)
		}
		if got := (Group{Policy: p, Most: 2}).Rule(); got != w.rule {
			t.Errorf("%s is told as %q, want %q", w.name, got, w.rule)
		}
	}
	if p, err := ParseGroupPolicy("apart"); KindOf(err) != KindInvalid ||
		!strings.Contains(err.Error(), `policy "apart"`) {
		t.Errorf("%s, %v", p, err)
	}
	over := Group{Policy: AntiAffinity, Most: 1, Over: "zone"}
	if got := over.Rule(); got != "at most 1 on one zone" {
		t.Errorf("over an axis: %q", got)
	}
}

// A group that can never be right is refused with the field that is wrong, its value and what to give.
func TestGroupCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Group)
		want   string // empty: it is right
	}{
		{func(*Group) {}, ""},
		{func(g *Group) { g.Most = MaxMost }, ""},
		{func(g *Group) { g.Over = "zone" }, ""},
		{func(g *Group) { g.Policy, g.Most = SoftAntiAffinity, 2 }, ""},
		{func(g *Group) { g.Policy, g.Most = SoftAffinity, 0 }, ""},
		{func(g *Group) { g.Policy, g.Most, g.Over = Affinity, 0, "zone" }, ""},
		{func(g *Group) { g.Project = "P" }, `project "P" is not valid; use 1 to 64`},
		{func(g *Group) { g.Name = "" }, `group "" is not valid; use 1 to 64`},
		{func(g *Group) { g.Over = "Zone" }, `capability "Zone" is not valid; use 1 to 32`},
		{func(g *Group) { g.Policy = SpreadOnly + 1 }, `policy "group policy(5)" is not valid; give one`},
		{func(g *Group) { g.Most = 0 }, `max_per_host "0" is not valid; give 1 to 10000 with anti-affinity`},
		{func(g *Group) { g.Most = MaxMost + 1 }, `max_per_host "10001" is not valid; give 1 to 10000`},
		{func(g *Group) { g.Policy = Affinity }, `max_per_host "1" is not valid; leave it out with affinity`},
		{func(g *Group) { g.Policy, g.Over = SoftAntiAffinity, "zone" },
			`over "zone" is not valid; give host with soft-anti-affinity`},
	} {
		g := Group{Project: "p", Name: "web", Policy: AntiAffinity, Most: 1}
		c.change(&g)
		err := g.Check()
		if c.want == "" && err != nil ||
			c.want != "" && (KindOf(err) != KindInvalid || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", g, err, c.want)
		}
	}
}

// A boot in no group has no rules at all.
func TestGroupOfABoot(t *testing.T) {
	none, member := Boot{Rules: InGroup("")}, Boot{Rules: InGroup("web")}
	if none.Rules != nil || none.Group() != "" || member.Group() != "web" {
		t.Errorf("%+v, %q, %q", none.Rules, none.Group(), member.Group())
	}
	if key := (Group{Project: "p", Name: "web"}).Key(); key != (GroupKey{"p", "web"}) {
		t.Errorf("%+v", key)
	}
}
