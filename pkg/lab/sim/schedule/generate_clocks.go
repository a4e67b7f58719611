// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// misled gives processes clocks that are hours off, or minutes, and drift. It has numbers of
// its own, as all that came later.
func (g *generator) misled() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 23))
	if !g.chance(0.12) {
		return
	}
	w := &g.s.World
	g.wrongClocks("api", w.Nodes)
	g.wrongClocks("conductor", w.Conductors)
	g.wrongClocks("host", len(w.Hosts))
	rare := func(f Fault) bool { return f.Kind == FaultRename || f.Kind == FaultClone || f.Kind == FaultWord }
	if g.chance(0.4) && len(g.s.Faults) <= few && !slices.ContainsFunc(g.s.Faults, rare) {
		g.s.Faults = nil
	}
}

// misledManagers gives queue managers wrong clocks where other processes have them. It has numbers of its own, too.
func (g *generator) misledManagers() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 53))
	if len(g.s.World.Clocks) > 0 {
		g.wrongClocks("queues", g.s.World.Managers)
	}
}

// wrongClocks gives most of the processes of a kind wrong clocks.
func (g *generator) wrongClocks(kind string, n int) {
	for i := range n {
		if !g.chance(0.6) {
			continue
		}
		c := Clock{Who: fmt.Sprintf("%s-%d", kind, i+1), Off: pick[Seconds](g, 3600, -3600, 7300, -7300, 90, -90)}
		if g.chance(0.4) {
			c.Drift = pick(g, 0.0005, -0.0005)
		}
		g.s.World.Clocks = append(g.s.World.Clocks, c)
	}
}
