// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Room is what is left of a host: of each class, which devices, and on which NUMA
// node. Methods never change the receiver.
type Room struct {
	free    compute.Resources // of each class; devices that nobody may have now do not count
	largest compute.Resources // no machine may have more of these classes, whatever is free
	nodes   []node            // empty: machines may be anywhere
	devices devices
}

// Free is how much is left of each class. It is negative where a host has more on
// it than it should.
func (r Room) Free() compute.Resources { return r.free }

// Largest is how much of a class one machine may get, where that is less than is
// free.
func (r Room) Largest() (out compute.Resources) {
	less := func(class compute.ResourceClass, n int64) {
		if old, there := out[class]; n < r.free[class] && (!there || n < old) {
			if out == nil {
				out = compute.Resources{}
			}
			out[class] = n
		}
	}
	for class, n := range r.largest {
		less(class, n)
	}
	if len(r.nodes) > 0 {
		for _, class := range onNodes() {
			less(class, most(r.nodes, class))
		}
	}
	return out
}

// Fits says whether one machine with these needs has room.
func (r Room) Fits(needs compute.Resources) bool {
	switch {
	case !r.allows(needs):
		return false
	case r.devices.count(needs):
		_, _, ok := r.Allocate(needs, compute.Place{})
		return ok
	}
	return len(r.nodes) == 0 || len(fitting(r.nodes, needs)) > 0
}

func (r Room) allows(needs compute.Resources) bool {
	for class, most := range r.largest {
		if needs[class] > most {
			return false
		}
	}
	return needs.FitsIn(r.free)
}

// Allocate finds a place for a machine, and what is left beside it. It takes of the
// preferred place what it can: where that is free, and was taken for as much or
// more, there is always room.
func (r Room) Allocate(needs compute.Resources, prefer compute.Place) (compute.Place, Room, bool) {
	if !r.allows(needs) {
		return compute.Place{}, r, false
	}
	for _, n := range r.candidates(needs, prefer) {
		if devices, ok := r.devices.pick(needs, n, prefer.Devices); ok {
			p := compute.Place{Devices: devices, Nodes: n}
			return p, r.Hold(needs, p), true
		}
	}
	return compute.Place{}, r, false
}

// AllocateAll finds a place for each of several machines beside each other, in the order given; false: they do not
// fit all. The largest are placed first, since there are fewer places for them.
func (r Room) AllocateAll(needs []compute.Resources, prefer compute.Place) (places []compute.Place, fits bool) {
	order := make([]int, len(needs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(needs[b][compute.MemoryMB], needs[a][compute.MemoryMB]),
			cmp.Compare(needs[b][compute.VCPU], needs[a][compute.VCPU]),
		)
	})
	places = make([]compute.Place, len(needs))
	for _, i := range order {
		if places[i], r, fits = r.Allocate(needs[i], prefer); !fits {
			return nil, false
		}
	}
	return places, true
}

// Keep takes away what a machine needs before there is room for it: what is free goes to it, and of the classes of
// which too little is free less than nothing is left. On a host with NUMA nodes it is kept on the one that lacks least,
// and of devices those that there are.
func (r Room) Keep(needs compute.Resources) Room {
	if _, left, fits := r.Allocate(needs, compute.Place{}); fits {
		return left
	}
	var p compute.Place
	if on, some := r.nearest(needs); some {
		p.Nodes, needs = []int{on.id}, needs.Clone()
		for _, class := range onNodes() { // what is missing has to become free there, and is kept from no other node
			needs[class] = min(needs[class], max(0, on.free[class]))
		}
	}
	there, left := compute.Resources{}, r
	for class := range needs {
		if !r.devices.have(class) {
			continue
		}
		there[class] = min(needs[class], max(0, r.free[class]))
	}
	if picked, ok := r.devices.pick(there, p.Nodes, nil); ok && len(picked) > 0 {
		p.Devices = picked
		left.free = left.free.Clone()
		for class, n := range there { // Hold counts the devices that it knows; the others are owed
			left.free[class] -= needs[class] - n
		}
	}
	return left.Hold(needs, p)
}

// nearest is the NUMA node that lacks least of what a machine needs.
func (r Room) nearest(needs compute.Resources) (on node, some bool) {
	least := 0.0
	for _, n := range r.nodes {
		lacks := 0.0
		for _, class := range onNodes() {
			if needs[class] > 0 {
				lacks = max(lacks, float64(needs[class]-n.room(class))/float64(needs[class]))
			}
		}
		if !some || lacks < least {
			on, least, some = n, lacks, true
		}
	}
	return on, some
}

// Hold takes away what a machine has, wherever that is and whether or not it fits.
// Devices are counted where it is known which they are.
func (r Room) Hold(amounts compute.Resources, p compute.Place) Room {
	r.nodes = hold(r.nodes, amounts, p.Nodes)
	if len(p.Devices) == 0 || len(r.devices) == 0 {
		r.free = r.free.Minus(amounts)
		return r
	}
	amounts = amounts.Clone()
	for class := range amounts {
		if r.devices.have(class) {
			delete(amounts, class)
		}
	}
	r.free, r.devices = r.free.Minus(amounts), r.devices.clone()
	for _, at := range p.Devices {
		for _, class := range r.devices.lose(at) {
			r.free[class]--
		}
	}
	return r
}
