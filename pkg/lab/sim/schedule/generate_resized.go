// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// The Wish of a LoadResize: what its flavor becomes.
const (
	Smaller = "smaller"
	Larger  = "larger"
)

// ResizeKind is what the report of a run counts a LoadResize as.
func (l Load) ResizeKind() string { return "flavor " + l.Wish }

// sizedFlavor is one that no other part of a schedule changes.
const sizedFlavor = "m1.sized"

// resized has an operator make a flavor smaller or larger, once or twice, while machines of it run, boots of it are
// on their way, and one of its hosts dies: what was booted keeps its size, wherever it is built again. It has
// numbers of its own. Of a world in which rings alone go wrong, or only queue managers, more is expected.
func (g *generator) resized() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 41))
	if n := len(g.s.Faults); n == 0 || n > few || g.s.Orphaned() || g.s.Buries("") || !g.chance(0.5) {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultRing || f.Kind == FaultClone || f.Kind == FaultRename {
			return
		}
	}
	w := &g.s.World
	sizes := pick(g, []int64{3, 1}, []int64{3, 2}, []int64{1, 3}, []int64{2, 3}, []int64{3, 1, 3}, []int64{1, 3, 1})
	w.Flavors = append(w.Flavors, Flavor(sizedFlavor, sizes[0]))
	if g.chance(0.7) { // there is room on one host for what another had
		for i, h := range w.Hosts {
			w.Hosts[i].Totals = h.Totals.Plus(Flavor("", 9).Resources)
		}
	}
	at := g.between(1, 4)
	first := g.sized(at)
	for range 1 + g.IntN(3) {
		g.sized(at + g.between(0, 2))
	}
	resize := at + g.between(4, 12)
	for range g.IntN(4) {
		g.sized(resize + g.between(-0.3, 0.3))
	}
	for range 1 + g.IntN(2) {
		g.sized(resize + g.between(50, 110))
	}
	g.wrong(Fault{
		At: resize + g.between(-5, 70), Kind: FaultPower, Name: first.name, When: "active", For: g.between(10, 40),
		Dead: pick(g, "fence", "fence", "fence", "forget"), Disk: pick(g, "", "", "lost"),
	})
	for i, n := range sizes[1:] {
		f, wish := Flavor(sizedFlavor, n), Larger
		if n < sizes[i] {
			wish = Smaller
		}
		g.add(Load{At: resize, Op: LoadResize, Flavor: &f, Wish: wish})
		resize += pick(g, g.between(0.5, 5), g.between(5, 110))
	}
}

// sized boots in that flavor, on any host.
func (g *generator) sized(at Seconds) booted {
	g.boot(at)
	l := &g.s.Load[len(g.s.Load)-1]
	l.Own = "id"
	b := l.Boot
	b.Flavor, b.With, b.Host, b.Avoid, b.Deadline, b.OnNoCapacity = sizedFlavor, nil, "", nil, 0, compute.WaitForCapacity
	return g.names[len(g.names)-1]
}
