// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"
	"time"
)

func TestPriorities(t *testing.T) {
	for _, p := range Priorities() {
		got, err := ParsePriority(p.String())
		if err != nil || got != p || p.Check() != nil {
			t.Errorf("%s is read as %s: %v", p, got, err)
		}
	}
	if p, err := ParsePriority(""); p != PriorityNormal || err != nil {
		t.Errorf("nothing is read as %s: %v", p, err)
	}
	if _, err := ParsePriority("urgent"); err == nil || !strings.Contains(err.Error(), `"urgent"`) {
		t.Errorf("%v", err)
	}
	if Priority(9).Check() == nil {
		t.Error("a class that there is not is none")
	}
}

// Each class waits for the one above it until it is older by the shift, and not a moment longer.
func TestRank(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		first, second Priority
		older         time.Duration // the second
	}{
		{PriorityHigh, PriorityNormal, PriorityShift}, {PriorityNormal, PriorityLow, PriorityShift},
		{PriorityHigh, PriorityLow, 2 * PriorityShift}, {PriorityLow, PriorityLow, 0},
	} {
		second := func(d time.Duration) time.Time { return c.second.Rank(now.Add(-d)) }
		if first := c.first.Rank(now); !first.Before(second(c.older-1)) || !second(c.older+1).Before(first) {
			t.Errorf("%s before %s until that is %s older", c.first, c.second, c.older)
		}
	}
}

func TestTierNames(t *testing.T) {
	for _, q := range []QueueName{"m1.small", "m1.small.gpu-a100", "x"} {
		for _, p := range Priorities() {
			if got, class := SplitTier(TierName(q, p)); got != q || class != p {
				t.Errorf("the tier of %s for %s is taken for that of %s for %s", q, p, got, class)
			}
		}
	}
	if TierName("m1.small", PriorityNormal) != "m1.small" {
		t.Error("normal work has a queue of its own")
	}
	for _, q := range []QueueName{".priority-high", "m1.priority", "m1.priority-", "m1.priority-normal", "priority-high"} {
		if _, class := SplitTier(q); class != PriorityNormal {
			t.Errorf("%s is taken for a tier", q)
		}
	}
	closed := Queue{Name: "a", State: QueueClosed, Group: "g", TopicID: "t", Error: "e", Resources: Resources{VCPU: 1}}
	tier := closed.Tier(PriorityLow)
	if tier.State != QueueOpen || tier.Group+string(tier.TopicID)+tier.Error != "" || tier.Resources[VCPU] != 1 ||
		tier.SameNeeds(closed) {
		t.Errorf("%+v", tier)
	}
}

// What a boot asks beside its queue is told apart by its class, and a set and a group keep it.
func TestPriorityInRules(t *testing.T) {
	b := Boot{Flavor: "m1.small", With: Choices{"gpu": "a100"}, Rules: RulesOf("web", Set{}, PriorityHigh)}
	b.InSet(Set{ID: "s", Size: 2})
	if b.Priority() != PriorityHigh || b.Group() != "web" || b.Queue() != "m1.small.gpu-a100.priority-high" {
		t.Errorf("%+v in %s", b.Rules, b.Queue())
	}
	if RulesOf("", Set{}, PriorityNormal) != nil {
		t.Error("a normal boot has rules")
	}
	b.Rules.Spread, b.Rules.Chosen = "gpu", true
	if asked := b.Asked(); asked.Priority() != PriorityHigh || len(asked.With) > 0 {
		t.Errorf("%+v", asked)
	}
	if b.Rules = (&PlacementRules{Priority: 9}); b.Check() == nil {
		t.Error("a class that there is not is taken")
	}
}
