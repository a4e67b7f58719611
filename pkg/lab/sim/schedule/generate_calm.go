// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// told are stories in which nothing goes wrong, so that no host may idle that has room
// for what waits: half of them with two queues, half with many.
func (g *generator) told() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 8))
	if !g.chance(0.1) {
		return
	}
	s := Schedule{Seed: g.s.Seed, World: g.s.World}
	s.World.Flavors, s.World.Axes, s.World.Hosts = []compute.Flavor{
		Flavor("m1.small", 1),
		Flavor("m1.big", 3),
	}, nil, nil
	g.s, g.names = s, nil
	if g.wide = g.chance(0.5); g.wide {
		g.widen(pick(g, shapes...))
	}
	pick(g, g.picky, g.picky, g.busy, g.enabled)()
}

// host adds one with room for n small machines.
func (g *generator) host(n int64, prepare Seconds) compute.HostID {
	h := Host{
		ID:     compute.HostID(fmt.Sprintf("host-%d", len(g.s.World.Hosts)+1)),
		Totals: Flavor("", n).Resources, Traits: []compute.Trait{ssdTrait},
		Prepare: prepare, Launch: 0.1, Destroy: 0.1,
	}
	g.s.World.Hosts = append(g.s.World.Hosts, h)
	return h.ID
}

// picky is one host with much room, of which six boots of one queue are to keep away,
// and others that are full, or nearly. Boots in other queues do not wait for those.
func (g *generator) picky() {
	prepare := g.between(0, 1)
	avoided := g.host(60, prepare)
	for i := range 1 + g.IntN(3) {
		room := int64(1)
		if i == 0 && g.chance(0.5) {
			room = 3
		}
		h := g.host(room, prepare)
		g.only(0, "m1.small", nil).Host = h
	}
	at := 4 + prepare
	f, with := compute.FlavorName("m1.small"), compute.Choices(nil)
	for range 6 {
		g.only(at+g.between(0, 0.5), f, with).Avoid = []compute.HostID{avoided}
	}
	for range 4 + g.IntN(6) {
		g.other(at+pick(g, 0, g.between(0, 2), g.between(0, 20)), f)
	}
}

// other boots in any queue of another flavor.
func (g *generator) other(at Seconds, not compute.FlavorName) {
	f, with := compute.FlavorName("m1.big"), compute.Choices(nil)
	if g.wide {
		f, with = g.choose()
	}
	if f != not {
		g.only(at, f, with)
	}
}

// busy is a queue into which so much comes that hosts are told to wait on it, and now
// and then a boot in another.
func (g *generator) busy() {
	prepare := g.between(0, 0.5)
	for range 1 + g.IntN(3) {
		g.host(pick[int64](g, 1000, 1000, 12), prepare)
	}
	every := pick[Seconds](g, 0.5, 1, 3, 4)
	for at := Seconds(0); at < 24; at += every {
		g.only(at, "m1.small", nil)
	}
	for range 3 + g.IntN(4) {
		g.other(g.between(6, 24), "m1.small")
	}
}

// enabled are hosts that offer nothing while work comes, until an operator says so.
func (g *generator) enabled() {
	for range 1 + g.IntN(3) {
		h := string(g.host(20, 0.1))
		g.hostTo(0, h, "disable")
		g.hostTo(20+g.between(0, 20), h, "enable")
	}
	for range 1 + g.IntN(3) {
		g.only(3+g.between(0, 6), "m1.small", nil)
		g.other(3+g.between(0, 6), "m1.small")
	}
}

// only boots in a queue, and nothing is special about it.
func (g *generator) only(at Seconds, f compute.FlavorName, with compute.Choices) *compute.Boot {
	b := booted{fmt.Sprintf("vm-%d", len(g.names)+1), "red", at}
	g.names = append(g.names, b)
	boot := &compute.Boot{Flavor: f, With: with, Attempts: 1}
	g.add(Load{At: at, Op: LoadBoot, Name: b.name, Project: b.project, Own: "id", Boot: boot})
	return boot
}
