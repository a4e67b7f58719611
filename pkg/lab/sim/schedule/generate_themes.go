// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// themed has some schedules tell a story: what goes wrong meets what is asked, at
// the moment where it hurts most. Chance alone brings that about too rarely. It
// has numbers of its own, so a seed's other load and faults are as they were.
func (g *generator) themed() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 2))
	if len(g.names) == 0 || !g.chance(0.45) {
		return
	}
	pick(
		g,
		g.dead,
		g.silent,
		g.failing,
		g.reboots,
		g.handover,
		g.forgetful,
		g.early,
		g.crowded,
		g.late,
		g.unsaid,
		g.opening,
		g.robbed,
	)()
}

// hostTo has an operator say what a host should do.
func (g *generator) hostTo(at Seconds, h, wish string) {
	g.add(Load{At: at, Op: LoadHost, Host: compute.HostID(h), Wish: wish})
}

func (g *generator) wrong(f Fault) { g.s.Faults = append(g.s.Faults, f) }

// dead is a host that loses power when it has something, and is declared dead.
// What it was told last it may hear only when it comes back.
func (g *generator) dead() {
	b := pick(g, g.names...)
	f := Fault{
		At: b.at, Kind: FaultPower, Name: b.name, When: pick(g, "starting", "active"),
		For: g.between(10, 40), Dead: pick(g, "fence", "forget"), Disk: pick(g, "", "", "lost"),
	}
	if f.When == "starting" {
		if g.chance(0.7) { // it hears one word after the other
			g.s.World.Sips, g.s.World.Latency = true, g.between(0.02, 0.3)
		}
		for _, h := range g.s.World.Hosts {
			g.wrong(
				Fault{
					At:    max(0, b.at-0.1),
					Kind:  FaultDeaf,
					Who:   string(h.ID),
					Point: "sent:Produce",
					Nth:   1 + g.IntN(2),
					For:   g.between(1, 8),
				},
			)
		}
	}
	g.wrong(f)
}

// silent is a host that nobody hears for longer than a host should be silent.
func (g *generator) silent() {
	b := pick(g, g.names...)
	g.wrong(Fault{
		At: b.at, Kind: pick(g, FaultMute, FaultPause, FaultOff, FaultDeaf), Name: b.name,
		When: pick(g, "starting", "active", "active"), For: g.between(65, 150),
	})
}

// failing are launches that fail while the machine is deleted, of which the host
// hears late.
func (g *generator) failing() {
	for _, h := range g.s.World.Hosts {
		g.wrong(
			Fault{
				Kind: FaultDriver,
				Who:  string(h.ID),
				Key:  "Launch",
				Code: pick(g, "host", "request", "unknown"),
				By:   g.between(0.2, 2),
				For:  g.length + 20,
				Nth:  1 + g.IntN(3),
			},
		)
	}
	for range 2 {
		b := pick(g, g.names...)
		g.add(Load{At: b.at, Op: LoadDelete, Name: b.name, Project: b.project, When: "starting"})
		g.wrong(Fault{At: b.at, Kind: FaultDeaf, Name: b.name, When: "starting", For: g.between(1, 10)})
	}
}

// reboots are commands of which nobody hears that they were done.
func (g *generator) reboots() {
	for range 2 {
		b := pick(g, g.names...)
		at := b.at + g.between(0, 2)
		g.add(Load{At: at, Op: LoadPower, Name: b.name, Project: b.project, When: "active", Power: "reboot"})
		switch f := (Fault{At: at, Name: b.name, When: "active", For: g.between(10, 50)}); g.IntN(3) {
		case 0:
			f.Kind = FaultMute
			g.wrong(f)
		case 1:
			f.Kind, f.By, f.For = FaultKill, g.between(0.1, 20), Window
			f.Point, f.Nth = pick(g, "journal", "sent:Produce", "send:Produce"), 1+g.IntN(3)
			g.wrong(f)
		default:
			g.wrong(
				Fault{
					At:    at,
					Kind:  FaultKill,
					Who:   g.one("conductor"),
					By:    g.between(0, 20),
					For:   Window,
					Point: pick(g, "send:Produce", "sent:Produce"),
					Nth:   1 + g.IntN(4),
				},
			)
		}
	}
}

// handover is a conductor that stands still with a turn to write, long
// enough for the other to take over.
func (g *generator) handover() {
	g.s.World.Conductors = 2
	for range 1 + g.IntN(3) {
		b := pick(g, g.names...)
		g.wrong(Fault{
			At: max(
				0,
				b.at-g.between(0, 1),
			),
			Kind: FaultPause, Who: g.one("conductor"),
			For: pick(g, g.between(10, 17), g.between(10, 17), g.between(8, 70)),
			Point: pick(
				g,
				"send:Produce",
				"send:Produce",
				"sent:Produce",
				"send:OffsetCommit",
				"send:InitProducerID",
				"sent:InitProducerID",
			),
			Nth: 1 + g.IntN(4),
		})
	}
}

// forgetful is a host that loses its journal, and not its machines.
func (g *generator) forgetful() {
	b := pick(g, g.names...)
	g.wrong(
		Fault{
			At:   b.at,
			Kind: FaultKill,
			Name: b.name,
			When: pick(g, "starting", "active"),
			Disk: "lost",
			By:   g.between(0, 80),
		},
	)
}

// early adds deletes that are there before their boots: a client that writes to Kafka
// may name an instance that is not known yet.
func (g *generator) early() {
	for i, l := range g.s.Load {
		if l.Op == LoadBoot && g.chance(0.4) {
			g.s.Load[i].Own = "id"
			g.add(Load{At: max(0, l.At-g.between(0, 0.2)), Op: LoadDelete, Name: l.Name, Project: l.Project, Own: "id"})
		}
	}
}

// crowded is a flavor that is taken away while boots of it are on their way, too
// many for the room there is, on a slow network: of what waits already, the API
// would know, and refuse.
func (g *generator) crowded() {
	w := &g.s.World
	w.Nodes, w.Latency = 2, g.between(0.05, 0.3)
	f := w.Flavors[1]
	for i := range w.Hosts {
		for class, n := range f.Resources {
			w.Hosts[i].Totals[class] = n
		}
	}
	drop := g.between(0.4, 0.4+g.length/2)
	for _, l := range g.s.Load {
		if l.Op == LoadBoot && l.At < drop && l.Boot.Flavor == f.Name {
			l.Boot.Flavor, l.Boot.With = w.Flavors[0].Name, nil
		}
	}
	first, last := -2*w.Latency, w.Latency
	if g.chance(0.5) { // what was decided comes to light when the flavor is gone
		first, last = -6*w.Latency, -3*w.Latency
		for i := range w.Conductors {
			g.wrong(
				Fault{
					At:   max(0, drop+first),
					Kind: FaultMute,
					Who:  fmt.Sprintf("conductor-%d", i+1),
					For:  g.between(3, 15),
				},
			)
		}
	}
	for range 5 + g.IntN(5) {
		g.boot(max(0, drop+g.between(first, last)))
		b := g.s.Load[len(g.s.Load)-1].Boot
		b.Flavor, b.With, b.Host, b.Avoid, b.OnNoCapacity = f.Name, nil, "", nil, compute.WaitForCapacity
	}
	g.add(Load{At: drop, Op: LoadDropFlavor, Flavor: &f})
	if g.chance(0.6) { // a host that comes late to the queue waits there, alone
		for _, h := range w.Hosts {
			g.add(Load{At: max(0, drop-g.between(0, 1)), Op: LoadHost, Host: h.ID, Wish: "disable"})
			g.add(Load{At: drop + g.between(5, 20), Op: LoadHost, Host: h.ID, Wish: "enable"})
		}
	}
	stay := g.chance(0.5) // what waits, waits for longer than a closed queue is kept
	for _, b := range g.names {
		if !stay && g.chance(0.6) {
			g.add(
				Load{
					At:      max(b.at, drop) + g.between(3, 15),
					Op:      LoadDelete,
					Name:    b.name,
					Project: b.project,
					When:    "active",
				},
			)
		}
	}
}

// late is room that comes just before a deadline, while no conductor decides.
func (g *generator) late() {
	w := g.s.World
	at, deadline := g.between(0, 3), g.between(8, 20)
	for range 1 + g.IntN(3) {
		g.boot(at)
		b := g.s.Load[len(g.s.Load)-1].Boot
		b.Flavor, b.With, b.Host, b.Avoid, b.OnNoCapacity = w.Flavors[0].Name, nil, "", nil, compute.WaitForCapacity
		b.Deadline = deadline.Duration()
	}
	for _, h := range w.Hosts {
		g.add(Load{Op: LoadHost, Host: h.ID, Wish: "disable"})
		g.add(Load{At: at + deadline - g.between(1, 4), Op: LoadHost, Host: h.ID, Wish: "enable"})
	}
	for i := range w.Conductors {
		f := Fault{
			At:   at + deadline - 5,
			Kind: FaultPause,
			Who:  fmt.Sprintf("conductor-%d", i+1),
			For:  g.between(5, 16),
		}
		if g.chance(0.5) {
			f.Kind, f.By, f.For = FaultKill, f.For, 0
		}
		g.wrong(f)
	}
}

// unsaid are conductors that end while the broker does not take what they have to
// put into queues.
func (g *generator) unsaid() {
	b := pick(g, g.names...)
	refused := g.between(2.5, 6)
	for _, q := range g.s.Booted() {
		g.wrong(
			Fault{
				At:    b.at,
				Kind:  FaultCode,
				Who:   "broker",
				Key:   "Produce",
				Topic: "build." + string(q),
				Code:  "NOT_LEADER_FOR_PARTITION",
				Nth:   1000,
				For:   refused,
			},
		)
	}
	for i := range g.s.World.Conductors {
		g.wrong(
			Fault{
				At:   b.at + g.between(1.5, refused),
				Kind: FaultKill,
				Who:  fmt.Sprintf("conductor-%d", i+1),
				By:   g.between(0, 8),
			},
		)
	}
}

// robbed is work that leaves its queue without anybody having it: a rogue reads
// the queue before the work comes, and hosts offer nothing, are late, or race it.
func (g *generator) robbed() {
	w := g.s.World
	f := pick(g, w.Flavors...).Name
	r := Fault{At: g.between(0, g.length/2), For: g.between(3, 12), Kind: FaultRogue, Who: "rogue"}
	if g.chance(0.6) {
		r.Topic = "build." + string(compute.NameQueue(f, nil))
	}
	g.wrong(r)
	for range 1 + g.IntN(4) {
		g.boot(r.At + g.between(0.2, 2))
		b := g.s.Load[len(g.s.Load)-1].Boot
		b.Flavor, b.With, b.Host, b.Avoid, b.OnNoCapacity, b.Deadline = f, nil, "", nil, compute.WaitForCapacity, 0
	}
	hindered := pick(g, "disable", "disable", FaultPause, FaultSlow, "")
	for _, h := range w.Hosts {
		switch hindered {
		case "disable":
			g.add(Load{At: max(0, r.At-g.between(0, 2)), Op: LoadHost, Host: h.ID, Wish: "disable"})
			g.add(Load{At: r.At + g.between(2, r.For+5), Op: LoadHost, Host: h.ID, Wish: "enable"})
		case FaultPause:
			g.wrong(
				Fault{At: max(0, r.At-g.between(0, 1)), Kind: FaultPause, Who: string(h.ID), For: g.between(1, r.For)},
			)
		case FaultSlow:
			g.wrong(
				Fault{
					At:   max(0, r.At-g.between(0, 1)),
					Kind: FaultSlow,
					Who:  string(h.ID),
					By:   g.between(0.05, 1),
					For:  r.For,
				},
			)
		}
	}
}

// opening are queue managers that end while they open a queue.
func (g *generator) opening() {
	f := Flavor("m1.extra", 2)
	at := g.between(0, g.length/2)
	g.add(Load{At: at, Op: LoadAddFlavor, Flavor: &f})
	for i := range g.s.World.Managers {
		who := fmt.Sprintf("queues-%d", i+1)
		if g.chance(0.3) {
			g.wrong(Fault{At: at, Kind: FaultLose, Who: who, Key: "AlterShareGroupOffsets", Nth: 1, For: Window})
			continue
		}
		g.wrong(
			Fault{
				At:   at,
				Kind: FaultKill,
				Who:  who,
				Point: pick(
					g,
					"send:AlterShareGroupOffsets",
					"sent:AlterShareGroupOffsets",
					"sent:AlterShareGroupOffsets",
				),
				Nth: 1,
				For: Window,
				By:  g.between(0, 20),
			},
		)
	}
	g.boot(at + g.between(0, g.length/3))
	b := g.s.Load[len(g.s.Load)-1].Boot
	b.Flavor, b.With = f.Name, nil
}
