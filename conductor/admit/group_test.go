// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// verifyRule finds a grant that breaks the rule of its group, by the records alone.
func (c *checked) verifyRule(inst *compute.Instance, view View) {
	c.t.Helper()
	rule, ok := view.Groups[compute.GroupKey{Project: inst.Project, Name: inst.Boot.Group()}]
	before := c.last[inst.ID]
	if ok && inst.Version == 1 && inst.State == compute.StateQueued {
		c.verifyChoice(inst, rule, view)
	}
	if !ok || inst.State != compute.StateStarting || before.State == compute.StateStarting {
		return
	}
	if there, others := c.spread(inst, rule, true); rule.Skew > 0 && there+1 > rule.Skew+others {
		c.t.Fatalf("%s is granted beside %d with its value, and one has %d: %s", inst.ID, there, others, rule.Rule())
	}
	if rule.Policy.Soft() {
		return
	}
	here, elsewhere := uint32(0), 0
	for _, other := range c.last {
		if other.ID == inst.ID || other.Project != inst.Project || other.Boot.Group() != rule.Name || !other.State.OnHost() {
			continue
		}
		same := other.Host == inst.Host
		if rule.Over != "" {
			same = other.Boot.With[rule.Over] == inst.Boot.With[rule.Over]
		}
		if same {
			here++
		} else {
			elsewhere++
		}
	}
	if rule.Policy == compute.AntiAffinity && here >= rule.Most || rule.Policy == compute.Affinity && elsewhere > 0 {
		c.t.Fatalf("%s is granted to %s beside %d members of group %s there and %d elsewhere: %s",
			inst.ID, inst.Host, here, rule.Name, elsewhere, rule.Rule())
	}
}

// verifyChoice finds a member that was given a value which had not the fewest members, by the records alone.
func (c *checked) verifyChoice(inst *compute.Instance, rule compute.Group, view View) {
	c.t.Helper()
	r := inst.Boot.Spread()
	if r.Spread != rule.Spread ||
		rule.Spread != "" && inst.Boot.With[rule.Spread] == "" && inst.Boot.Flavor == "m1.small" {
		c.t.Fatalf("%s spreads over %q as %v: %s", inst.ID, r.Spread, inst.Boot.With, rule.Rule())
	}
	for _, q := range view.Queues {
		if q.State != compute.QueueOpen {
			return // the fewest may be of one that takes nothing
		}
	}
	if its, others := c.spread(inst, rule, false); r.Chosen && its > others {
		c.t.Fatalf("%s is given %v, which %d have, and %d another", inst.ID, inst.Boot.With, its, others)
	}
}

// spread counts the other members with an instance's value, and with the one of zone a and b that fewest have else;
// those that may be on hosts, or all that have not ended.
func (c *checked) spread(inst *compute.Instance, rule compute.Group, onHosts bool) (its, fewest uint32) {
	value := inst.Boot.With[rule.Spread]
	by := map[compute.AxisValue]uint32{"a": 0, "b": 0}
	for _, other := range c.last {
		v := other.Boot.With[rule.Spread]
		if other.ID == inst.ID || other.Project != inst.Project || other.Boot.Group() != rule.Name || other.State.Ended() ||
			onHosts && !other.State.OnHost() {
			continue
		}
		if v == value {
			its++
		} else if !onHosts || other.State != compute.StateDeleting {
			by[v]++
		}
	}
	delete(by, value)
	fewest = math.MaxUint32
	for _, v := range []compute.AxisValue{"a", "b"} {
		if n, ok := by[v]; ok {
			fewest = min(fewest, n)
		}
	}
	if rule.Spread == "" || value == "" {
		return 0, math.MaxUint32 - rule.Skew
	}
	return its, fewest
}

// verifyGroups counts the members of each group again, and finds one that is held though it may go. Only advice may let
// one go without a step.
func (c *checked) verifyGroups(view View, now time.Time) {
	c.t.Helper()
	members := map[compute.GroupKey]map[*entry]bool{}
	for _, e := range c.instances {
		if e.inst.Boot.Group() == "" || e.inst.State.Ended() {
			if e.in != nil {
				c.t.Fatalf("%s is counted in group %s", e.inst.ID, e.in.group.key.Name)
			}
			continue
		}
		key := compute.GroupKey{Project: e.inst.Project, Name: e.inst.Boot.Group()}
		if members[key] == nil {
			members[key] = map[*entry]bool{}
		}
		members[key][e] = true
	}
	if len(c.groups) != len(members) || len(c.touched) > 0 {
		c.t.Fatalf("%d groups have members, %d are known, %d were not looked at", len(members), len(c.groups), len(c.touched))
	}
	st := &step{State: c.State, view: view, now: now}
	for key, g := range c.groups {
		if !maps.Equal(g.members, members[key]) {
			c.t.Fatalf("group %s has %d members, and knows %d", key.Name, len(members[key]), len(g.members))
		}
		c.verifyGroup(st, g)
	}
}

// progressOf is what became of an entry's work.
func progressOf(e *entry) progress {
	if e.pub == nil {
		return unpublished
	}
	return e.pub.state
}

func (c *checked) verifyGroup(st *step, g *group) {
	c.t.Helper()
	var there, out, refused counts
	var spread spread
	held := 0
	for e := range g.members {
		if e.host() != "" {
			there.add(g.domain(e), 1)
		}
		spread.count(g.spreadMark(e), 1)
		if e.in.refused {
			refused.add(domainIn(e.in.outAs), 1)
		}
		waits := e.inst.State == compute.StateQueued && e.inst.PublishAt.IsZero()
		within := []progress{unpublished, heldByGroup, heldByShare, awaitingQueue, carried} // the conductor
		if waits && !slices.Contains(within, progressOf(e)) && e.kept() == nil {
			out.add(g.slot(e), 1)
			if g.rule != nil && g.rule.Skew > 0 {
				spread.out.add(g.line(e), 1)
			}
		}
		if (e.in.heldAs != "") != (waits && e.pub.state == heldByGroup) {
			c.t.Fatalf("%s is held as %q in state %d", e.inst.ID, e.in.heldAs, e.pub.state)
		}
		if e.in.heldAs != "" {
			held++
			if h := g.held[g.line(e)]; h == nil || !slices.Contains(h.items, e) {
				c.t.Fatalf("%s is not found among what its group holds", e.inst.ID)
			}
			later := g.rule != nil && g.rule.Over == "" && g.index > 0 // advice or time may let it go
			if !later && st.mayGo(e) {
				c.t.Fatalf("%s is held, and may go", e.inst.ID)
			}
		}
	}
	if there.all != g.there.all || !maps.Equal(there.by, g.there.by) {
		c.t.Fatalf("group %s has members on %v, and counts %v", g.key.Name, there.by, g.there.by)
	}
	if out.all != g.out.all || !maps.Equal(out.by, g.out.by) {
		c.t.Fatalf("group %s has published members %v, and counts %v", g.key.Name, out.by, g.out.by)
	}
	for d, n := range refused.by {
		if n > out.by[d] {
			c.t.Fatalf("group %s has %d refused members as %q, and %d published", g.key.Name, n, d, out.by[d])
		}
	}
	if !maps.Equal(refused.by, g.refused.by) {
		c.t.Fatalf("group %s has refused members %v, and counts %v", g.key.Name, refused.by, g.refused.by)
	}
	for what, counts := range map[string][2]counts{
		"members": {spread.members, g.spread.members}, "on hosts": {spread.there, g.spread.there},
		"that stay": {spread.stay, g.spread.stay}, "published": {spread.out, g.spread.out},
	} {
		if !maps.Equal(counts[0].by, counts[1].by) {
			c.t.Fatalf("group %s has %s by value %v, and counts %v", g.key.Name, what, counts[0].by, counts[1].by)
		}
	}
	for d, h := range g.held {
		if held -= len(h.items); len(h.items) == 0 {
			c.t.Fatalf("an empty list of what is held of %q", d)
		}
	}
	if held != 0 {
		c.t.Fatalf("group %s holds what is no member", g.key.Name)
	}
}
