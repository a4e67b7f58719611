// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// few is how many faults a schedule may have so that something seldom takes their place:
// what tells a story has more.
const few = 3

// seldom has schedules in which little goes wrong meet what chance hardly ever brings
// about instead: errors and lost answers of requests that are made once in a process's
// life or in a queue's, with what makes a process send them; calls of a hypervisor that
// fail while they are made; and a few others of which there were too few.
func (g *generator) seldom() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 12))
	n := len(g.s.Faults)
	if n == 0 || n > few || len(g.names) == 0 || !g.chance(0.8) {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultRing {
			return // of what goes right beside those more is expected
		}
	}
	g.s.Faults = nil
	if g.chance(0.25) {
		pick(g, g.sick, g.hasty)()
		return
	}
	rare := g.rarities()
	for range 12 {
		pick(g, rare...)()
	}
}

// rarities are all that hardly ever takes place otherwise.
func (g *generator) rarities() (all []func()) {
	each := func(do func(string), keys ...string) {
		for _, key := range keys {
			all = append(all, func() { do(key) })
		}
	}
	for range 2 { // these have errors planned by chance, too, which hardly ever take place
		each(g.codeAtStart, "JoinGroup", "SyncGroup", "FindCoordinator", "OffsetFetch", "InitProducerID", "Metadata",
			"Heartbeat", "ListOffsets")
		each(g.calls, "Destroy", "List", "Inventory", "Stop", "Start", "Reboot", "Reboot")
	}
	queue := []string{"CreateTopics", "AlterShareGroupOffsets", "DescribeShareGroupOffsets", "DeleteTopics"}
	for range 2 { // a queue may be there already, or its flavor be in use
		each(g.codeOfQueue, append(queue, "DeleteTopics")...)
		each(g.codeOfWork, "ShareAcknowledge", "OffsetCommit", "ShareFetch")
	}
	for range 3 { // chance alone brings fewer answers that are lost
		each(g.loseAtStart, "OffsetFetch", "InitProducerID", "JoinGroup", "Heartbeat", "OffsetCommit")
		each(g.loseOfQueue, queue...)
		each(g.loseOfWork, "ShareFetch", "ShareAcknowledge", "Fetch")
	}
	each(g.loseOfQueue, queue...)
	each(g.calls, "Prepare")
	each(g.apart, FaultPower, FaultRogue, FaultRogue, "fence", "forget")
	return all
}

// booting is when something is booted, or a little before.
func (g *generator) booting() Seconds { return max(0, pick(g, g.names...).at-g.between(0, 0.2)) }

// coded is an error that a broker answers.
func (g *generator) coded(at, long Seconds, key string) {
	f := Fault{At: at, For: long, Kind: FaultCode, Who: "broker", Key: key, Nth: 1 + g.IntN(3)}
	f.Code = pick(g, append(append([]string(nil), codes[key]...), rarer[key]...)...)
	g.wrong(f)
}

// anew has a process started again, which asks for all that is asked for once.
func (g *generator) anew(at Seconds, kind string) (who string, back Seconds) {
	who, back = g.one(kind), g.between(0.1, 1)
	g.wrong(Fault{At: at, Kind: FaultKill, Who: who, By: back})
	return who, at + back
}

func (g *generator) codeAtStart(key string) {
	at := g.booting()
	g.anew(at, "conductor")
	g.coded(at+0.05, g.between(10, 40), key)
}

// openQueue has a flavor added, and perhaps taken away again: its queue goes a minute later.
func (g *generator) openQueue(at Seconds, gone bool) {
	f := Flavor("m1.seldom", 2)
	g.add(Load{At: at, Op: LoadAddFlavor, Flavor: &f})
	if gone {
		g.add(Load{At: at + g.between(3, 6), Op: LoadDropFlavor, Flavor: &f})
		return
	}
	g.boot(at + g.between(2, 6))
	b := g.s.Load[len(g.s.Load)-1].Boot
	b.Flavor, b.With, b.Host = f.Name, nil, ""
}

// goesTime is until when a queue that is taken away has gone.
const goesTime = 100

func (g *generator) codeOfQueue(key string) {
	at := g.between(0, g.length/2)
	g.openQueue(at, key == "DeleteTopics")
	long := g.between(5, 20)
	if key == "DeleteTopics" {
		long = goesTime
	}
	g.coded(at, long, key)
}

func (g *generator) codeOfWork(key string) { g.coded(g.booting(), g.between(5, 15), key) }

// loses is an answer that is lost, and may be for longer than others.
func (g *generator) loses(at, long Seconds, who, key string) {
	g.wrong(Fault{At: at, For: long, Kind: FaultLose, Who: who, Key: key, Nth: 1})
}

func (g *generator) loseAtStart(key string) {
	who, back := g.anew(g.booting(), "conductor")
	g.loses(back+0.001, 30, who, key)
}

func (g *generator) loseOfQueue(key string) {
	at := g.between(0, g.length/2)
	g.openQueue(at, key == "DeleteTopics")
	for i := range g.s.World.Managers { // one of them works
		g.loses(at, goesTime, fmt.Sprintf("queues-%d", i+1), key)
	}
}

func (g *generator) loseOfWork(key string) {
	at := g.booting()
	for _, h := range g.s.World.Hosts {
		g.loses(at, Window, string(h.ID), key)
	}
}

// calls are calls of a hypervisor that go wrong, with what has them made.
func (g *generator) calls(key string) {
	b := pick(g, g.names...)
	at := b.at
	ask := func(after Seconds, l Load) {
		l.At, l.Name, l.Project, l.When = b.at+after, b.name, b.project, "active"
		g.add(l)
	}
	switch key {
	case "Destroy":
		for range 3 { // one may have ended before
			ask(g.between(0.5, 5), Load{Op: LoadDelete})
			b = pick(g, g.names...)
		}
	case "Stop", "Reboot":
		for range 3 {
			ask(g.between(0.5, 3), Load{Op: LoadPower, Power: map[string]string{"Stop": "stop", "Reboot": "reboot"}[key]})
			b = pick(g, g.names...)
		}
	case "Start":
		for range 3 {
			ask(0.5, Load{Op: LoadPower, Power: "stop"})
			ask(2, Load{Op: LoadPower, Power: "start"})
			b = pick(g, g.names...)
		}
	}
	for _, h := range g.s.World.Hosts {
		f := Fault{At: max(0, at-0.1)}
		g.driver(&f)
		f.Kind, f.Who, f.Key, f.Nth, f.For = FaultDriver, string(h.ID), key, 1+g.IntN(3), 45
		if f.After = f.After && key != "Prepare"; f.Hang {
			f.For = g.between(5, 30)
		}
		g.wrong(f)
	}
}

// sick is a host on which nothing starts, and enough that might.
func (g *generator) sick() {
	at, h := g.booting(), g.one("host")
	key, class := pick(g, "Prepare", "Launch"), pick(g, "host", "timeout", "unknown")
	g.wrong(Fault{At: at, For: 120, Kind: FaultDriver, Who: h, Key: key, Code: class})
	for range 5 + g.IntN(4) {
		g.boot(at + g.between(0, 20))
		b := g.s.Load[len(g.s.Load)-1].Boot
		b.Flavor, b.With, b.Host, b.Avoid, b.Deadline, b.Attempts = "m1.small", nil, "", nil, 0, 4
		b.OnNoCapacity = compute.WaitForCapacity
	}
}

// hasty are commands that come while another is not answered, since calls of the
// hypervisors take long.
func (g *generator) hasty() {
	b := pick(g, g.names...)
	for range 3 + g.IntN(3) {
		g.add(Load{
			At: b.at + 1 + g.between(0, 2), Op: LoadPower, Name: b.name, Project: b.project, When: "active",
			Power: pick(g, "stop", "start", "reboot"),
		})
	}
	for _, h := range g.s.World.Hosts {
		for _, key := range []string{"Stop", "Start", "Reboot"} {
			g.wrong(Fault{At: b.at, For: 40, Kind: FaultDriver, Who: string(h.ID), Key: key, By: g.between(1, 8)})
		}
	}
}

// apart are others of which there were too few.
func (g *generator) apart(what string) {
	switch f := (Fault{At: g.booting(), For: g.span(), Kind: what}); what {
	case FaultRogue:
		f.Who, f.For = "rogue", g.between(5, 12)
		g.wrong(f)
	case "fence", "forget":
		f.Kind, f.Dead = FaultPower, what
		fallthrough
	default:
		f.Who = g.one("host")
		g.wrong(f)
	}
}
