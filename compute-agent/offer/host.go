// SPDX-License-Identifier: Apache-2.0

package offer

import "github.com/berth-project/berth/pkg/compute"

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
	h.empty.devices = offered(devices, t.Devices)
	totals := h.Inventory.Totals.Plus(nil)
	for _, d := range t.Devices {
		totals[d.Class] = 0
	}
	for _, d := range h.empty.devices {
		if d.class != "" {
			totals[d.class]++
		}
	}
	h.Inventory.Totals = totals
	h.empty.free = totals.Minus(h.Inventory.Reserved)
	h.empty.largest = t.OverCommit.largest(inv)
	if t.OneNode && len(nodes) > 1 {
		h.empty.nodes = split(nodes, totals, h.Inventory.Reserved, h.empty.largest)
	}
	h.Inventory.Largest = h.empty.Largest()
	h.empty = h.empty.Hold(inv.Unmanaged, compute.Place{})
	return h
}

// Held is what a machine has of its host.
type Held struct {
	compute.Resources
	compute.Place
}

// Room is what is left beside all that is held, by machines (running or not) and by
// work that was taken.
func (h Host) Room(held ...Held) Room {
	r, somewhere := h.empty, compute.Resources{}
	for _, m := range held {
		if len(r.nodes) == 0 && (len(m.Devices) == 0 || len(r.devices) == 0) {
			somewhere.Add(m.Resources)
			continue
		}
		r = r.Hold(m.Resources, m.Place)
	}
	r.free = r.free.Minus(somewhere)
	return r
}
