// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// grouped is a group with two members on h1 and one on h2, of which one has the value that is chosen now.
func grouped(p compute.GroupPolicy, most uint32, over compute.AxisName) *Group {
	return &Group{
		Rule: compute.Group{Name: "web", Policy: p, Most: most, Over: over},
		On:   map[compute.HostID]uint32{"h1": 2, "h2": 1}, All: 3, Same: 1,
	}
}

// TestHostsThatAGroupAllows: how many members more each host may have, and whether it is kept out of what it could take.
func TestHostsThatAGroupAllows(t *testing.T) {
	const any = compute.MaxAmount
	together := grouped(compute.Affinity, 0, "")
	together.On, together.All = map[compute.HostID]uint32{"h1": 3}, 3
	same := grouped(compute.Affinity, 0, "zone")
	same.Same = 3
	first := &Group{Rule: compute.Group{Policy: compute.Affinity}}
	for name, c := range map[string]struct {
		g    *Group
		want [3]int64 // of h1, h2 and h3
	}{
		"no group":             {nil, [3]int64{any, any, any}},
		"one on a host":        {grouped(compute.AntiAffinity, 1, ""), [3]int64{0, 0, 1}},
		"two on a host":        {grouped(compute.AntiAffinity, 2, ""), [3]int64{0, 1, 2}},
		"two of a value":       {grouped(compute.AntiAffinity, 2, "zone"), [3]int64{1, 1, 1}},
		"one of a value":       {grouped(compute.AntiAffinity, 1, "zone"), [3]int64{0, 0, 0}},
		"together":             {together, [3]int64{any, 0, 0}},
		"together, but on two": {grouped(compute.Affinity, 0, ""), [3]int64{0, 0, 0}},
		"the first":            {first, [3]int64{any, any, any}},
		"of one value":         {same, [3]int64{any, any, any}},
		"another has a value":  {grouped(compute.Affinity, 0, "zone"), [3]int64{0, 0, 0}},
		"rather apart":         {grouped(compute.SoftAntiAffinity, 1, ""), [3]int64{any, any, any}},
		"rather together":      {grouped(compute.SoftAffinity, 0, ""), [3]int64{any, any, any}},
	} {
		for n, want := range c.want {
			h := host(fmt.Sprint("h", n+1), 8)
			if got := c.g.allows(h.Beacon.Host); got != want {
				t.Errorf("%s: host %d may have %d more, want %d", name, n+1, got, want)
			}
			v := Judge(Wanted{Resources: compute.Resources{compute.VCPU: 1}, Group: c.g}, h)
			if kept := v.Standing == KeptOut; kept != (want == 0) || v.Room != min(want, 8) {
				t.Errorf("%s: host %d is %s, with room for %d", name, n+1, v.Standing, v.Room)
			}
		}
	}
}

// TestWhatAGroupIsToldAs: its rule and its members, and what its project can do about it.
func TestWhatAGroupIsToldAs(t *testing.T) {
	apart, values := grouped(compute.AntiAffinity, 2, ""), grouped(compute.Affinity, 0, "zone")
	if got := apart.Says(); got != "group web: at most 2 on one host, and 3 members on hosts" {
		t.Error(got)
	}
	if got := strings.Join(apart.asker(), "; "); got != "delete a member of group web; "+
		"let more of them be on one host: berth group set web --max-per-host 3" {
		t.Error(got)
	}
	if got := values.asker(); !slices.Equal(got, []string{
		"delete what else is on the zone of group web, or boot it outside of the group",
	}) {
		t.Error(got)
	}
}

// TestMembersThatWaitAreTold of the rule where it keeps them from a host, or is given up after a while.
func TestMembersThatWaitAreTold(t *testing.T) {
	const says, asks = "; group web: ", "you: delete a member of group web"
	const later = "next: its host is offered it once the rule allows that"
	apart := grouped(compute.AntiAffinity, 1, "")
	all := []Host{host("h1", 8), host("h2", 8)}
	for name, c := range map[string]struct {
		g     *Group
		on    compute.HostID // pinned to it
		hosts []Host
		want  []string
		not   []string
	}{
		"by all hosts":            {apart, "", all, []string{says, asks}, nil},
		"by one host":             {apart, "", []Host{host("h1", 8), host("h3", 0)}, []string{says, asks}, nil},
		"by none":                 {apart, "", []Host{host("h3", 0)}, nil, []string{says, asks}},
		"rather":                  {grouped(compute.SoftAntiAffinity, 1, ""), "", all, []string{says}, []string{asks}},
		"in no group":             {nil, "", []Host{host("h3", 0)}, nil, []string{says, asks}},
		"pinned, by its host":     {apart, "h1", all, []string{says, asks, later}, []string{"refuses it"}},
		"pinned, not by its host": {apart, "h3", []Host{host("h3", 0)}, []string{"refuses it"}, []string{says, asks, later}},
		"pinned, and may start": {apart, "h3", []Host{host("h3", 8)}, []string{"its host takes it within seconds"},
			[]string{says, asks, "you: "}},
	} {
		i := queued(pinnedTo(c.on))
		w := WantedBy(i)
		w.Group = c.g
		got := toldOf(Facts{Instance: i, Group: c.g, Wanted: w, Hosts: Hosts(w, c.hosts)}, c.hosts)
		for _, s := range c.want {
			if !strings.Contains(got, s) {
				t.Errorf("%s: %q is not in\n%s", name, s, got)
			}
		}
		for _, s := range c.not {
			if strings.Contains(got, s) {
				t.Errorf("%s: %q is in\n%s", name, s, got)
			}
		}
	}
}

// TestMembersGoToTheRoomiestHost of those that can take one, where all have to be on one.
func TestMembersGoToTheRoomiestHost(t *testing.T) {
	for name, c := range map[string]struct {
		hosts []Host
		want  int64
	}{
		"one for three":  {[]Host{host("h1", 2), host("h2", 6), host("h3", 2)}, 3},
		"the silent one": {[]Host{host("h1", 4), host("h2", 8, silent), host("h3", 2)}, 2},
		"one for each":   {[]Host{host("h1", 2), host("h2", 3)}, 1},
		"none":           {[]Host{host("h1", 1), host("h2", 0)}, 0},
	} {
		k := kind(9, 2)
		k.Group = &Group{Rule: compute.Group{Policy: compute.Affinity}}
		if got := Fill(nil, []Kind{k}, c.hosts).Fits[0]; got != c.want {
			t.Errorf("%s: %d fit, want %d", name, got, c.want)
		}
	}
}

// TestMembersOnEmptyHosts: how many of nine members three hosts with room for four each may have at once.
func TestMembersOnEmptyHosts(t *testing.T) {
	hosts := []Host{host("h1", 8), host("h2", 8), host("h3", 8)}
	for name, c := range map[string]struct {
		rule compute.Group
		want int64
	}{
		"one on a host":   {compute.Group{Policy: compute.AntiAffinity, Most: 1}, 3},
		"two on a host":   {compute.Group{Policy: compute.AntiAffinity, Most: 2}, 6},
		"together":        {compute.Group{Policy: compute.Affinity}, 4},
		"two of a value":  {compute.Group{Policy: compute.AntiAffinity, Most: 2, Over: "zone"}, 2},
		"of one value":    {compute.Group{Policy: compute.Affinity, Over: "zone"}, 9},
		"rather apart":    {compute.Group{Policy: compute.SoftAntiAffinity, Most: 1}, 9},
		"rather together": {compute.Group{Policy: compute.SoftAffinity}, 9},
	} {
		k := kind(9, 2)
		k.Group = &Group{Rule: c.rule}
		fits, room := Fill(nil, []Kind{k}, hosts).Fits[0], Hosts(k.Wanted, hosts).Room
		if fits != c.want || min(room, k.Count) != c.want {
			t.Errorf("%s: %d fit, and there is room for %d, want %d", name, fits, room, c.want)
		}
	}
}

// TestOneMore: one more of a kind is judged beside those of it that have room, and beside no others.
func TestOneMore(t *testing.T) {
	hosts := []Host{host("h1", 8), host("h2", 8)}
	g := &Group{Rule: compute.Group{Policy: compute.AntiAffinity, Most: 2}, On: map[compute.HostID]uint32{"h1": 1}, All: 1}
	k, other := kind(9, 1), kind(1, 1)
	k.Group = g
	filled := Fill(nil, []Kind{other, k}, hosts)
	got := filled.OneMore(1, k.Wanted).Group
	if fmt.Sprint(got.On) != "map[h1:2 h2:2]" || got.All != 4 || got.Same != 3 || g.All != 1 || len(g.On) != 1 {
		t.Errorf("%+v, of %+v", got, g)
	}
	if w := filled.OneMore(0, other.Wanted); w.Group != nil {
		t.Errorf("%+v", w.Group)
	}
	k.Group = &Group{Rule: g.Rule}
	if got := Fill(nil, []Kind{k}, hosts).OneMore(0, k.Wanted).Group; fmt.Sprint(got.On) != "map[h1:2 h2:2]" {
		t.Errorf("%+v", got)
	}
}

// TestMixOfMembers says that it is the rule which keeps the rest out, and what can be done about it.
func TestMixOfMembers(t *testing.T) {
	const asks = "delete a member of group web"
	for name, c := range map[string]struct {
		hosts []Host
		want  string
		asks  bool
	}{
		"room and no host": {[]Host{host("h1", 8), host("h2", 8)},
			"of some 2: the rule of group web (at most 1 on one host) lets no host have one more", true},
		"and one is full": {[]Host{host("h1", 8), host("h2", 1)},
			"of some 1: the host that lacks least for one more is short of 1 processor", true},
		"all are full": {[]Host{host("h1", 1)}, "of some 0: no host can take one now", false},
	} {
		k := kind(3, 2)
		k.Group = &Group{Rule: compute.Group{Name: "web", Policy: compute.AntiAffinity, Most: 1}}
		filled, before := Fill(nil, []Kind{k}, c.hosts), Hosts(k.Wanted, c.hosts)
		got := TellMix(Mix{Kinds: []MixKind{{
			Name: "some", Count: k.Count, Fits: filled.Fits[0], Alone: filled.Fits[0], Sums: true,
			Before: before, After: Hosts(filled.OneMore(0, k.Wanted), filled.Left), Group: k.Group,
		}}})
		if !strings.Contains(got.Summary, c.want) || slices.Contains(got.Asker, asks) != c.asks {
			t.Errorf("%s: %s, %q", name, got.Summary, got.Asker)
		}
	}
}

// anyGroup is a group with members on some hosts; nil: none.
func anyGroup(rt *rapid.T) *Group {
	if rapid.Bool().Draw(rt, "no group") {
		return nil
	}
	g := &Group{On: map[compute.HostID]uint32{}, Rule: compute.Group{
		Policy: rapid.SampledFrom(compute.GroupPolicies()).Draw(rt, "policy"),
	}}
	if g.Rule.Policy.Apart() {
		g.Rule.Most = rapid.Uint32Range(1, 3).Draw(rt, "most")
	}
	if !g.Rule.Policy.Soft() && rapid.IntRange(0, 2).Draw(rt, "over") == 0 {
		g.Rule.Over = "zone"
	}
	for range rapid.IntRange(0, 2).Draw(rt, "members") {
		g.On[rapid.SampledFrom([]compute.HostID{"h0", "h1"}).Draw(rt, "on")]++
		g.All++
	}
	g.Same = rapid.Uint32Range(0, g.All).Draw(rt, "same")
	return g
}

// rules says whether the rule of a group lets a host have one more beside those that were put on hosts, in the plainest
// way.
func rules(g *Group, put map[compute.HostID]int64, h compute.HostID) bool {
	if g == nil || g.Rule.Policy.Soft() || g.Rule.Policy == compute.SpreadOnly {
		return true
	}
	all, here, same := int64(g.All), int64(g.On[h])+put[h], int64(g.Same)
	for _, n := range put {
		all, same = all+n, same+n // all that are put choose the same
	}
	if g.Rule.Over != "" {
		here = same
	}
	if g.Rule.Policy.Apart() {
		return here < int64(g.Rule.Most)
	}
	return here == all
}
