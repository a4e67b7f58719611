// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
)

// doubted has somebody say that a host is dead that lives: one to which nothing happens, or
// one that nobody hears for longer than a host should be silent, while its machines run on.
func (g *generator) doubted() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 22))
	if len(g.names) == 0 || len(g.s.Faults) == 0 || !g.chance(0.17) {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultClone || f.Kind == FaultRename || f.Kind == FaultRing || f.Dead != "" {
			return
		}
	}
	g.s.Faults = g.s.Faults[:min(len(g.s.Faults), pick(g, 0, 0, 1, 2))]
	h, at := g.one("host"), g.between(2, g.length+5)
	say := func(at Seconds) {
		key := pick(g, WordRecord, WordRecord, WordAsked, WordPatient)
		g.wrong(Fault{At: at, Kind: FaultWord, Who: h, Key: key, Dead: pick(g, "fence", "fence", "forget")})
	}
	if g.chance(0.4) { // it is heard all the time
		for range 1 + g.IntN(3) {
			say(at + g.between(0, 10))
		}
		return
	}
	long := g.between(62, 150)
	g.wrong(Fault{At: at, For: long, Kind: pick(g, FaultPause, FaultMute, FaultOff, FaultDeaf), Who: h})
	for range pick(g, 1, 1, 2) {
		say(at + g.between(1, long-5))
	}
}

// hostsUnread has somebody say that a host is dead while the conductors are cut off from the broker that leads the
// hosts topic: one that lives, or one that nobody hears.
func (g *generator) hostsUnread() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 57))
	enough := 0.9
	if g.s.World.Brokers < MostBrokers {
		enough = 0.3
	}
	if g.s.World.LateAt > 0 || len(g.names) == 0 || !g.chance(enough) || !g.common() {
		return
	}
	g.s.Faults, g.s.World.Brokers = nil, MostBrokers
	at, long, lives := g.between(0, 10), g.between(70, 110), g.chance(0.75)
	key := pick(g, LinkMute, LinkDeaf, LinkBoth, LinkOff)
	for n := range g.s.World.Conductors {
		g.wrong(Fault{
			At: at, For: long, Kind: FaultLink, Who: fmt.Sprintf("conductor-%d", n+1), Key: key, Broker: AtHosts,
		})
	}
	h, words := g.one("host"), []string{WordRecord}
	if !lives {
		words = []string{WordRecord, WordAsked, WordPatient}
		g.wrong(Fault{At: at, For: long + 20, Kind: pick(g, FaultPause, FaultMute, FaultOff), Who: h})
	}
	for range 1 + g.IntN(3) {
		g.wrong(Fault{
			At: at + g.between(35, long), Kind: FaultWord, Who: h, Key: pick(g, words...), Dead: pick(g, "fence", "forget"),
		})
	}
}
