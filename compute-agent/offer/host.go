package offer

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Terms are how an operator wants a host to be offered.
type Terms struct {
	OverCommit Ratios       // nil: as it is
	Devices    []DeviceRule // which of its devices are for machines, and as what; the first that matches counts
	OneNode    bool         // each machine stays on one of its NUMA nodes
}

// Check refuses what can never be right.
func (t Terms) Check() error {
	if err := t.OverCommit.Check(); err != nil {
		return err
	}
	for _, d := range t.Devices {
		if err := d.Check(); err != nil {
			return err
		}
		if _, twice := t.OverCommit[d.Class]; twice {
			return compute.Invalid("over_commit", string(d.Class), "a device is there or not: take it out")
		}
	}
	return nil
}

// Host is a host as it is offered.
type Host struct {
	Inventory compute.Inventory
	empty     Room
}

// Offer is a host on these terms: what its driver says it has, the classes that its
// devices count as beside it.
func (t Terms) Offer(inv compute.Inventory, nodes []compute.NUMANode, devices []compute.PCIDevice) Host {
	h := Host{Inventory: t.OverCommit.Of(inv)}
	h.empty.devices = count(devices, t.Devices)
	totals := h.Inventory.Totals.Clone()
	for _, d := range t.Devices {
		totals[d.Class] = 0
	}
	for _, d := range h.empty.devices {
		totals[d.class]++
	}
	h.Inventory.Totals = totals
	h.empty.free = totals.Minus(h.Inventory.Reserved)
	h.empty.largest = t.OverCommit.largest(inv)
	if t.OneNode && len(nodes) > 1 {
		h.empty.nodes = split(nodes, totals, h.Inventory.Reserved)
	}
	h.Inventory.Largest = h.empty.Largest()
	h.empty = h.empty.Hold(inv.Unmanaged, compute.Place{})
	return h
}

// split gives each node its part of what is offered.
func split(nodes []compute.NUMANode, totals, reserved compute.Resources) (out []node) {
	var cpus, memory float64
	for _, n := range nodes {
		cpus, memory = cpus+float64(len(n.CPUs)), memory+float64(n.MemoryMB)
	}
	for _, n := range nodes {
		shares := map[compute.ResourceClass]float64{
			compute.VCPU: float64(len(n.CPUs)) / max(1, cpus), compute.MemoryMB: float64(n.MemoryMB) / max(1, memory),
		}
		free := compute.Resources{}
		for class, share := range shares {
			free[class] = int64(math.Floor(float64(totals[class]) * share))
		}
		out = append(out, node{id: n.ID, free: free, shares: shares})
	}
	return hold(out, reserved, nil)
}

// Held is what a machine has of its host.
type Held struct {
	compute.Resources
	compute.Place
}

// Room is what is left beside all that is held, by machines (running or not) and by
// work that was taken.
func (h Host) Room(held ...Held) Room {
	r := h.empty
	for _, m := range held {
		r = r.Hold(m.Resources, m.Place)
	}
	return r
}

// count finds the devices that are for machines. One that the host uses itself, or
// that is not with vfio-pci, is for nobody; and neither are the parts of a device
// that is used as a whole, nor the whole of one of which a part is used.
func count(devices []compute.PCIDevice, rules []DeviceRule) (out []device) {
	whole, split := map[compute.PCIAddress]bool{}, map[compute.PCIAddress]bool{}
	for _, d := range devices {
		split[d.Parent] = split[d.Parent] || d.InUse
		whole[d.Address] = d.InUse && d.Ready() // the host's own driver must have a card for it to have parts
	}
	for _, d := range devices {
		i := slices.IndexFunc(rules, func(r DeviceRule) bool { return r.matches(d) })
		if i < 0 || d.InUse || !d.Ready() || split[d.Address] || whole[d.Parent] {
			continue
		}
		out = append(out, device{class: rules[i].Class, at: d.Address, parent: d.Parent, node: d.Node})
	}
	slices.SortFunc(out, func(a, b device) int { return cmp.Compare(a.at, b.at) })
	return out
}
