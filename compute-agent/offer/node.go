// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// node is what a NUMA node has left.
type node struct {
	id      int
	free    compute.Resources // of onNodes
	largest compute.Resources // of those, where they are promised more than once: what there is once
	shares  map[compute.ResourceClass]float64
}

// onNodes are the classes that NUMA nodes have.
func onNodes() []compute.ResourceClass {
	return []compute.ResourceClass{compute.VCPU, compute.MemoryMB}
}

// split gives each node its part of what is offered. once is how much there is of
// what is promised more than once.
func split(nodes []compute.NUMANode, totals, reserved, once compute.Resources) []node {
	var cpus, memory float64
	for _, n := range nodes {
		cpus, memory = cpus+float64(len(n.CPUs)), memory+float64(n.MemoryMB)
	}
	var out []node
	for _, n := range nodes {
		part := node{
			id:      n.ID,
			free:    compute.Resources{},
			largest: compute.Resources{},
			shares: map[compute.ResourceClass]float64{
				compute.VCPU:     float64(len(n.CPUs)) / max(1, cpus),
				compute.MemoryMB: float64(n.MemoryMB) / max(1, memory),
			},
		}
		for class, share := range part.shares {
			part.free[class] = int64(math.Floor(float64(totals[class]) * share))
			if n, twice := once[class]; twice {
				part.largest[class] = int64(math.Floor(float64(n) * share))
			}
		}
		out = append(out, part)
	}
	return hold(out, reserved, nil)
}

// room is how much of a class one machine may have on it.
func (n node) room(class compute.ResourceClass) int64 {
	if once, twice := n.largest[class]; twice {
		return min(once, n.free[class])
	}
	return n.free[class]
}

// most is the most of a class that one machine may have on any node.
func most(nodes []node, class compute.ResourceClass) (n int64) {
	for _, on := range nodes {
		n = max(n, on.room(class))
	}
	return n
}

func fitting(nodes []node, needs compute.Resources) (fit []node) {
	for _, n := range nodes {
		if needs[compute.VCPU] <= n.room(compute.VCPU) && needs[compute.MemoryMB] <= n.room(compute.MemoryMB) {
			fit = append(fit, n)
		}
	}
	return fit
}

// hold takes a machine's processors and memory from the nodes it is on. What is
// bound to none, or to nodes that are gone, is counted on each by its size.
func hold(nodes []node, amounts compute.Resources, on []int) []node {
	bound := slices.ContainsFunc(nodes, func(n node) bool { return slices.Contains(on, n.id) })
	out := slices.Clone(nodes)
	for i, n := range out {
		part := compute.Resources{}
		for _, class := range onNodes() {
			switch {
			case !bound:
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
	fit := fitting(r.nodes, needs)
	near := map[int]int64{}
	for _, n := range fit {
		near[n.id] = r.devices.near(needs, n.id)
	}
	slices.SortStableFunc(fit, func(a, b node) int {
		return cmp.Or(
			sorted.TrueFirst(slices.Contains(prefer.Nodes, a.id), slices.Contains(prefer.Nodes, b.id)),
			cmp.Compare(near[b.id], near[a.id]), cmp.Compare(a.free[compute.MemoryMB], b.free[compute.MemoryMB]),
			cmp.Compare(a.free[compute.VCPU], b.free[compute.VCPU]),
		)
	})
	for _, n := range fit {
		out = append(out, []int{n.id})
	}
	return out
}
