// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// cloud is what is offered, and the hosts it runs on. Every machine has one
// processor, so a host of size n has room for n machines; of memory, disk and
// GPUs it always has enough for those.
type cloud struct {
	axes    []compute.Capability
	flavors []compute.Flavor
	queues  []queue
	hosts   []benchHost
	size    int // machines a host has room for
}

// queue is one that boots go to.
type queue struct {
	name   compute.QueueName
	flavor compute.FlavorName
	with   compute.Choices
	class  class
	weight float64 // its share of the boots; all together: 1
}

// class says which hosts a queue's work fits.
type class int

const (
	onPlain class = iota // hosts without GPUs
	onAny                // every host
	onA100               // hosts with that GPU
	onH100
	classes
)

const (
	gpuHost compute.Trait         = "CUSTOM_GPU_HOST"
	a100    compute.ResourceClass = "CUSTOM_GPU_A100"
	h100    compute.ResourceClass = "CUSTOM_GPU_H100"
	gpu     compute.AxisName      = "gpu"
)

// benchHost is a simulated host.
type benchHost struct {
	ID        compute.HostID
	Inventory compute.Inventory
}

// fleet is how many hosts there are of each kind.
type fleet struct{ plain, a100, h100, both int }

// fleet gives one host in five GPUs, half of those one kind and half the other; a
// single such host has both kinds.
func (o Options) fleet() fleet {
	hosts, gpus := o.Hosts, o.Hosts/5
	if o.NoGPUs || o.Fill > 0 {
		gpus = 0
	}
	if gpus == 1 {
		return fleet{plain: hosts - 1, both: 1}
	}
	return fleet{plain: hosts - gpus, a100: (gpus + 1) / 2, h100: gpus / 2}
}

func (f fleet) gpus() int { return f.a100 + f.h100 + f.both }

func (f fleet) hosts() int { return f.plain + f.gpus() }

// room is how many hosts a class of work surely has.
func (f fleet) room(c class) int {
	switch c {
	case onA100:
		return f.a100 + f.both
	case onH100:
		return f.h100 + f.both
	}
	return f.plain
}

// gpuWeight is the share of boots that want a GPU: three quarters of the hosts'
// share that have one, because some work that wants none may end up there.
func (f fleet) gpuWeight() float64 { return 0.75 * float64(f.gpus()) / float64(f.hosts()) }

// newQueues makes n queues: one flavor in eight or so may be had with one of two
// kinds of GPU, or without, which makes three queues; the others make one each
// and stay away from hosts with GPUs.
func (c *cloud) newQueues(n int, f fleet) {
	flexible := 0
	if f.gpus() > 0 && n >= 3 {
		flexible = max((n+5)/10, 1)
		c.axes = []compute.Capability{{Axis: gpu, Values: []compute.CapabilityValue{
			{Value: "a100", Requires: []compute.Trait{gpuHost}, Consumes: compute.Resources{a100: 1}},
			{Value: "h100", Requires: []compute.Trait{gpuHost}, Consumes: compute.Resources{h100: 1}},
		}}}
	}
	rest, each := 1.0, 0.0
	if flexible > 0 {
		rest -= f.gpuWeight()
		each = f.gpuWeight() / float64(2*flexible)
	}
	rest /= float64(n - 2*flexible)
	for i := range flexible {
		name := c.newFlavor("g", i, f)
		c.addQueue(queue{flavor: name, class: onAny, weight: rest})
		c.addQueue(queue{flavor: name, with: compute.Choices{gpu: "a100"}, class: onA100, weight: each})
		c.addQueue(queue{flavor: name, with: compute.Choices{gpu: "h100"}, class: onH100, weight: each})
	}
	for i := range n - 3*flexible {
		c.addQueue(queue{flavor: c.newFlavor("m", i, f), class: onPlain, weight: rest})
	}
}

// skew gives the first queue a share of the boots; the others keep among them the
// shares they had.
func (c *cloud) skew(first float64) {
	was := c.queues[0].weight
	for i := range c.queues {
		c.queues[i].weight *= (1 - first) / (1 - was)
	}
	c.queues[0].weight = first
}

func (c *cloud) addQueue(q queue) {
	q.name = compute.NameQueue(q.flavor, q.with)
	c.queues = append(c.queues, q)
}

// newFlavor adds the i-th flavor of a kind: "m" for machines, "g" for those that
// may have a GPU.
func (c *cloud) newFlavor(kind string, i int, f fleet) compute.FlavorName {
	flavor := compute.Flavor{
		Name: compute.FlavorName(fmt.Sprintf("%s%d", kind, i+1)),
		Resources: compute.Resources{
			compute.VCPU: 1, compute.MemoryMB: int64(1+i%4) << 10, compute.DiskGB: int64(10 * (1 + i%4)),
		},
	}
	if kind == "g" {
		flavor.Capabilities = []compute.AxisName{gpu}
	} else if f.gpus() > 0 {
		flavor.Forbidden = []compute.Trait{gpuHost}
	}
	c.flavors = append(c.flavors, flavor)
	return flavor.Name
}

// newHosts makes the hosts, which all together have room for so many machines:
// none has two more than another.
func (c *cloud) newHosts(f fleet, room int) {
	each, more := room/f.hosts(), room%f.hosts()
	for i := range f.hosts() {
		n := int64(each)
		if i < more {
			n++
		}
		c.size = max(c.size, int(n))
		inv := compute.Inventory{
			Totals: compute.Resources{compute.VCPU: n, compute.MemoryMB: n * 4 << 10, compute.DiskGB: n * 40},
		}
		if i >= f.plain {
			inv.Traits = []compute.Trait{gpuHost}
		}
		if i >= f.plain && i < f.plain+f.a100+f.both {
			inv.Totals[a100] = n
		}
		if i >= f.plain+f.a100 {
			inv.Totals[h100] = n
		}
		c.hosts = append(c.hosts, benchHost{compute.HostID(fmt.Sprintf("host-%04d", i+1)), inv})
	}
}

// chooseQueues says to which queue each of n boots goes: by lot, with the queues'
// weights, and the same in every run.
func (c *cloud) chooseQueues(n int, seed uint64) []int {
	random := rand.New(rand.NewPCG(seed, 1))
	out := make([]int, n)
	for i := range out {
		at := random.Float64()
		for q := range c.queues {
			if at -= c.queues[q].weight; at < 0 || q == len(c.queues)-1 {
				out[i] = q
				break
			}
		}
	}
	return out
}

// chooseSteps says the same of the boots of a ramp's steps.
func (c *cloud) chooseSteps(o Options) [][]int {
	var steps [][]int
	for n := range o.RampSteps {
		if o.Ramp {
			steps = append(steps, c.chooseQueues(int(steeper(float64(o.Count), n)), 4+uint64(n)))
		}
	}
	return steps
}

// needs is the least size of hosts that surely takes these boots, wherever those
// that fit every host end up.
func (c *cloud) needs(f fleet, chosen []int) int {
	var n [classes]int
	for _, q := range chosen {
		n[c.queues[q].class]++
	}
	if f.both > 0 { // boots that take either kind meet there
		n[onA100] += n[onH100]
		n[onH100] = 0
	}
	size := 0
	for _, k := range []class{onPlain, onA100, onH100} {
		if hosts := f.room(k); hosts > 0 {
			size = max(size, (n[k]+n[onAny]+hosts-1)/hosts)
		}
	}
	return size
}

const (
	// churnSize is the room of a host that is kept nearly full.
	churnSize = 20
	// fillByDeletes is how full hosts are kept by deletes.
	fillByDeletes = 0.7
)

// plan is the cloud for some boots, and to which queues those go.
func plan(o Options) (c *cloud, warmup, measured []int, err error) {
	f := o.fleet()
	c = &cloud{}
	c.newQueues(o.Queues, f)
	if o.Skew > 0 {
		c.skew(o.Skew)
	}
	warmup, measured = c.chooseQueues(o.Warmup, 1), c.chooseQueues(o.Count, 2)
	if o.Fill > 0 {
		room, err := o.room()
		if err != nil {
			return nil, nil, nil, err
		}
		c.newHosts(f, room)
		return c, warmup, measured, nil
	}
	size, needs := o.HostSize, max(c.needs(f, warmup), c.needs(f, measured))
	for _, step := range c.chooseSteps(o) {
		needs = max(needs, c.needs(f, step))
	}
	switch {
	case o.Churn:
	case size == 0:
		size = needs + needs/4 + 4
	case size < needs:
		return nil, nil, nil, &compute.Error{
			Kind: compute.KindInvalid, Field: "host-size", Value: fmt.Sprint(size),
			Message: fmt.Sprintf(
				"is too small: %d hosts must have room for %d machines each to take %d boots after a warm-up of %d",
				o.Hosts,
				needs,
				o.Count,
				o.Warmup,
			),
			Remedy: fmt.Sprintf(
				"give --host-size %d or leave it out, or give more --hosts, a lower --count or --warmup, or --churn",
				needs,
			),
		}
	}
	c.newHosts(f, size*o.Hosts)
	return c, warmup, measured, nil
}

// room is what all hosts together have so that the measured boots fill them as far
// as is wanted, or a machine less.
func (o Options) room() (int, error) {
	room := int(math.Ceil(float64(o.Count)/o.Fill - 1e-9))
	if room < o.Hosts {
		return 0, &compute.Error{
			Kind: compute.KindInvalid, Field: "count", Value: fmt.Sprint(o.Count),
			Message: fmt.Sprintf(
				"is too low: %d hosts with room for one machine each are not %v full with it",
				o.Hosts,
				o.Fill,
			),
			Remedy: fmt.Sprintf(
				"give --count %d or more, fewer --hosts or a lower --fill",
				int(o.Fill*float64(o.Hosts-1))+1,
			),
		}
	}
	return room, nil
}
