// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
)

// renamed has some schedules give a host another name while it has something. It
// has numbers of its own, as rare has.
func (g *generator) renamed() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 11))
	if len(g.names) == 0 || len(g.s.Faults) == 0 || !g.chance(0.095) {
		return
	}
	f := Fault{Kind: FaultRename, Key: pick(g, Refused, Adopted, Carried), For: g.between(3, 90)}
	if f.Key == Carried { // nothing else takes the journal that is carried along
		g.s.Faults = slices.DeleteFunc(g.s.Faults, Fault.losesJournal)
	}
	g.befalls(&f)
	g.wrong(f)
}

// befalls has a fault of a host meet an instance there that has just begun to run, or
// whatever it has later.
func (g *generator) befalls(f *Fault) {
	if g.chance(0.3) {
		b := pick(g, g.names...)
		f.At, f.Name, f.When = b.at, b.name, pick(g, "starting", "active")
		return
	}
	f.At, f.Who = g.between(g.length/2, g.length+5), g.one("host")
}

// longest is how long anything else may last where a host is cloned: of one that
// nobody hears, nobody knows any more that it is not what its clone became.
const longest Seconds = 25

// losesJournal says whether a host forgets by this fault what it has.
func (f Fault) losesJournal() bool { return f.Kind == FaultWipe || f.Disk == "lost" }

// cloned has some schedules start a second agent with the name of a host.
func (g *generator) cloned() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 12))
	if len(g.names) == 0 || len(g.s.Faults) == 0 || !g.chance(0.35) {
		return
	}
	for _, f := range g.s.Faults {
		if f.For+f.By > longest || f.Kind == FaultRename {
			return
		}
	}
	f := Fault{Kind: FaultClone, For: g.between(5, 120), Key: pick(g, "", CopiedJournal)}
	if slices.ContainsFunc(g.s.Faults, Fault.losesJournal) {
		f.Key = "" // a copy that alone has the journal is the host, as far as anybody can know
	}
	g.befalls(&f)
	g.wrong(f)
}
