// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Host is one fake host: its inventory and the machines on it. It stays when
// its agent dies.
type Host struct {
	id    compute.HostID
	world *World

	mu        sync.Mutex
	inventory compute.Inventory
	nodes     []compute.NUMANode
	devices   []compute.PCIDevice
	machines  machines
	foreign   []compute.Foreign
	listeners map[*func(hypervisor.Event)]bool
	worst     compute.Resources // the most that machines held at once
}

// ID is the host's name.
func (h *Host) ID() compute.HostID { return h.id }

func (h *Host) setInventory(inv compute.Inventory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inventory = inv
}

// SetHardware says which NUMA nodes and PCI devices are here.
func (h *Host) SetHardware(nodes []compute.NUMANode, devices []compute.PCIDevice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes, h.devices = nodes, devices
}

// had says whether another machine has one of these devices. Called with mu held.
func (h *Host) had(id compute.InstanceID, devices []compute.PCIAddress) error {
	for _, m := range h.machines {
		for _, at := range m.Devices {
			if m.Instance != id && slices.Contains(devices, at) {
				return hypervisor.Refuse("PCI device %s is in use by %s", at, m.Instance)
			}
		}
	}
	return nil
}

// SetUnmanaged says what machines that Berth did not start use here.
func (h *Host) SetUnmanaged(r compute.Resources) {
	if r.IsZero() {
		h.SetForeign()
		return
	}
	h.SetForeign(compute.Foreign{Name: "foreign", Uses: r.Clone()})
}

// SetForeign says which machines that Berth did not start are here.
func (h *Host) SetForeign(list ...compute.Foreign) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.foreign = list
}

// Kill ends one running machine as if somebody had done it behind Berth's back.
func (h *Host) Kill(id compute.InstanceID) error {
	return h.befalls(id, Stopped, compute.PowerStopped, compute.MachineKilled, "killed from outside")
}

// Pause holds up a running machine, as a hypervisor does when its disk is full.
func (h *Host) Pause(id compute.InstanceID) error {
	return h.befalls(id, Paused, compute.PowerPaused, compute.DiskError, "the host's disk is full")
}

// PowerOff lets a running guest shut itself down.
func (h *Host) PowerOff(id compute.InstanceID) error {
	return h.befalls(id, Stopped, compute.PowerStopped, compute.GuestShutdown, "the guest shut itself down")
}

// befalls has a running machine stand still for a reason that is not Berth's.
func (h *Host) befalls(
	id compute.InstanceID, what EventKind, power compute.PowerState, why compute.ReasonCode, detail string,
) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok := h.machines[id]
	if !ok || m.Power != compute.PowerRunning {
		return fmt.Errorf("%s does not run", id)
	}
	m.Power, m.Why, m.Detail = power, why, detail
	return h.put(m, what)
}

// Crash is a power cut: what ran is stopped, what was only prepared is there.
func (h *Host) Crash() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, m := range h.machines {
		if m.Power != compute.PowerRunning && m.Power != compute.PowerPaused || m.Placeholder {
			continue
		}
		m.Power, m.Why, m.Detail = compute.PowerStopped, compute.HostRestarted, "the host lost power"
		if err := h.put(m, Stopped); err != nil {
			return err
		}
		h.machines[id] = m
	}
	return nil
}

// Machines lists what is on the host, by instance.
func (h *Host) Machines() []hypervisor.Machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []hypervisor.Machine
	for _, id := range slices.Sorted(maps.Keys(h.machines)) {
		out = append(out, h.machines[id].Machine)
	}
	return out
}

// Worst is the most that launched and prepared machines ever held at once,
// class by class (I4).
func (h *Host) Worst() compute.Resources {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.worst.Clone()
}

// put keeps a machine and writes down what happened to it. Called with mu held.
// The machine is kept first: a machine without its event would be a launch that
// nobody saw, so both are done before the caller hears of it.
func (h *Host) put(m machine, what EventKind) error {
	h.machines[m.Instance] = m
	h.worst = h.worst.Max(h.machines.held())
	if err := h.world.store.save(h.id, h.machines); err != nil {
		return err
	}
	if what == "" {
		return nil
	}
	for tell := range h.listeners {
		(*tell)(hypervisor.Event{Instance: m.Instance, Power: m.Power, Detail: m.Detail})
	}
	return h.world.record(Event{Kind: what, Host: h.id, Instance: m.Instance, Attempt: m.Attempt})
}

// Held is what machines hold.
func (h *Host) Held() compute.Resources {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machines.held()
}

// held is what machines hold together. A placeholder whose room another machine has holds nothing beside that.
func (ms machines) held() compute.Resources {
	taken := map[compute.InPlaceholder]bool{}
	for _, m := range ms {
		taken[m.In] = true
	}
	held := compute.Resources{}
	for id, m := range ms {
		if !m.Placeholder || !taken[compute.InPlaceholder{ID: id, Attempt: m.Attempt}] {
			held.Add(m.Resources)
		}
	}
	return held
}

// remove takes a machine away. Called with mu held.
func (h *Host) remove(m machine) error {
	delete(h.machines, m.Instance)
	if err := h.world.store.save(h.id, h.machines); err != nil {
		return err
	}
	what := Undone
	if m.Launched {
		what = Destroyed
	}
	return h.world.record(Event{Kind: what, Host: h.id, Instance: m.Instance, Attempt: m.Attempt})
}
