// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// together has some projects boot sets, of which all start or none: small ones, some that need most of the room, and some that
// no room is large enough for. A turn that is written in pieces would start a part of one: no real one is, as the request of
// a set is one record.
func (g *generator) together() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 45))
	if g.s.World.TurnBytes > 0 || !g.chance(0.15) {
		return
	}
	for n := range 1 + g.IntN(3) {
		l := Load{
			At: g.between(0, g.length), Op: LoadSet, Node: g.IntN(max(g.s.World.Nodes, 1)),
			Name: fmt.Sprintf("set-%d", n+1), Project: pick[compute.Project](g, "red", "blue"),
		}
		deadline := g.between(20, 200).Duration()
		rules := compute.InGroup("")
		if len(g.s.World.Groups) > 0 && g.chance(0.5) {
			rules = compute.InGroup(pick(g, apart, near, rather))
		}
		for range 2 + g.IntN(4) {
			b := compute.Boot{
				Flavor: pick(g, g.s.World.Flavors...).Name, Attempts: compute.Attempt(1 + g.IntN(4)),
				Deadline: deadline, Rules: rules,
			}
			if g.chance(0.1) {
				b.Host = pick(g, g.s.World.Hosts...).ID
			}
			l.Boots = append(l.Boots, b)
		}
		g.add(l)
		if g.chance(0.3) {
			g.add(Load{
				At: l.At + g.between(0, 30), Op: LoadDelete, Name: l.PartName(g.IntN(len(l.Boots))), Project: l.Project,
				Own: pick(g, "", "id"), When: pick(g, "", "active"),
			})
		}
	}
}

// PartName is what one boot of a set is called.
func (l Load) PartName(i int) string { return fmt.Sprintf("%s-%d", l.Name, i+1) }

// Parts are the boots of a set, each as if it were asked for alone.
func (l Load) Parts() (parts []Load) {
	for i := range l.Boots {
		part := l
		part.Op, part.Own, part.Name, part.Set, part.Boots, part.Boot = LoadBoot, "id", l.PartName(i), l.Name, nil, &l.Boots[i]
		parts = append(parts, part)
	}
	return parts
}
