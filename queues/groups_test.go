// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/advise"
)

var web = compute.GroupKey{Project: "p", Name: "web"}

// inWeb makes an instance a member of group web, on this host if its state is one of those on hosts.
func inWeb(host compute.HostID) func(*compute.Instance) {
	return func(i *compute.Instance) {
		if i.Boot.Rules = compute.InGroup(web.Name); i.State.OnHost() {
			i.Host = host
		}
	}
}

// ruled is the record of a rule of group web.
func ruled(policy compute.GroupPolicy, most uint32) wire.Record {
	return wire.EncodeGroup(compute.Group{Project: web.Project, Name: web.Name, Policy: policy, Most: most})
}

// on is where a member is on a host, and waits where it waits in a queue.
func on(h compute.HostID) groupMember       { return groupMember{group: web, host: h} }
func waits(q compute.QueueName) groupMember { return groupMember{group: web, queue: q} }
func (g *groups) all(m ...groupMember) *groups {
	for n, is := range m {
		g.note(fmt.Sprint("i", n), is)
	}
	return g
}

// TestMembersAreCounted: whatever instances begin, move, end and are forgotten, members are counted where they are and
// wait, and note answers the host that one has left, with the queues in which others of its group wait.
func TestMembersAreCounted(t *testing.T) {
	keys := []compute.GroupKey{web, {Project: "p", Name: "db"}, {Project: "q", Name: "web"}}
	rapid.Check(t, func(rt *rapid.T) {
		g, there := newGroups(), map[string]groupMember{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			key := rapid.SampledFrom([]string{"i0", "i1", "i2", "i3"}).Draw(rt, "instance")
			var is groupMember
			if rapid.IntRange(0, 3).Draw(rt, "stays") > 0 {
				is.group = rapid.SampledFrom(keys).Draw(rt, "group")
				is.host = rapid.SampledFrom([]compute.HostID{"", "h0", "h1"}).Draw(rt, "host")
				is.queue = rapid.SampledFrom([]compute.QueueName{"", "x", "y"}).Draw(rt, "queue")
			}
			was := there[key]
			there[key] = is
			left, queues := g.note(key, is)
			var wantLeft compute.HostID
			var wantQueues []compute.QueueName
			if was.host != is.host {
				wantLeft = was.host
			}
			if wantLeft != "" {
				wantQueues = slices.Sorted(maps.Keys(dumbly(there, was.group).waiting))
			}
			if left != wantLeft || !slices.Equal(queues, wantQueues) {
				rt.Fatalf("%+v became %+v: left is %q for %v, want %q for %v", was, is, left, queues, wantLeft, wantQueues)
			}
			kept := 0
			for _, k := range keys {
				want := dumbly(there, k)
				got := g.of[k]
				if got == nil {
					got = &group{}
				} else if kept++; len(want.on)+len(want.waiting) == 0 {
					rt.Fatalf("%v is kept with nothing in it", k)
				}
				if got.all != want.all || !maps.Equal(got.on, want.on) || !maps.Equal(got.waiting, want.waiting) {
					rt.Fatalf("%v is %+v, want %+v", k, got, want)
				}
			}
			members := maps.Clone(there)
			maps.DeleteFunc(members, func(_ string, m groupMember) bool { return m == groupMember{} })
			if kept != len(g.of) || !maps.Equal(members, g.members) {
				rt.Fatalf("%d groups are kept, and members %v, want %v", len(g.of), g.members, members)
			}
		}
	})
}

// dumbly counts a group anew.
func dumbly(there map[string]groupMember, key compute.GroupKey) *group {
	x := &group{on: map[compute.HostID]uint32{}, waiting: map[compute.QueueName]int{}}
	for _, m := range there {
		if m.group != key {
			continue
		}
		if m.host != "" {
			x.all, x.on[m.host] = x.all+1, x.on[m.host]+1
		}
		if m.queue != "" {
			x.waiting[m.queue]++
		}
	}
	return x
}

// TestMemberOf: a member counts on its host from its grant until that has said that it is gone, and waits where its
// work lies.
func TestMemberOf(t *testing.T) {
	for state, want := range map[compute.State]groupMember{
		compute.StateQueued:   waits("x"),
		compute.StateStarting: on("h1"), compute.StateActive: on("h1"), compute.StateDeleting: on("h1"),
		compute.StateDeleted: {}, compute.StateError: {},
	} {
		i := compute.Instance{Project: "p", State: state, Host: "h1", Boot: compute.Boot{Rules: compute.InGroup("web")}}
		var queue compute.QueueName
		if state == compute.StateQueued {
			queue = "x"
		}
		if got := memberOf(i, queue); got != want {
			t.Errorf("%s is %+v, want %+v", state, got, want)
		}
		if i.Boot.Rules = nil; memberOf(i, queue) != (groupMember{}) {
			t.Errorf("%s of no group is a member", state)
		}
	}
}

// TestWhereMembersWait: in a queue only while their work lies there, which that for one host never does; and only a
// host that was left has hosts rung.
func TestWhereMembersWait(t *testing.T) {
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	pinned := func(i *compute.Instance) { i.Boot.Host = "h1" }
	for _, c := range []struct {
		rec     wire.Record
		waiting string
		came    bool
	}{
		{instance(1, "x", compute.StateQueued, inWeb(""), pinned), "[]", false},
		{instance(2, "x", compute.StateQueued, inWeb("")), "[x]", true},
		{instance(3, "y", compute.StateQueued, inWeb("")), "[x y]", true},
		{instance(3, "y", compute.StateStarting, inWeb("h1")), "[x]", false},
		{instance(3, "y", compute.StateActive, inWeb("h1")), "[x]", false},
		{instance(3, "y", compute.StateDeleted, inWeb("")), "[x]", true},
		{instance(2, "x", compute.StateStarting, inWeb("h1")), "[]", false},
		{instance(2, "x", compute.StateDeleted, inWeb("")), "[]", false},
	} {
		out := v.instance(c.rec, time.Now())
		if got := fmt.Sprint(v.groups.waitIn(web)); got != c.waiting || out.came != c.came {
			t.Errorf("after %s they wait in %s, and %+v", c.rec.Key, got, out)
		}
	}
}

// TestHostsThatARuleKeepsOut of those that have two members, one and none.
func TestHostsThatARuleKeepsOut(t *testing.T) {
	some := []groupMember{on("h2"), on("h1"), on("h2"), waits("x")}
	for name, c := range map[string]struct {
		rule    compute.Group
		members []groupMember
		want    string
	}{
		"one on a host":      {compute.Group{Policy: compute.AntiAffinity, Most: 1}, some, "h1 h2"},
		"two on a host":      {compute.Group{Policy: compute.AntiAffinity, Most: 2}, some, "h2"},
		"three on a host":    {compute.Group{Policy: compute.AntiAffinity, Most: 3}, some, ""},
		"apart, none there":  {compute.Group{Policy: compute.AntiAffinity, Most: 1}, nil, ""},
		"together":           {compute.Group{Policy: compute.Affinity}, []groupMember{on("h1"), on("h1")}, "h0 h2"},
		"together, on two":   {compute.Group{Policy: compute.Affinity}, some, "h0 h1 h2"},
		"together, all wait": {compute.Group{Policy: compute.Affinity}, []groupMember{waits("x")}, ""},
		"rather apart":       {compute.Group{Policy: compute.SoftAntiAffinity, Most: 1}, some, ""},
		"rather together":    {compute.Group{Policy: compute.SoftAffinity}, some, ""},
		"apart by zone":      {compute.Group{Policy: compute.AntiAffinity, Most: 1, Over: "zone"}, some, ""},
		"together by zone":   {compute.Group{Policy: compute.Affinity, Over: "zone"}, some, ""},
	} {
		g := newGroups()
		g.rules[web] = c.rule
		g.all(c.members...)
		if got := kept(g.keeps); got != c.want {
			t.Errorf("%s: kept out are %q, want %q", name, got, c.want)
		}
	}
	unruled := newGroups()
	if got := kept(unruled.all(some...).keeps); got != "" {
		t.Errorf("without a rule kept out are %q", got)
	}
}

func kept(keeps func(compute.GroupKey, compute.HostID) bool) (out string) {
	for _, h := range []compute.HostID{"h0", "h1", "h2"} {
		if keeps(web, h) {
			out += " " + string(h)
		}
	}
	return out[min(1, len(out)):]
}

// TestWorkOfAMember: it is kept from hosts by the rule as it is when they are rung, and only a rule that keeps members
// on hosts apart has one host rung for each.
func TestWorkOfAMember(t *testing.T) {
	for name, c := range map[string]struct {
		rule  compute.Group
		apart bool
	}{
		"apart":        {compute.Group{Policy: compute.AntiAffinity, Most: 1}, true},
		"together":     {compute.Group{Policy: compute.Affinity}, false},
		"rather apart": {compute.Group{Policy: compute.SoftAntiAffinity, Most: 1}, false},
		"by zone":      {compute.Group{Policy: compute.AntiAffinity, Most: 1, Over: "zone"}, false},
	} {
		v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
		v.groups.rules[web] = c.rule
		i := compute.Instance{Project: "p", Boot: compute.Boot{Rules: compute.InGroup("web")}}
		if w := v.workOf("k", i); w.Apart() != c.apart || w.Key != "k" {
			t.Errorf("%s: %+v", name, w)
		}
	}
	v := newView(Options{Advice: advise.DefaultRules()}.withDefaults())
	w := v.workOf("k", compute.Instance{Project: "p", Boot: compute.Boot{Rules: compute.InGroup("web")}})
	if v.groups.all(on("h1")); w.Apart() || w.Kept("h1") {
		t.Errorf("without a rule: %+v", w)
	}
	v.groups.rules[web] = compute.Group{Policy: compute.AntiAffinity, Most: 1}
	if !w.Kept("h1") || w.Kept("h2") || !w.Apart() {
		t.Error("it does not see the rule that came later")
	}
	if w := v.workOf("k", compute.Instance{Project: "p"}); w.Kept != nil || w.Apart != nil {
		t.Errorf("of no group: %+v", w)
	}
}

// groupRig is a manager that is elected, with hosts h1 and h2 that have room, and on h1 a member of group web.
func groupRig(t *testing.T, f *far, rule wire.Record) {
	m := f.join(t, "a")
	m.elected <- true
	f.publish(names.Hosts(), ringing("h1", 4), ringing("h2", 4))
	f.publish(names.Catalog(), flavor("x"), rule)
	f.publish(names.Instances(), instance(1, "x", compute.StateActive, inWeb("h1")))
	settle(5 * time.Second)
	f.expectRung(t, map[compute.HostID]int{})
}

// A member that waits has no host rung that the rule keeps out.
func TestMembersRingHostsThatTheRuleAllows(t *testing.T) {
	for name, c := range map[string]struct {
		rule wire.Record
		want map[compute.HostID]int
	}{
		"apart":        {ruled(compute.AntiAffinity, 1), map[compute.HostID]int{"h2": 1}},
		"together":     {ruled(compute.Affinity, 0), map[compute.HostID]int{"h1": 1}},
		"rather apart": {ruled(compute.SoftAntiAffinity, 1), map[compute.HostID]int{"h1": 1, "h2": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				groupRig(t, f, c.rule)
				f.publish(names.Instances(), instance(2, "x", compute.StateQueued, inWeb("")))
				settle(0)
				f.expectRung(t, c.want)
			})
		})
	}
}

// The host that a member has left is rung for the members that wait, long after all others were; what is being deleted
// may still run and has left nothing.
func TestTheHostThatAMemberLeftIsRung(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		groupRig(t, f, ruled(compute.AntiAffinity, 1))
		f.publish(names.Instances(), instance(2, "x", compute.StateActive, inWeb("h2")),
			instance(3, "x", compute.StateQueued, inWeb("")))
		settle(50 * time.Second)                                     // it is seldom looked at by now
		f.publish(names.Hosts(), ringing("h1", 4), ringing("h2", 4)) // or they are silent
		f.publish(names.Instances(), instance(1, "x", compute.StateDeleting, inWeb("h1")))
		settle(time.Second)
		f.expectRung(t, map[compute.HostID]int{})
		f.publish(names.Instances(), instance(1, "x", compute.StateDeleted, inWeb("")))
		settle(300 * time.Millisecond)
		f.expectRung(t, map[compute.HostID]int{"h1": 1})
	})
}

// A rule that is changed, or gone, has hosts rung that it kept out before, as many as work has that is ruled so.
func TestHostsAreRungWhenARuleChanges(t *testing.T) {
	for name, rule := range map[string]wire.Record{
		"two on a host": ruled(compute.AntiAffinity, 2), "gone": wire.Tombstone(wire.KeyGroup("p", "web")),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				groupRig(t, f, ruled(compute.AntiAffinity, 1))
				f.publish(names.Instances(), instance(2, "x", compute.StateActive, inWeb("h2")),
					instance(3, "x", compute.StateQueued, inWeb("")))
				settle(50 * time.Second)
				f.publish(names.Hosts(), ringing("h1", 4), ringing("h2", 4)) // or they are silent
				settle(time.Second)
				f.expectRung(t, map[compute.HostID]int{})
				f.publish(names.Catalog(), rule)
				settle(300 * time.Millisecond)
				want := 1 // that it may have for itself
				if rule.Value == nil {
					want = 2 // as for any work
				}
				if got := f.rung(t, "h1", "h2"); len(got) != want {
					t.Errorf("rung is %v, want %d", got, want)
				}
			})
		})
	}
}
