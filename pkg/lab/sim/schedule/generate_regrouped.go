// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// zoned is a group whose rule is over zones, where there are some.
const zoned compute.GroupName = "zoned"

// regrouped has the rules of groups of some worlds be other ones, while members run and wait, and has some members choose a
// zone in a group whose rule is over these. Groups that spread their members keep theirs, and so do those of sets that are
// to be on one host.
func (g *generator) regrouped() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 51))
	w := &g.s.World
	if len(w.Groups) == 0 {
		return
	}
	axis := g.s.Axis(spreadAxis)
	if len(axis.Values) > 0 && g.chance(0.7) {
		g.overValues(axis)
	}
	if !g.chance(0.6) {
		return
	}
	for _, was := range w.Groups {
		if !slices.Contains([]compute.GroupName{apart, near, rather, zoned}, was.Name) {
			continue
		}
		for range pick(g, 0, 1, 1, 2) {
			next := g.otherRule(was, len(axis.Values) > 0)
			g.add(Load{At: g.between(0.5, g.length+10), Op: LoadGroup, Project: was.Project, Group: &next})
		}
	}
}

// otherRule is one that a group may come to have.
func (g *generator) otherRule(was compute.Group, valued bool) compute.Group {
	next := compute.Group{
		Project: was.Project, Name: was.Name,
		Policy: pick(g, compute.AntiAffinity, compute.AntiAffinity, compute.Affinity, compute.SoftAntiAffinity, compute.SoftAffinity),
	}
	if next.Policy.Apart() {
		next.Most = uint32(1 + g.IntN(3))
	}
	if over := was.Name == zoned || g.chance(0.2); valued && over && !next.Policy.Soft() {
		next.Over = spreadAxis
	}
	return next
}

// overValues has members of groups be members of one whose rule is over zones, and choose one: the same if it is asked for again.
func (g *generator) overValues(axis compute.Capability) {
	w := &g.s.World
	w.Groups = slices.Clone(w.Groups)
	for _, p := range []compute.Project{"red", "blue"} {
		rule := compute.Group{Project: p, Name: zoned, Policy: pick(g, compute.AntiAffinity, compute.AntiAffinity, compute.Affinity)}
		if rule.Over = spreadAxis; rule.Policy.Apart() {
			rule.Most = uint32(1 + g.IntN(2))
		}
		w.Groups = append(w.Groups, rule)
	}
	in := map[string]compute.AxisValue{}
	for i := range g.s.Load {
		l := &g.s.Load[i]
		if l.Op != LoadBoot || l.Boot.Group() == "" || l.Boot.Flavor != w.Flavors[0].Name {
			continue
		}
		value, asked := in[l.Name]
		if !asked {
			if g.chance(0.6) {
				value = pick(g, axis.Values...).Value
			}
			in[l.Name] = value
		}
		if value != "" {
			b := l.Boot.Having(spreadAxis, value)
			b.Rules = compute.InGroup(zoned)
			l.Boot = &b
		}
	}
}

// Regroups says whether the rule of a group is ever another one.
func (s Schedule) Regroups(key compute.GroupKey) bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadGroup && l.Group.Key() == key })
}
