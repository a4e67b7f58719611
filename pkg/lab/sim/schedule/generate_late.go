// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Late is the group of each project that is made at World.LateAt, and not before anything is booted.
const Late compute.GroupName = "late"

// madeLate has a group be made while one conductor is cut off from the broker that leads the catalog, and has the
// others end soon after that: the one that takes over their projects does not know the rule.
func (g *generator) madeLate() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 58))
	w := &g.s.World
	rare := slices.ContainsFunc([]string{"deposed", "parked", "quorum", "word", "code Metadata"}, g.s.Has)
	if w.Brokers < MostBrokers || w.Conductors < 2 || len(w.Groups) > 0 || len(g.names) == 0 || len(g.s.Faults) == 0 ||
		rare || !g.chance(0.32) {
		return
	}
	w.LateAt = g.between(0.5, 3)
	for _, p := range []compute.Project{"red", "blue"} {
		w.Groups = append(w.Groups, compute.Group{Project: p, Name: Late, Policy: compute.AntiAffinity, Most: 1})
	}
	g.members(0.7, Late)
	g.s.Faults = nil
	cut := g.IntN(w.Conductors)
	for n := range w.Conductors {
		f := Fault{
			At: w.LateAt + g.between(2, 8), Kind: FaultKill, Who: fmt.Sprintf("conductor-%d", n+1), By: g.between(1, 30),
		}
		if n == cut {
			f = Fault{
				At: w.LateAt - 0.4, For: g.between(40, 80), Kind: FaultLink, Who: f.Who,
				Key: pick(g, LinkMute, LinkDeaf, LinkBoth, LinkOff), Broker: AtCatalog,
			}
		}
		g.wrong(f)
	}
}
