// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
)

// common says whether what goes wrong may be replaced by something else: none of it is of a kind that comes rarely.
func (g *generator) common() bool {
	rare := func(f Fault) bool {
		return slices.Contains([]string{
			FaultRename, FaultClone, FaultWord, FaultDeposed, FaultParked, FaultQuorum, FaultApart, FaultRogue, FaultLie,
			FaultUpgrade, FaultWipe, FaultRing, FaultNode, FaultCoordinators, FaultLeaderless,
		}, f.Kind)
	}
	return len(g.s.Faults) > 0 && len(g.s.Faults) <= 8 && !slices.ContainsFunc(g.s.Faults, rare)
}

// leaderless has one partition after the other be without a leader, and nothing else go wrong: the projects of other
// partitions are to notice nothing.
func (g *generator) leaderless() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 55))
	if !g.chance(0.4) || !g.common() {
		return
	}
	g.s.World.Partitions = max(2, g.s.World.Partitions)
	g.s.Faults = nil
	at := g.between(0, g.length/2)
	for range 1 + g.IntN(3) {
		f := Fault{
			At: at, For: pick(g, g.between(1, 10), g.between(20, 60), g.between(60, 100)), Kind: FaultLeaderless, Who: "broker",
			Topic: pick(g, "requests", "instances", "reports"), Partition: g.Int32N(g.s.World.Partitions),
		}
		g.wrong(f)
		at += f.For + g.between(0, 5)
	}
}
