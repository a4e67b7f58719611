// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// ManyQueues is from how many queues on a world counts as one with many.
const ManyQueues = 60

// shapes are how many flavors there are beside those of every world, and how many
// values the two axes have that each of them may be combined with.
var shapes = [][3]int{{5, 3, 2}, {5, 3, 2}, {4, 4, 3}, {8, 3, 2}, {10, 3, 2}, {8, 4, 3}, {12, 4, 4}, {8, 6, 6}}

// many gives every fourth world many queues, beside one to five hosts. It has
// numbers of its own, as all that came later.
func (g *generator) many() {
	before := g.Rand
	defer func() { g.Rand = before }()
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 5))
	if g.wide = g.chance(0.25); !g.wide {
		return
	}
	g.widen(pick(g, shapes...))
	w := &g.s.World
	n := 1 + g.IntN(5)
	w.Hosts = w.Hosts[:min(n, len(w.Hosts))]
	for i := len(w.Hosts); i < n; i++ {
		h := w.Hosts[0]
		h.ID, h.Traits = compute.HostID(fmt.Sprintf("host-%d", i+1)), nil
		h.Totals = Flavor("", int64(2+g.IntN(5))).Resources
		if !g.small {
			h.Totals = Flavor("", 1000).Resources
		}
		w.Hosts = append(w.Hosts, h)
	}
}

// widen adds flavors that may be combined with axes of many values.
func (g *generator) widen(shape [3]int) {
	w := &g.s.World
	for i, axis := range []compute.AxisName{"net", "store"} {
		c := compute.Capability{Axis: axis}
		for v := range shape[i+1] {
			value := compute.CapabilityValue{Value: compute.AxisValue(fmt.Sprintf("%s%d", axis[:1], v+1))}
			if v > 1 && g.chance(0.2) {
				value.Requires = []compute.Trait{ssdTrait}
			}
			c.Values = append(c.Values, value)
		}
		w.Axes = append(w.Axes, c)
	}
	for i := range shape[0] {
		f := Flavor(compute.FlavorName(fmt.Sprintf("w%d", i+1)), pick[int64](g, 1, 1, 1, 2, 3))
		f.Capabilities = []compute.AxisName{"net", "store"}
		w.Flavors = append(w.Flavors, f)
	}
}

// spread boots over many queues: one at a time here and there, and now and then
// many at once in one. Most queues stay empty.
func (g *generator) spread() {
	if !g.wide {
		return
	}
	before := g.Rand
	defer func() { g.Rand = before }()
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 6))
	for _, l := range g.s.Load {
		if l.Op == LoadBoot && (l.Boot.With != nil || g.chance(0.7)) && l.Boot.Flavor != "m1.none" {
			l.Boot.Flavor, l.Boot.With = g.choose()
		}
	}
	for range pick(g, 0, 1, 1, 2) {
		at := g.between(0, g.length)
		f, with := g.choose()
		for range 3 + g.IntN(6) {
			g.boot(at)
			b := g.s.Load[len(g.s.Load)-1].Boot
			b.Flavor, b.With = f, with
		}
	}
}

// narrow has some worlds in which a turn has no room for two of the largest instances: it is undone and decided
// again by fewer inputs, and what follows from none is written in pieces.
func (g *generator) narrow() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 44))
	if len(g.s.Faults) == 0 || !g.chance(0.05) {
		return
	}
	const beside = 4000 // of an instance, beside what its owner gave: reasons, failures, a position
	largest := 0
	for _, l := range g.s.Load {
		if l.Op != LoadBoot {
			continue
		}
		n := len(l.Boot.UserData)
		for _, key := range l.Boot.SSHKeys {
			n += len(key)
		}
		largest = max(largest, n)
	}
	g.s.World.TurnBytes = largest + beside
}

// shared has half of the worlds hold a project's builds back from the second or third on.
func (g *generator) shared() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 47))
	if g.chance(0.5) {
		g.s.World.Share = 1 + g.IntN(2)
	}
}

// choose is a queue of those that there are many of.
func (g *generator) choose() (compute.FlavorName, compute.Choices) {
	w := g.s.World
	few := func(f compute.Flavor) bool { return !slices.Contains(f.Capabilities, "net") }
	wide := slices.DeleteFunc(slices.Clone(w.Flavors), few)
	f := pick(g, wide...)
	with := compute.Choices{}
	for _, a := range w.Axes {
		if slices.Contains(f.Capabilities, a.Axis) && g.chance(0.6) {
			with[a.Axis] = pick(g, a.Values...).Value
		}
	}
	if len(with) == 0 {
		return f.Name, nil
	}
	return f.Name, with
}
