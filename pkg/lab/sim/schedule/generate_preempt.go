// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// preempted has machines of low priority be preemptible, where there are some, but for those of sets. Half of those worlds are
// crowded: hosts save room soon, and most of what is booted first is low, so that what comes later takes its place.
func (g *generator) preempted() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 48))
	if !g.s.Ranked() || !g.chance(0.8) {
		return
	}
	crowded := g.chance(0.5)
	g.s.World.Saves = g.s.World.Saves || crowded
	of := map[string]compute.Preemptible{} // what is asked for again is asked for as it was
	for i := range g.s.Load {
		l := &g.s.Load[i]
		if l.Op != LoadBoot || l.Boot.Set().ID != "" ||
			l.Boot.Priority() != compute.PriorityLow && !(crowded && l.At < g.length/2) {
			continue
		}
		p, asked := of[l.Name]
		if !asked {
			if g.chance(0.8) {
				p = compute.Preemptible{
					Then:  pick(g, compute.ThenDelete, compute.ThenRequeue, compute.ThenRequeue),
					Grace: pick(g, 0, 2*time.Second, 5*time.Second),
				}
			}
			of[l.Name] = p
		}
		if p != (compute.Preemptible{}) {
			l.Boot = preemptible(*l.Boot, p)
		}
	}
	g.sameAgain(of)
	g.deaf()
	if crowded && g.small && g.chance(0.6) {
		g.filled()
	}
}

// deaf has guests not stop when they are asked, and those that may be taken away get more time than hosts give by
// themselves.
func (g *generator) deaf() {
	if rand.New(rand.NewPCG(g.s.Seed, 54)).Float64() > 0.18 {
		return
	}
	g.s.World.Deaf = true
	for _, l := range g.s.Load {
		if l.Op == LoadBoot && l.Boot.IsPreemptible() {
			p := l.Boot.Preemptible()
			p.Grace = 40 * time.Second
			l.Boot.Preempt(p)
		}
	}
}

// mostFilled is the room of the largest host that is filled: what is judged goes with the square of what is booted.
const mostFilled = 60

// filled has hosts be full of what may be taken away, and work come that has nowhere else to go: some of it is deleted about when
// a host makes room for it.
func (g *generator) filled() {
	small := g.s.World.Flavors[0].Name
	if slices.ContainsFunc(g.s.World.Hosts, func(h Host) bool { return h.Totals[compute.VCPU] > mostFilled }) {
		return
	}
	for _, h := range g.s.World.Hosts {
		for range h.Totals[compute.VCPU] {
			g.boot(g.between(0, 1))
			b := compute.Boot{Flavor: small, Rules: compute.RulesOf("", compute.Set{}, compute.PriorityLow)}
			b.Preempt(compute.Preemptible{Then: pick(g, compute.ThenDelete, compute.ThenRequeue), Grace: pick(g, 0, 2*time.Second)})
			g.s.Load[len(g.s.Load)-1].Boot = &b
		}
	}
	for range 1 + g.IntN(3) {
		at := g.between(4, g.length+6)
		g.boot(at)
		l := &g.s.Load[len(g.s.Load)-1]
		l.Own, l.Boot = "id", &compute.Boot{
			Flavor: pick(g, g.s.World.Flavors[:2]...).Name,
			Rules:  compute.RulesOf("", compute.Set{}, pick(g, compute.PriorityNormal, compute.PriorityHigh)),
		}
		if g.chance(0.4) {
			g.add(Load{At: at + g.between(3, 9), Op: LoadDelete, Name: l.Name, Project: l.Project, Own: "id"})
		}
	}
}

// preemptible is a boot as one whose machine may be taken away. What could not wait again is to be deleted.
func preemptible(b compute.Boot, p compute.Preemptible) *compute.Boot {
	if b.Host != "" || b.OnNoCapacity == compute.FailAtOnce {
		p.Then = compute.ThenDelete
	}
	b.Preempt(p)
	return &b
}

// sameAgain has what is asked for again, later than half of the time, be asked for as it was.
func (g *generator) sameAgain(of map[string]compute.Preemptible) {
	for i := range g.s.Load {
		l := &g.s.Load[i]
		if l.Op != LoadBoot {
			continue
		}
		if p := of[l.Name]; p != (compute.Preemptible{}) {
			l.Boot = preemptible(*l.Boot, p)
		}
	}
}

// Preempts says whether anything is booted that may be taken away.
func (s Schedule) Preempts() bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool {
		return l.Boot != nil && l.Boot.Preemptible() != compute.Preemptible{}
	})
}
