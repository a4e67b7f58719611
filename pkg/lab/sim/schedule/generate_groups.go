// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Names of the groups that there are from the beginning, in each project.
const (
	apart  compute.GroupName = "apart"
	near   compute.GroupName = "near"
	rather compute.GroupName = "rather"
)

// grouped makes most of what is booted members of groups, more than there are hosts, too.
func (g *generator) grouped() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 44))
	if !g.chance(0.2) {
		return
	}
	for _, p := range []compute.Project{"red", "blue"} {
		soft := compute.Group{Project: p, Name: rather, Policy: pick(g, compute.SoftAntiAffinity, compute.SoftAffinity)}
		if soft.Policy.Apart() {
			soft.Most = 1
		}
		g.s.World.Groups = append(g.s.World.Groups,
			compute.Group{Project: p, Name: apart, Policy: compute.AntiAffinity, Most: uint32(pick(g, 1, 1, 1, 2))},
			compute.Group{Project: p, Name: near, Policy: compute.Affinity}, soft)
	}
	most := pick(g, 0.3, 0.8, 1)
	g.members(most, pick(
		g, []compute.GroupName{apart}, []compute.GroupName{near}, []compute.GroupName{apart, near, rather},
	)...)
	g.spreads()
}

// members makes so many of the boots that have no rules yet members of groups.
func (g *generator) members(most float64, names ...compute.GroupName) {
	in := map[string]*compute.PlacementRules{} // what is asked for again is asked for as it was
	for i := range g.s.Load {
		l := &g.s.Load[i]
		if l.Op != LoadBoot || l.Boot.Rules != nil || l.Project != "red" && l.Project != "blue" {
			continue
		}
		if _, asked := in[l.Name]; !asked {
			in[l.Name] = nil
			if g.chance(most) {
				in[l.Name] = compute.InGroup(pick(g, names...))
			}
		}
		b := *l.Boot
		b.Rules, l.Boot = in[l.Name], &b
	}
}

// Group finds a group of the world.
func (w World) Group(key compute.GroupKey) (compute.Group, bool) {
	n := slices.IndexFunc(w.Groups, func(g compute.Group) bool { return g.Key() == key })
	if n < 0 {
		return compute.Group{}, false
	}
	return w.Groups[n], true
}
