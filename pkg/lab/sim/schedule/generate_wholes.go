// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Packed begins the names of groups that have the members of one set and no other.
const Packed = "pack-"

// wholes has some projects boot sets of which all have to be on one host: small machines, mostly so many that one
// large one covers them, each set in a group of its own.
func (g *generator) wholes() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 46))
	if g.s.World.TurnBytes > 0 || !g.chance(0.15) {
		return
	}
	small := g.s.World.Flavors[0].Name
	g.s.World.Groups = slices.Clone(g.s.World.Groups)
	for n := range 1 + g.IntN(4) {
		group := compute.Group{
			Project: pick[compute.Project](g, "red", "blue"), Name: compute.GroupName(fmt.Sprintf("%s%d", Packed, n+1)),
			Policy: compute.Affinity,
		}
		g.s.World.Groups = append(g.s.World.Groups, group)
		l := Load{
			At: g.between(0, g.length), Op: LoadSet, Node: g.IntN(max(g.s.World.Nodes, 1)),
			Name: fmt.Sprintf("pack-%d", n+1), Project: group.Project,
		}
		deadline := g.between(60, 300).Duration()
		for range pick(g, 2, 2, 3, 3, 3, 4) {
			l.Boots = append(l.Boots, compute.Boot{
				Flavor: small, Attempts: compute.Attempt(1 + g.IntN(4)), Deadline: deadline,
				Rules: compute.InGroup(group.Name),
			})
		}
		g.add(l)
		if g.chance(0.2) {
			g.add(Load{
				At: l.At + g.between(0, 10), Op: LoadDelete, Name: l.PartName(g.IntN(len(l.Boots))), Project: l.Project,
				Own: pick(g, "", "id"), When: pick(g, "", "active"),
			})
		}
	}
}
