// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// rings makes what goes wrong with rings: in half of the worlds with many queues,
// and in some others, half of the time with nothing else.
func (g *generator) rings() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 7))
	p := 0.12
	if g.wide {
		p = 0.5
	}
	if !g.chance(p) {
		return
	}
	if g.chance(0.5) {
		g.s.Faults = nil
	}
	for range pick(g, 1, 1, 1, 2, 3) {
		g.ring()
	}
}

func (g *generator) ring() {
	f := Fault{At: g.between(0, g.length/2), For: g.between(1, 15), Kind: FaultRing}
	f.Who = pick(g, "hosts", "hosts", g.one("host"))
	switch f.Key = pick(g, RingLost, RingLost, RingLate, RingDoubled, RingDead, RingManagers, RingWrong); f.Key {
	case RingLost:
		f.For = pick(g, g.between(0.5, 3), g.between(0.5, 3), f.For, g.length, g.between(20, 90))
		if g.chance(0.7) && len(g.names) > 0 { // those for one boot
			f.At, f.Who = max(0, pick(g, g.names...).at-0.1), "hosts"
		}
	case RingLate:
		f.By = pick(g, g.between(0.2, 2), g.between(2, 20))
	case RingDoubled:
		f.By = pick(g, 0, g.between(0, 5))
	case RingDead:
		f.Who, f.For, f.By = g.one("host"), beaconTime, g.span()
	case RingManagers:
		g.s.World.Managers = 2
		f.Who, f.For = "queues", g.between(12, 40)
	case RingWrong:
		f.Nth = pick(g, 5, 50, 50, 3000)
		if g.chance(0.5) {
			g.closed(f.At)
		}
	}
	g.wrong(f)
}

// closed are hosts that offer nothing when work comes that they are rung for.
func (g *generator) closed(at Seconds) {
	for _, h := range g.s.World.Hosts {
		g.hostTo(max(0, at-2), string(h.ID), pick(g, "drain", "disable"))
		g.hostTo(at+g.between(12, 25), string(h.ID), "enable")
	}
	for range 1 + g.IntN(3) {
		g.boot(at + g.between(0, 5))
		b := g.s.Load[len(g.s.Load)-1].Boot
		b.Host, b.Avoid, b.Deadline, b.OnNoCapacity = "", nil, 0, compute.WaitForCapacity
		if g.wide {
			b.Flavor, b.With = g.choose()
		}
	}
}

// beaconTime is how long a host's next beacon is waited for.
const beaconTime = 16

// orphaned are hosts without a queue manager for minutes, and nothing else goes wrong:
// what is booted meanwhile is found all the same.
func (g *generator) orphaned() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 10))
	if g.s.World.LateAt > 0 || g.s.Resizes("") || !g.chance(0.13) || len(g.s.Faults) > 0 && !g.common() {
		return
	}
	g.s.Faults = nil
	g.s.Load = slices.DeleteFunc(g.s.Load, func(l Load) bool { return l.Op == LoadAddFlavor || l.Op == LoadDropFlavor })
	at := g.between(0, g.length/2)
	for i := range g.s.World.Managers {
		g.wrong(Fault{At: at, Kind: FaultKill, Who: fmt.Sprintf("queues-%d", i+1), By: g.between(330, 430)})
	}
	for range 2 + g.IntN(4) {
		g.lasting(at + g.between(1, 60))
	}
	if g.chance(0.5) {
		g.besideUseless(at + g.between(1, 60))
	}
}

// lasting is a boot for any host that waits for as long as it takes, in any queue.
func (g *generator) lasting(at Seconds) *Load {
	g.boot(at)
	l := &g.s.Load[len(g.s.Load)-1]
	l.Boot.Host, l.Boot.Avoid, l.Boot.Deadline = "", nil, 0
	l.Boot.OnNoCapacity, l.Own = compute.WaitForCapacity, "id"
	if g.wide {
		l.Boot.Flavor, l.Boot.With = g.choose()
	}
	return l
}

// besideUseless are boots of which the first of each queue avoid hosts, all of them rather: these have to come to
// what lies behind, and to the other queues.
func (g *generator) besideUseless(at Seconds) {
	var avoided []compute.HostID
	for _, h := range g.s.World.Hosts {
		if g.chance(0.8) {
			avoided = append(avoided, h.ID)
		}
	}
	for range 1 + g.IntN(3) {
		first := g.lasting(at).Boot
		f, with := first.Flavor, first.With
		first.Avoid = avoided
		for i := range 1 + g.IntN(4) {
			b := g.lasting(at + 0.5).Boot
			if b.Flavor, b.With = f, with; i == 0 && g.chance(0.3) {
				b.Avoid = avoided
			}
		}
	}
}
