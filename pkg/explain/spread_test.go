// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestUneven: what a skew leaves room for, on any host and on all together, and what is said where it leaves none.
func TestUneven(t *testing.T) {
	there := map[compute.AxisValue]uint32{"a": 3, "b": 2}
	of := func(v compute.AxisValue) uint32 { return there[v] }
	group := func(value compute.AxisValue, edit func(*compute.Group)) *Group {
		g := &Group{
			Rule: compute.Group{Project: "p", Name: "web", Policy: compute.SpreadOnly, Spread: "zone", Skew: 1}, Value: value,
			On: map[compute.HostID]uint32{"h1": 3, "h2": 2}, All: 5,
		}
		edit(&g.Rule)
		g.Even = compute.Even{Skew: g.Rule.Skew, Values: []compute.AxisValue{"a", "b"}, There: of, Stay: of}
		return g
	}
	for _, c := range []struct {
		what        string
		group       *Group
		host, atAll int64
		asker       string
	}{
		{"the fuller", group("a", func(*compute.Group) {}), 0, 0, "berth group set web --max-skew 2"},
		{"that with fewer", group("b", func(*compute.Group) {}), 2, 2, ""},
		{"no value yet", group("", func(*compute.Group) {}), compute.MaxAmount, compute.MaxAmount, ""},
		{"no skew", group("a", func(g *compute.Group) { g.Skew = 0 }), compute.MaxAmount, compute.MaxAmount, ""},
		{"a soft policy", group("a", func(g *compute.Group) { g.Policy = compute.SoftAffinity }), 0, 0, "zone=b, which has fewest"},
		{"both rules", group("b", func(g *compute.Group) { g.Policy, g.Most = compute.AntiAffinity, 4 }), 1, 2, "--max-per-host 5"},
		{"one value of an axis", group("b", func(g *compute.Group) {
			g.Policy, g.Most, g.Over = compute.AntiAffinity, 1, "zone"
		}), 1, 1, "--max-per-host 2"},
	} {
		if host, all := c.group.allows("h1"), c.group.atMost(); host != c.host || all != c.atAll {
			t.Errorf("%s: %d on a host, %d in all, want %d and %d", c.what, host, all, c.host, c.atAll)
		}
		if says := strings.Join(c.group.asker(), "\n"); !strings.Contains(says, c.asker) || c.asker == "" && says != "" {
			t.Errorf("%s: one can %q", c.what, says)
		}
		if uneven := strings.Contains(c.group.Says(), "zone a has 3 of them, b has 2"); uneven != (c.host == 0) {
			t.Errorf("%s: %s", c.what, c.group.Says())
		}
	}
}
