// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// ranked gives some of what is booted a class of priority, so that its queues are made while it waits, and some quotas limits
// for a class.
func (g *generator) ranked() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 47))
	if !g.chance(0.2) {
		return
	}
	most := pick(g, 0.3, 0.6, 1)
	of := map[string]compute.Priority{} // what is asked for again is asked for as it was
	classed := func(b compute.Boot, name string) compute.Boot {
		p, asked := of[name]
		if !asked {
			if g.chance(most) {
				p = pick(g, compute.PriorityLow, compute.PriorityHigh)
			}
			of[name] = p
		}
		b.Rules = compute.RulesOf(b.Group(), b.Set(), p)
		return b
	}
	for i := range g.s.Load {
		l := &g.s.Load[i]
		switch l.Op {
		case LoadBoot:
			b := classed(*l.Boot, l.Name)
			l.Boot = &b
		case LoadSet:
			for n := range l.Boots {
				l.Boots[n] = classed(l.Boots[n], l.PartName(n))
			}
		case LoadQuota:
			if g.chance(0.7) {
				l.Classes = compute.ClassLimits{
					pick(g, compute.Priorities()...): {compute.Instances: int64(g.IntN(4)), compute.VCPU: int64(1 + g.IntN(6))},
				}
			}
		}
	}
}

// Ranked says whether anything is booted with another priority than the normal one.
func (s Schedule) Ranked() bool {
	ranked := func(b compute.Boot) bool { return b.Priority() != compute.PriorityNormal }
	return slices.ContainsFunc(s.Load, func(l Load) bool {
		return l.Boot != nil && ranked(*l.Boot) || slices.ContainsFunc(l.Boots, ranked)
	})
}
