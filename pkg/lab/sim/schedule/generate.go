// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Generate makes the schedule of a seed, always the same.
func Generate(seed uint64) Schedule {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), s: Schedule{Seed: seed}}
	g.world()
	g.many()
	g.load()
	g.spread()
	if g.chance(0.9) {
		g.faults()
	}
	g.themed()
	g.Rand = rand.New(rand.NewPCG(seed, 3)) // again not to change what the other numbers make
	g.s.World.Sips = g.s.World.Sips || g.chance(0.2)
	g.rare()
	g.rings()
	g.savings()
	g.seldom()
	g.told()
	g.renamed()
	g.furnished()
	g.spoiled()
	g.doubted()
	g.misled()
	g.misledManagers()
	g.twins()
	g.cloned()
	g.versions()
	g.several()
	g.divided()
	g.resized()
	g.restored()
	g.keyed()
	g.lied()
	g.narrow()
	g.shared()
	g.labelled()
	g.grouped()
	g.together()
	g.wholes()
	g.regrouped()
	g.ranked()
	g.preempted()
	g.reserved()
	g.leaderless()
	g.madeLate()
	g.hostsUnread()
	g.saidAgain()
	g.orphaned()
	g.keepsUp()
	slices.SortStableFunc(g.s.Load, func(a, b Load) int { return sign(a.At - b.At) })
	slices.SortStableFunc(g.s.Faults, func(a, b Fault) int { return sign(a.At - b.At) })
	return g.s
}

// keepsUp has messages be quick enough, where processes read one by one, for conductors to keep up with what is asked
// for: of each instance they read a request, a claim and that it runs, and for each a message goes there and back
// twice. What they are late with is said again, and is as much once more.
func (g *generator) keepsUp() {
	const most = 30.0 // seconds
	boots := 0
	for _, l := range g.s.Load {
		if l.Boot != nil {
			boots += max(1, l.Count)
		}
		boots += len(l.Boots)
	}
	if w := &g.s.World; w.Sips && boots > 0 {
		w.Latency = min(w.Latency, Seconds(math.Floor(1000*most/float64(3*2*boots))/1000))
	}
}

type generator struct {
	*rand.Rand
	s      Schedule
	size   int     // 0: a small history, 2: a long one
	length Seconds // of the time in which things happen
	small  bool    // hosts fill up
	wide   bool    // there are many queues
	names  []booted
}

type booted struct {
	name    string
	project compute.Project
	at      Seconds
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// between is a time, to the millisecond.
func (g *generator) between(from, to Seconds) Seconds {
	return Seconds(math.Round(float64(from+(to-from)*Seconds(g.Float64()))*1000) / 1000)
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

const (
	gpuTrait compute.Trait         = "CUSTOM_GPU_HOST"
	gpuClass compute.ResourceClass = "CUSTOM_GPU"
	ssdTrait compute.Trait         = "CUSTOM_SSD"
)

func Flavor(name compute.FlavorName, n int64) compute.Flavor {
	return compute.Flavor{
		Name:      name,
		Resources: compute.Resources{compute.VCPU: n, compute.MemoryMB: n * 1024, compute.DiskGB: n * 10},
	}
}

// world makes a few hosts, and a cloud that soon is full, or never.
func (g *generator) world() {
	w := &g.s.World
	g.size = pick(g, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2)
	w.Conductors, w.Managers, w.Nodes = pick(g, 1, 2, 2), pick(g, 1, 1, 2), pick(g, 1, 1, 2)
	w.Partitions = pick[int32](g, 1, 2, 3)
	w.Latency = pick[Seconds](g, 0, 0.001, 0.005, 0.02)
	g.length = []Seconds{g.between(2, 6), g.between(5, 15), g.between(10, 40)}[g.size]
	g.small = g.chance(0.7)
	big := Flavor("m1.big", 3)
	w.Flavors = []compute.Flavor{Flavor("m1.small", 1), big}
	if gpus := g.small && g.chance(0.4); gpus {
		w.Flavors[0].Capabilities = []compute.AxisName{"gpu"}
		w.Axes = []compute.Capability{{Axis: "gpu", Values: []compute.CapabilityValue{
			{Value: "a100", Requires: []compute.Trait{gpuTrait}, Consumes: compute.Resources{gpuClass: 1}},
		}}}
	}
	prepare, launch, destroy := g.between(0, 2), g.between(0, 0.5), g.between(0, 0.5)
	for i := range []int{2, pick(g, 2, 3), pick(g, 2, 3, 4)}[g.size] {
		n := int64(2 + g.IntN(5))
		if !g.small {
			n = 1000
		}
		h := Host{
			ID:      compute.HostID(fmt.Sprintf("host-%d", i+1)),
			Totals:  Flavor("", n).Resources,
			Prepare: prepare,
			Launch:  launch,
			Destroy: destroy,
		}
		if len(w.Axes) > 0 && i == 0 {
			h.Traits, h.Totals[gpuClass] = []compute.Trait{gpuTrait}, 2
		}
		if g.small && g.chance(0.3) {
			h.Traits = append(h.Traits, ssdTrait)
			slices.Sort(h.Traits)
		}
		w.Hosts = append(w.Hosts, h)
	}
}

// load makes what is asked for.
func (g *generator) load() {
	for range []int{2 + g.IntN(4), 3 + g.IntN(8), 5 + g.IntN(15)}[g.size] {
		g.boot(g.between(0, g.length))
	}
	for _, b := range g.names {
		if g.chance(0.45) {
			g.add(
				Load{
					At:      b.at + pick(g, 0, 0.05, g.between(0, 1), g.between(0, 20)),
					Op:      LoadDelete,
					Name:    b.name,
					Project: b.project,
					When:    pick(g, "", "", "queued", "starting", "active", "deleting", "error"),
				},
			)
		}
		if g.chance(0.15) {
			for range 1 + g.IntN(3) {
				g.add(
					Load{
						At:      b.at + g.between(0, 20),
						Op:      LoadPower,
						Name:    b.name,
						Project: b.project,
						When:    "active",
						Power:   pick(g, "stop", "start", "reboot"),
					},
				)
			}
		}
	}
	if g.chance(0.35) {
		g.quota()
	}
	if g.chance(0.3) {
		g.offers()
	}
	if g.chance(0.2) {
		h := pick(g, g.s.World.Hosts...).ID
		g.add(Load{At: g.between(0, g.length), Op: LoadHost, Host: h, Wish: pick(g, "drain", "disable")})
		g.add(Load{At: g.between(g.length/2, g.length), Op: LoadHost, Host: h, Wish: "enable"})
	}
}

func sign(s Seconds) int {
	switch {
	case s < 0:
		return -1
	case s > 0:
		return 1
	}
	return 0
}

func (g *generator) add(l Load) {
	l.Node = g.IntN(g.s.World.Nodes)
	g.s.Load = append(g.s.Load, l)
}

func (g *generator) boot(at Seconds) {
	b := booted{fmt.Sprintf("vm-%d", len(g.names)+1), pick[compute.Project](g, "red", "blue"), at}
	g.names = append(g.names, b)
	w := g.s.World
	boot := compute.Boot{Flavor: pick(g, w.Flavors...).Name, Attempts: compute.Attempt(1 + g.IntN(4))}
	switch {
	case len(w.Axes) > 0 && g.chance(0.3) && w.Axes[0].Axis == "gpu": // in worlds of zones there is none
		boot.Flavor, boot.With = "m1.small", compute.Choices{"gpu": "a100"}
	case g.chance(0.1):
		boot.Host = pick(g, w.Hosts...).ID
	case g.chance(0.15):
		boot.Avoid = []compute.HostID{pick(g, w.Hosts...).ID}
	}
	if g.chance(0.1) {
		boot.OnNoCapacity = compute.FailAtOnce
	}
	if g.chance(0.2) {
		boot.Deadline = g.between(5, 120).Duration()
	}
	if g.chance(0.03) {
		boot.Flavor = "m1.none"
	}
	g.add(
		Load{At: at, Op: LoadBoot, Name: b.name, Project: b.project, Own: pick(g, "", "id", "id", "key"), Boot: &boot},
	)
}

func (g *generator) quota() {
	p := pick[compute.Project](g, "red", "blue")
	n := int64(1 + g.IntN(6))
	g.add(
		Load{
			At:      g.between(0, g.length/4),
			Op:      LoadQuota,
			Project: p,
			Limits:  compute.Resources{compute.Instances: n, compute.VCPU: n + int64(g.IntN(6))},
		},
	)
	if g.chance(0.4) {
		g.add(
			Load{
				At:      g.between(g.length*3/4, g.length),
				Op:      LoadQuota,
				Project: p,
				Limits:  compute.Resources{compute.Instances: n + 2},
			},
		)
	}
}

// offers adds a flavor, boots of it, and perhaps takes it away again; or takes
// away one that is in use.
func (g *generator) offers() {
	f := Flavor("m1.extra", 2)
	if g.chance(0.4) {
		f = g.s.World.Flavors[1]
	} else {
		at := g.between(0, g.length/2)
		g.add(Load{At: at, Op: LoadAddFlavor, Flavor: &f})
		for range 1 + g.IntN(3) {
			g.boot(at + g.between(0, g.length/3))
			g.s.Load[len(g.s.Load)-1].Boot.Flavor = f.Name
			g.s.Load[len(g.s.Load)-1].Boot.With = nil
		}
	}
	if g.chance(0.6) {
		at := g.between(g.length/2, g.length)
		g.add(Load{At: at, Op: LoadDropFlavor, Flavor: &f})
		if g.chance(0.5) {
			g.add(Load{At: at + g.between(0, 20), Op: LoadAddFlavor, Flavor: &f})
		}
	}
}
