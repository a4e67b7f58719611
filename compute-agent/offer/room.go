package offer

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Room is what is left of a host: of each class, which devices, and on which NUMA
// node. Methods never change the receiver.
type Room struct {
	free    compute.Resources // of each class; devices that nobody may have now do not count
	largest compute.Resources // no machine may have more of these classes, whatever is free
	nodes   []node            // empty: machines may be anywhere
	devices []device          // by address
}

// node is what a NUMA node has left.
type node struct {
	id     int
	free   compute.Resources // VCPU and MEMORY_MB
	shares map[compute.ResourceClass]float64
}

// device is one that may be given to a machine, or was.
type device struct {
	class  compute.ResourceClass
	at     compute.PCIAddress
	parent compute.PCIAddress // the physical function that it is a part of; empty: of none
	node   int
	gone   bool // a machine has it, or a part of it, or what it is a part of
}

// Amounts is room where machines may be anywhere and devices are not told apart.
func Amounts(free compute.Resources) Room { return Room{free: free} }

// Free is how much is left of each class. It is negative where a host has more on
// it than it should.
func (r Room) Free() compute.Resources { return r.free }

// Largest is how much of a class one machine may get, where that is less than is
// free.
func (r Room) Largest() compute.Resources {
	var out compute.Resources
	less := func(class compute.ResourceClass, n int64) {
		if old, there := out[class]; n < r.free[class] && (!there || n < old) {
			out = out.Max(compute.Resources{class: 0})
			out[class] = max(0, n)
		}
	}
	for class, n := range r.largest {
		less(class, n)
	}
	for _, class := range onNodes(len(r.nodes) > 0) {
		most := int64(0)
		for _, n := range r.nodes {
			most = max(most, n.free[class])
		}
		less(class, most)
	}
	return out
}

// onNodes are the classes that NUMA nodes have.
func onNodes(is bool) []compute.ResourceClass {
	if !is {
		return nil
	}
	return []compute.ResourceClass{compute.VCPU, compute.MemoryMB}
}

// Fits says whether one machine with these needs has room.
func (r Room) Fits(needs compute.Resources) bool {
	if len(r.nodes) == 0 && len(r.devices) == 0 {
		return r.allows(needs)
	}
	_, _, ok := r.Take(needs, compute.Place{})
	return ok
}

func (r Room) allows(needs compute.Resources) bool {
	for class, most := range r.largest {
		if needs[class] > most {
			return false
		}
	}
	return needs.FitsIn(r.free)
}

// Take finds a place for a machine, and what is left beside it. It takes of the
// preferred place what it can: where that is free, and was taken for as much or
// more, there is always room.
func (r Room) Take(needs compute.Resources, prefer compute.Place) (compute.Place, Room, bool) {
	if !r.allows(needs) {
		return compute.Place{}, r, false
	}
	for _, n := range r.candidates(needs, prefer) {
		p := compute.Place{Nodes: n}
		if devices, ok := r.pick(needs, n, prefer.Devices); ok {
			p.Devices = devices
			return p, r.Hold(needs, p), true
		}
	}
	return compute.Place{}, r, false
}

// Hold takes away what a machine has, wherever that is and whether or not it fits.
func (r Room) Hold(amounts compute.Resources, p compute.Place) Room {
	r.free = r.free.Minus(amounts)
	r.nodes = hold(r.nodes, amounts, p.Nodes)
	if len(p.Devices) > 0 && len(r.devices) > 0 {
		r.free, r.devices = r.free.Clone(), slices.Clone(r.devices)
		for _, at := range p.Devices {
			r.lose(at)
		}
	}
	return r
}

// lose marks a device that a machine has, and those that nobody can have beside it:
// a physical function has no virtual ones while it is a machine's, and the other
// way round. The amount of the machine itself is counted already.
func (r Room) lose(at compute.PCIAddress) {
	i, ok := r.find(at)
	if !ok {
		return
	}
	r.devices[i].gone = true
	for k, d := range r.devices {
		if !d.gone && (d.parent == at || d.at == r.devices[i].parent) {
			r.devices[k].gone = true
			r.free[d.class]--
		}
	}
}

func (r Room) find(at compute.PCIAddress) (int, bool) {
	return slices.BinarySearchFunc(r.devices, at, func(d device, at compute.PCIAddress) int { return cmp.Compare(d.at, at) })
}

// hold takes a machine's processors and memory from the nodes it is on. What is
// bound to none is counted on each by its size.
func hold(nodes []node, amounts compute.Resources, on []int) []node {
	if len(nodes) == 0 {
		return nil
	}
	out := slices.Clone(nodes)
	for i, n := range out {
		part := compute.Resources{}
		for _, class := range onNodes(true) {
			switch {
			case len(on) == 0:
				part[class] = int64(math.Ceil(float64(amounts[class]) * n.shares[class]))
			case slices.Contains(on, n.id):
				part[class] = (amounts[class] + int64(len(on)) - 1) / int64(len(on))
			}
		}
		out[i].free = n.free.Minus(part)
	}
	return out
}

// candidates are the nodes that a machine could be on, the best first: the
// preferred, those with most of the devices it needs, the fullest. Nil is anywhere.
func (r Room) candidates(needs compute.Resources, prefer compute.Place) (out [][]int) {
	if len(r.nodes) == 0 {
		return [][]int{nil}
	}
	var fit []node
	for _, n := range r.nodes {
		if needs[compute.VCPU] <= n.free[compute.VCPU] && needs[compute.MemoryMB] <= n.free[compute.MemoryMB] {
			fit = append(fit, n)
		}
	}
	slices.SortStableFunc(fit, func(a, b node) int {
		return cmp.Or(
			first(slices.Contains(prefer.Nodes, a.id), slices.Contains(prefer.Nodes, b.id)),
			cmp.Compare(r.near(needs, b.id), r.near(needs, a.id)),
			cmp.Compare(a.free[compute.MemoryMB], b.free[compute.MemoryMB]),
			cmp.Compare(a.free[compute.VCPU], b.free[compute.VCPU]),
		)
	})
	for _, n := range fit {
		out = append(out, []int{n.id})
	}
	return out
}

// near is how many of the devices that are needed a node has.
func (r Room) near(needs compute.Resources, id int) (n int64) {
	has := compute.Resources{}
	for _, d := range r.devices {
		if !d.gone && d.node == id {
			has[d.class]++
		}
	}
	for class, wants := range needs {
		n += min(wants, has[class])
	}
	return n
}

// pick finds the devices for a machine on these nodes: those preferred, the nearest,
// and of physical and virtual functions those that cost others least.
func (r Room) pick(needs compute.Resources, on []int, prefer []compute.PCIAddress) ([]compute.PCIAddress, bool) {
	left := Room{free: r.free.Clone(), devices: slices.Clone(r.devices)}
	var out []compute.PCIAddress
	for _, class := range r.classes() {
		for range needs[class] {
			best := -1
			for i, d := range left.devices {
				if d.class == class && !d.gone && (best < 0 || left.better(d, left.devices[best], on, prefer)) {
					best = i
				}
			}
			if best < 0 {
				return nil, false
			}
			out = append(out, left.devices[best].at)
			left.lose(left.devices[best].at)
		}
	}
	slices.Sort(out)
	return out, true
}

// classes are those that devices count as.
func (r Room) classes() (out []compute.ResourceClass) {
	for _, d := range r.devices {
		if !slices.Contains(out, d.class) {
			out = append(out, d.class)
		}
	}
	return out
}

func (r Room) better(a, b device, on []int, prefer []compute.PCIAddress) bool {
	return cmp.Or(
		first(slices.Contains(prefer, a.at), slices.Contains(prefer, b.at)),
		first(slices.Contains(on, a.node), slices.Contains(on, b.node)),
		cmp.Compare(r.hides(a), r.hides(b)),
		cmp.Compare(a.at, b.at),
	) < 0
}

// hides is how many other devices nobody could have if this one were taken.
func (r Room) hides(a device) (n int) {
	for _, d := range r.devices {
		if !d.gone && (d.parent == a.at || d.at == a.parent) {
			n++
		}
	}
	return n
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
