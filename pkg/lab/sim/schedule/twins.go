// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// twinMark is the metadata by which the second of two requests under one key differs
// from the first.
const twinMark = "twin"

// twins gives another body under the same key to another node, at the same moment or
// soon after.
func (g *generator) twins() {
	if g.s.World.Nodes < 2 {
		return
	}
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 16)) // not to change what the other numbers make
	for _, l := range g.s.Load {
		if l.Op != LoadBoot || l.Own != "key" || !g.chance(0.5) {
			continue
		}
		boot := *l.Boot
		boot.Metadata = map[string]string{twinMark: "yes"}
		l.Boot, l.Node = &boot, (l.Node+1)%g.s.World.Nodes
		l.At += pick(g, 0, 0, 0.001, g.between(0, 0.1))
		g.s.Load = append(g.s.Load, l)
	}
}

// TwinOf says whether a request is the second one under its key.
func TwinOf(b compute.Boot) bool { return b.Metadata[twinMark] != "" }

// Twin says whether two requests that differ are made under one key.
func (s Schedule) Twin(name string) bool {
	return slices.ContainsFunc(
		s.Load,
		func(l Load) bool { return l.Op == LoadBoot && l.Name == name && TwinOf(*l.Boot) },
	)
}
