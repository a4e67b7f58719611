// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Groups that spread their members over zones, and those zones.
const (
	even       compute.GroupName = "even"
	evenApart  compute.GroupName = "even-apart"
	spreadAxis compute.AxisName  = "zone"
)

// spreads makes some members of groups members of others, which spread them over zones.
func (g *generator) spreads() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 45))
	w := &g.s.World
	small := w.Flavors[0]
	touched := func(l Load) bool { return l.Flavor != nil && l.Flavor.Name == small.Name }
	if !g.chance(0.5) || g.wide || slices.ContainsFunc(g.s.Load, touched) {
		return
	}
	c := compute.Capability{Axis: spreadAxis}
	for i, v := range pick(g, []compute.AxisValue{"a", "b"}, []compute.AxisValue{"a", "b"}, []compute.AxisValue{"a", "b", "c"}) {
		c.Values = append(c.Values, compute.CapabilityValue{Value: v})
		if i < len(w.Hosts) && g.chance(0.3) { // else a value is a name alone
			c.Values[i].Requires = []compute.Trait{compute.Trait("CUSTOM_ZONE_" + string('A'+rune(i)))}
			w.Hosts[i].Traits = append(slices.Clone(w.Hosts[i].Traits), c.Values[i].Requires...)
			slices.Sort(w.Hosts[i].Traits)
		}
	}
	g.spreadOver(c)
}

// spreadOver has the first flavor offered with this, groups that spread over it, and members of those.
func (g *generator) spreadOver(c compute.Capability) {
	w := &g.s.World
	small := w.Flavors[0]
	w.Axes = append(slices.Clone(w.Axes), c)
	w.Flavors = slices.Clone(w.Flavors)
	w.Flavors[0].Capabilities = append(slices.Clone(small.Capabilities), spreadAxis)
	for _, p := range []compute.Project{"red", "blue"} {
		w.Groups = append(w.Groups,
			compute.Group{Project: p, Name: even, Policy: compute.SpreadOnly, Spread: spreadAxis, Skew: pick[uint32](g, 0, 1, 1, 1, 2)},
			compute.Group{Project: p, Name: evenApart, Policy: compute.AntiAffinity, Most: 2, Spread: spreadAxis, Skew: 1})
	}
	in := map[string]Load{}
	for i := range g.s.Load {
		l := &g.s.Load[i]
		if l.Op != LoadBoot || l.Boot.Group() == "" || l.Boot.Flavor != small.Name {
			continue
		}
		as, asked := in[l.Name]
		if !asked {
			as = *l
			if b := *l.Boot; g.chance(0.7) {
				b.Rules = compute.InGroup(pick(g, even, even, evenApart))
				if b.Host != "" || g.chance(0.2) { // for one host it has to choose
					b = b.Having(spreadAxis, pick(g, c.Values...).Value)
				}
				as.Boot = &b
			}
			in[l.Name] = as
		}
		b := *l.Boot
		if b.Rules = as.Boot.Rules; as.Boot.With[spreadAxis] != "" {
			b = b.Having(spreadAxis, as.Boot.With[spreadAxis])
		}
		l.Boot = &b
	}
}

// Given are the choices that a boot may come to have: its own, with each value that its group may give it.
func (s Schedule) Given(l Load) (all []compute.Choices) {
	g, ok := s.World.Group(compute.GroupKey{Project: l.Project, Name: l.Boot.Group()})
	if !ok || !g.Chooses(*l.Boot) {
		return []compute.Choices{l.Boot.With}
	}
	for _, v := range s.Axis(g.Spread).Values {
		all = append(all, l.Boot.Having(g.Spread, v.Value).With)
	}
	return all
}
