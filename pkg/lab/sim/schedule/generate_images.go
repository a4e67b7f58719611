// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// spoiled has some worlds with a broken image, on one host or on all of them, that several
// boots ask for, and others beside them that want nothing of it. It has numbers of its own,
// and comes once every boot has its image.
func (g *generator) spoiled() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 21))
	if !g.chance(0.1) {
		return
	}
	w := &g.s.World
	w.Bad = []BadImage{{Image: "image-1"}}
	if g.chance(0.5) {
		w.Bad[0].Host = pick(g, w.Hosts...).ID
	}
	if g.chance(0.5) && len(g.s.Faults) <= few { // of what nothing else happens to more is expected
		g.s.Faults = nil
	}
	at, flavors := g.between(0, g.length), w.Flavors[:2]
	for range 3 + g.IntN(6) {
		g.imaged(at+g.between(0, 4), pick(g, flavors...).Name, "image-1")
	}
	for range 1 + g.IntN(4) {
		g.imaged(at+g.between(0, 20), pick(g, flavors...).Name, "image-2")
	}
}

// imaged boots from an image, on any host.
func (g *generator) imaged(at Seconds, f compute.FlavorName, image string) {
	g.boot(at)
	l := &g.s.Load[len(g.s.Load)-1]
	l.Own = "id"
	b := l.Boot
	b.Flavor, b.With, b.Host, b.Avoid, b.Image = f, nil, "", nil, image
	b.OnNoCapacity = compute.WaitForCapacity
}
