// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
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

// twinOf says whether a request is the second one under its key.
func twinOf(b compute.Boot) bool { return b.Metadata[twinMark] != "" }

// twin says whether two requests that differ are made under one key.
func (s Schedule) twin(name string) bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadBoot && l.Name == name && twinOf(*l.Boot) })
}

// twinsThatWon are the names of which the log has the second request, not the first.
func (r *Recording) twinsThatWon() map[string]bool {
	won := map[string]bool{}
	for _, w := range slices.Backward(r.Log) {
		if name := w.Instance.Boot.Name; !w.Removed && name != "" {
			won[name] = twinOf(w.Instance.Boot)
		}
	}
	return won
}

// checkKeys: a boot under an id or a key that was answered with 202 is the one in the
// log: of two with different bodies one was refused, whichever nodes they came to.
func checkKeys(r *Recording) (wrong []Violation) {
	first := map[compute.InstanceID]compute.Instance{}
	for _, w := range r.Log {
		if _, known := first[w.Instance.ID]; !known && !w.Removed {
			first[w.Instance.ID] = w.Instance
		}
	}
	for _, a := range r.accepted() {
		i, ok := first[a.ID]
		if a.Op != LoadBoot || a.Own == "" || !ok || i.Boot.Flavor == "" { // deleted before its boot came
			continue
		}
		if !maps.Equal(a.Boot.Metadata, i.Boot.Metadata) {
			wrong = append(wrong, broken("key", a.ID, a.Answered,
				"%s was accepted with %v, and it is another request's, with %v", a.Name, a.Boot.Metadata, i.Boot.Metadata)...)
		}
	}
	return wrong
}
