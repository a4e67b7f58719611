// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestWhatRulesKeep: a rule over hosts keeps work from some of them; preferences, rules over an axis and a spread keep
// it from none.
func TestWhatRulesKeep(t *testing.T) {
	for policy, want := range map[compute.GroupPolicy][2]bool{ // on a host with a member, on one without
		compute.AntiAffinity: {true, false}, compute.Affinity: {false, true}, compute.SoftAntiAffinity: {},
		compute.SoftAffinity: {},
		compute.SpreadOnly:   {},
	} {
		rule := compute.Group{Project: "p", Name: "web", Policy: policy, Spread: "zone", Skew: 1}
		if policy.Apart() {
			rule.Most = 1
		}
		g := newGroups()
		g.rules[rule.Key()] = rule
		g.note("p/1", groupMember{group: rule.Key(), host: "h1"})
		g.note("p/2", groupMember{group: rule.Key(), queue: "m1.small"})
		if with, without := g.keeps(rule.Key(), "h1"), g.keeps(rule.Key(), "h2"); [2]bool{with, without} != want {
			t.Errorf("%s keeps work from one with a member: %t, without: %t", policy, with, without)
		}
		rule.Over = "zone"
		g.rules[rule.Key()] = rule
		if g.keeps(rule.Key(), "h1") || g.keeps(rule.Key(), "h2") {
			t.Errorf("%s over an axis keeps work from hosts", policy)
		}
	}
}
