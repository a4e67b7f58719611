// SPDX-License-Identifier: Apache-2.0

package schedule

import "math/rand/v2"

// labelled has clients give labels to some of what they booted, whatever becomes of it meanwhile: several the same one at
// once, by different nodes, too.
func (g *generator) labelled() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 43))
	if !g.chance(0.25) {
		return
	}
	for _, b := range g.names {
		if !g.chance(0.4) {
			continue
		}
		for range 1 + g.IntN(3) {
			g.add(Load{
				At: b.at + pick(
					g,
					0,
					0.01,
					g.between(0, 1),
					g.between(0, 20),
				), Op: LoadLabel, Node: g.IntN(max(g.s.World.Nodes, 1)),
				Name: b.name, Project: b.project, Label: pick(g, "team", "team", "role"),
			})
		}
	}
}
