// SPDX-License-Identifier: Apache-2.0

package schedule

import "math/rand/v2"

// FaultForge is a stranger that writes reports in the name of hosts for For: what they said before,
// and what they never said, unsigned, signed by another host's key, or with another record's MAC; and
// requests likewise, with the key of another project. There it is only where there are keys
// (World.Keys), and nothing may come of it: Who names no process, so no check excuses anything by it.
const FaultForge = "forge"

// Stranger is the Who of a FaultForge.
const Stranger = "stranger"

// keyed gives hosts and publishers of some worlds keys, and has a stranger write there. Where nothing goes wrong, or
// rings alone do, more is expected than beside a fault, so no stranger comes there.
func (g *generator) keyed() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 31))
	if g.s.World.Keys = g.chance(0.3); !g.s.World.Keys || len(g.s.Faults) == 0 {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultRing {
			return
		}
	}
	g.wrong(Fault{At: g.between(0, g.length/2), For: g.length + g.between(5, 30), Kind: FaultForge, Who: Stranger})
}
