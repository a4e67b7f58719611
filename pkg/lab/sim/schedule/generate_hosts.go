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
	if len(g.names) == 0 || len(g.s.Faults) == 0 || !g.chance(0.11) {
		return
	}
	f := Fault{Kind: FaultRename, Key: pick(g, Refused, Adopted, Carried), For: g.between(3, 90)}
	if f.Key == Carried { // nothing else takes the journal that is carried along
		g.s.Faults = slices.DeleteFunc(g.s.Faults, Fault.LosesJournal)
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

// LosesJournal says whether a host forgets by this fault what it has.
func (f Fault) LosesJournal() bool { return f.Kind == FaultWipe || f.Disk == "lost" }

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
	if slices.ContainsFunc(g.s.Faults, Fault.LosesJournal) {
		f.Key = "" // a copy that alone has the journal is the host, as far as anybody can know
	}
	g.befalls(&f)
	g.wrong(f)
}

// Claimed is the Disk of a FaultWipe after which the host has a journal again.
const Claimed = "claimed"

// restored is a host of which the disks are lost while an instance runs there, and that gets back its journal of when it had
// claimed that: of the grant the journal knows nothing, and the machine is gone.
func (g *generator) restored() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 43))
	if n := len(g.s.Faults); n == 0 || n > few || len(g.names) == 0 || g.s.Orphaned() || g.s.Buries("") ||
		!g.chance(0.9) {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultRing || f.Kind == FaultClone || f.Kind == FaultRename {
			return
		}
	}
	b := pick(g, g.names...)
	g.wrong(Fault{
		At: b.at + g.between(0, 5), Kind: FaultWipe, Name: b.name, When: "active", Disk: Claimed,
		For: pick(g, g.between(0, 2), g.between(0, 20), g.between(0, 100)),
	})
}

// saidAgain has hosts say again within a minute what is there, as they do once a day. In most worlds they do not: what
// was lost for good is to be seen.
func (g *generator) saidAgain() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 56))
	if g.chance(0.15) {
		g.s.World.SayAgain = g.between(10, 60)
	}
}
