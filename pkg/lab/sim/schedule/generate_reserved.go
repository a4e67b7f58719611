// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Reserving is the project that has reservations, and nothing else: what its boots are given is not their queue's room.
const Reserving compute.Project = "green"

// reserved has some worlds hold room for boots to come, beside all else. It has numbers of its own, as rare has. Where turns are
// small there are none: all placeholders are asked for in one request.
func (g *generator) reserved() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 52))
	if g.s.World.TurnBytes > 0 || !g.chance(0.15) {
		return
	}
	for n := range 1 + g.IntN(2) {
		g.reservation(fmt.Sprintf("room-%d", n+1))
	}
	if g.small && g.chance(0.4) {
		g.crowdedRoom("crowd")
	}
	g.upgraded(g.length + 20)
}

// crowdedRoom reserves more than nearly full hosts have room for, and boots into that before any is held: what is held is not
// what was taken.
func (g *generator) crowdedRoom(name string) {
	l := Load{
		At: g.between(0, g.length/2), Op: LoadReserve, Name: name, Project: Reserving, Count: 4 + g.IntN(5), For: 3 * 3600,
		Boot: &compute.Boot{Flavor: "m1.small"},
	}
	g.add(l)
	for i := range 1 + g.IntN(l.Count-1) {
		b := compute.Boot{Flavor: "m1.small"}
		b.Reserving(compute.ReservationName(name))
		g.add(Load{
			At: l.At + g.between(0.05, 0.5), Op: LoadTake, Name: fmt.Sprintf("%s-into-%d", name, i+1), Project: Reserving,
			Own: "id", Boot: &b,
		})
	}
}

func (g *generator) reservation(name string) {
	like, at := g.reservedAs()
	l := Load{
		At: at, Op: LoadReserve, Name: name, Project: Reserving, Count: 1 + g.IntN(3),
		From: pick(g, 0, 0, g.between(5, 30)), For: pick(g, g.between(60, 90), 3*3600), Boot: &like,
	}
	later := Seconds(0)
	if g.s.Resizes(like.Flavor) { // boots that come when its queue is made anew find the room that is held
		l.For, later = 3*3600, g.between(60, 110)
	}
	g.add(l)
	for i := range 1 + g.IntN(l.Count+1) {
		b := compute.Boot{Flavor: like.Flavor, With: like.With, Attempts: compute.Attempt(1 + g.IntN(4))}
		b.Reserving(compute.ReservationName(name))
		take := Load{
			At: l.At + g.between(0.5, 30), Op: LoadTake, Name: fmt.Sprintf("%s-into-%d", name, i+1), Project: Reserving, Own: "id",
			Boot: &b,
		}
		if i == 0 {
			take.At += later
		}
		g.add(take)
		if g.chance(0.5) {
			g.add(Load{
				At: take.At + g.between(0, 20), Op: LoadDelete, Name: take.Name, Project: Reserving, When: pick(g, "", "queued", "active"),
			})
		}
	}
	if g.chance(0.3) {
		g.add(Load{
			At: l.At + g.between(1, 30), Op: LoadDelete, Name: l.PartName(g.IntN(l.Count)), Project: Reserving,
			When: pick(g, "", "active"),
		})
	}
}

// reservedAs is what placeholders are like, and when they are asked for: of a flavor that is taken away, added or made another
// mostly around that time, where there is one; some with a choice, and where anything has a class, with one.
func (g *generator) reservedAs() (like compute.Boot, at Seconds) {
	like, at = compute.Boot{Flavor: pick(g, g.s.World.Flavors...).Name}, g.between(0, g.length/2)
	changes := only(g.s.Load, func(l Load) bool { return l.Op == LoadResize })
	if len(changes) == 0 {
		changes = only(g.s.Load, func(l Load) bool { return l.Flavor != nil })
	}
	switch {
	case len(changes) > 0 && g.chance(0.7):
		l := pick(g, changes...)
		like.Flavor, at = l.Flavor.Name, max(0, l.At+g.between(-12, 3))
	case len(g.s.World.Axes) > 0 && g.s.World.Axes[0].Axis == "gpu" && g.chance(0.4):
		like.Flavor, like.With = "m1.small", compute.Choices{"gpu": "a100"}
	}
	if g.s.Ranked() {
		like.Rules = compute.RulesOf("", compute.Set{}, pick(g, compute.Priorities()...))
	}
	return like, at
}

func only(list []Load, keep func(Load) bool) []Load {
	return slices.DeleteFunc(slices.Clone(list), func(l Load) bool { return !keep(l) })
}

// Reserves says whether there is a reservation.
func (s Schedule) Reserves() bool {
	return slices.ContainsFunc(s.Load, func(l Load) bool { return l.Op == LoadReserve })
}
