// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// several gives a third of all worlds three brokers, and has something go wrong between
// them and processes where anything else does: of what goes right more is expected. It has
// numbers of its own, as all that came later.
func (g *generator) several() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 20))
	if !g.chance(0.35) || g.s.Has(FaultBroker) { // when all come back, they have forgotten which epoch each leader had
		return
	}
	g.s.World.Brokers = MostBrokers
	if g.calm() || len(g.names) == 0 {
		return
	}
	clones := g.s.Clones()
	if !clones && !g.s.Has(FaultRename) && g.chance(0.4) { // of those there are few enough
		g.s.Faults = nil // a short story
		pick(g, g.deposed, g.parked, g.outage)()
		return
	}
	for range pick(g, 1, 1, 2, 3, 4) {
		f := g.betweenBrokers()
		if clones {
			f.For, f.By = min(f.For, longest-10), min(f.By, 9)
		}
		g.wrong(f)
	}
}

// calm says whether nothing goes wrong but what is judged by itself: rings, and queue
// managers that are away.
func (g *generator) calm() bool {
	for _, f := range g.s.Faults {
		if f.Kind != FaultRing && (f.Kind != FaultKill || !strings.HasPrefix(f.Who, "queues-")) {
			return false
		}
	}
	return true
}

// kindsBetween are what may go wrong between brokers and processes, as often as it does.
func kindsBetween() []string {
	return []string{
		FaultLink, FaultLink, FaultLink, FaultLink, FaultLeaders, FaultLeaders, FaultLeaders, FaultCoordinators,
		FaultCoordinators, FaultCoordinators, FaultNode,
	}
}

// betweenBrokers is one thing that goes wrong with one broker of several, or between them.
func (g *generator) betweenBrokers() Fault {
	f := Fault{At: g.between(0, g.length), For: g.span(), Who: "broker"}
	if g.chance(0.5) {
		f.At = g.booting()
	}
	switch f.Kind = pick(g, kindsBetween()...); f.Kind {
	case FaultLink:
		f.Who = g.one(g.kind())
		f.Key = pick(g, LinkMute, LinkDeaf, LinkBoth, LinkOff)
		f.Broker = pick(g, strconv.Itoa(1+g.IntN(MostBrokers)), strconv.Itoa(1+g.IntN(MostBrokers)), g.place(f.Who))
	case FaultLeaders, FaultCoordinators:
		f.Key = pick(g, "", Stale, Stale)
		if f.Key == "" {
			f.For = 0
		}
	case FaultNode:
		f.Broker = strconv.Itoa(1 + g.IntN(MostBrokers-1)) // the last is the controller
		f.For = max(f.For, 3)
		f.By = g.between(0.2, min(f.For, 9)) // a session of a broker lasts 9 s
	}
	return f
}

// place is a broker that a process needs.
func (g *generator) place(who string) string {
	kind, _, _ := strings.Cut(who, "-")
	switch kind {
	case "conductor":
		return pick(g, AtCoordinator, AtCoordinator, AtInstances, AtReports, AtHost, AtHosts, AtBuilds)
	case "host":
		return pick(g, AtHost, AtReports, AtBuilds, AtHosts)
	case "queues":
		return pick(g, AtController, AtHosts, AtHost)
	}
	return AtInstances
}

// fresh are boots that nothing speaks against, from at on.
func (g *generator) fresh(at, within Seconds, n int) {
	for range n {
		g.boot(at + g.between(0, within))
		b := g.s.Load[len(g.s.Load)-1].Boot
		b.Flavor, b.With, b.Host, b.Avoid = "m1.small", nil, "", nil
		b.Deadline, b.OnNoCapacity = 0, compute.WaitForCapacity
	}
}

// deposed is a conductor that goes on though it was put out of its group: the next one
// admits what it never reads, and it reads what hosts say of that.
func (g *generator) deposed() {
	g.s.World.Conductors = 2
	f := Fault{At: g.between(1, 4), For: g.between(6, 20), Kind: FaultDeposed, Who: "broker"}
	f.Key = pick(g, LinkMute, LinkDeaf, LinkBoth, LinkOff)
	g.wrong(f)
	g.fresh(f.At, 9, 4+g.IntN(6))
}

// Of these two projects one is in a partition that cannot be written.
const (
	ParkedOf compute.Project = "red"
	other    compute.Project = "blue"
)

// parked is a conductor that cannot write one partition, and ends.
func (g *generator) parked() {
	g.s.World.Conductors = pick(g, 1, 1, 1, 2)
	n := int32(2)
	for wire.Partition(ParkedOf, n) == wire.Partition(other, n) {
		n++
	}
	g.s.World.Partitions = n
	f := Fault{At: g.between(1, 4), Kind: FaultParked, Who: "broker", Key: pick(g, LinkMute, LinkBoth, LinkOff)}
	f.By = g.between(3, 15)
	f.For = f.By + g.between(0, 3)
	g.wrong(f)
	g.fresh(f.At, f.By-1.5, 4+g.IntN(6))
	for i, p := range []compute.Project{ParkedOf, other} { // positions are committed of the other one
		g.fresh(f.At+Seconds(i)*0.2, 0.5, 1)
		g.s.Load[len(g.s.Load)-1].Project, g.names[len(g.names)-1].project = p, p
	}
}
