// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// The host's NUMA nodes and PCI devices, as the kernel's files under /sys show
// them. What cannot be read is left out: not every host has them.

// text is a small file's content, empty if there is none.
func text(path ...string) string {
	b, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(b))
}

// link is the last part of where a link points to, empty if there is none.
func link(path ...string) string {
	to, err := os.Readlink(filepath.Join(path...))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// Nodes are the NUMA nodes, by number.
func (h Host) Nodes() []compute.NUMANode {
	base := filepath.Join(h.Sys, "devices/system/node")
	entries, _ := os.ReadDir(base)
	var nodes []compute.NUMANode
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), "node")
		id, err := strconv.Atoi(number)
		if !is || err != nil {
			continue
		}
		nodes = append(nodes, compute.NUMANode{
			ID: id, CPUs: numbers(text(base, e.Name(), "cpulist")),
			MemoryMB: nodeMemory(text(base, e.Name(), "meminfo")),
		})
	}
	slices.SortFunc(nodes, func(a, b compute.NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// numbers reads the kernel's lists: "0-3,8".
func numbers(list string) []int {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil || last-first > 1<<16 {
				continue
			}
		}
		for n := first; n <= last; n++ {
			out = append(out, n)
		}
	}
	return out
}

// nodeMemory reads "Node 0 MemTotal:  1024 kB".
func nodeMemory(info string) int64 {
	for line := range strings.Lines(info) {
		if f := strings.Fields(line); len(f) >= 4 && f[2] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[3], 10, 64)
			return kb / 1024
		}
	}
	return 0
}

// PCI lists the devices. One that a driver of the host holds is in use, unless
// that is vfio-pci, which holds it for machines.
func (h Host) PCI() []compute.PCIDevice {
	base := filepath.Join(h.Sys, "bus/pci/devices")
	entries, _ := os.ReadDir(base) // by address
	var devices []compute.PCIDevice
	for _, e := range entries {
		at := filepath.Join(base, e.Name())
		p := compute.PCIDevice{
			Address: compute.PCIAddress(e.Name()), Parent: compute.PCIAddress(link(at, "physfn")),
			Group: link(at, "iommu_group"), Driver: link(at, "driver"),
			Vendor: uint16(hexNumber(text(at, "vendor"))), Device: uint16(hexNumber(text(at, "device"))),
			Class: uint32(hexNumber(text(at, "class"))), Node: -1,
		}
		if p.Address.Check() != nil {
			continue
		}
		if n, err := strconv.Atoi(text(at, "numa_node")); err == nil {
			p.Node = n
		}
		p.InUse = p.Driver != "" && !p.Ready()
		devices = append(devices, p)
	}
	whole := map[compute.PCIAddress]bool{}
	for _, d := range devices {
		whole[d.Address] = d.Ready()
	}
	for i, d := range devices { // parts of a whole that vfio-pci has need a token that QEMU is not given
		devices[i].Barred = d.Parent != "" && whole[d.Parent]
	}
	return devices
}

// Free refuses a place that a machine cannot have. Whether another machine has one of
// the devices, its hypervisor finds out.
func (h Host) Free(p compute.Place) error {
	if _, err := h.CPUs(p.Nodes); err != nil || len(p.Devices) == 0 {
		return err
	}
	all := h.PCI()
	for _, at := range p.Devices {
		i := slices.IndexFunc(all, func(d compute.PCIDevice) bool { return d.Address == at })
		switch {
		case i < 0:
			return hypervisor.Refuse(
				"PCI device %s is not on this host: lspci -D shows what is; a device must be bound to vfio-pci "+
					"before the agent offers it",
				at,
			)
		case all[i].Driver == "":
			return hypervisor.Refuse("PCI device %s is with no driver: bind it to vfio-pci", at)
		case !all[i].Ready():
			return hypervisor.Refuse(
				"PCI device %s is in use by the host's driver %s: bind it to vfio-pci",
				at, all[i].Driver,
			)
		case all[i].Barred:
			return hypervisor.Refuse(
				"PCI device %s is a part of %s, which is bound to vfio-pci as a whole: give that to the host's "+
					"driver",
				at,
				all[i].Parent,
			)
		}
	}
	return nil
}

// CPUs are the processors of the NUMA nodes that a machine is bound to; none: it is
// bound to none.
func (h Host) CPUs(nodes []int) (cpus []int, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	for _, n := range h.Nodes() {
		if slices.Contains(nodes, n.ID) {
			cpus = append(cpus, n.CPUs...)
		}
	}
	if len(cpus) == 0 {
		return nil, hypervisor.Refuse("NUMA nodes %v are not on this host: lscpu shows which are", nodes)
	}
	return cpus, nil
}

func hexNumber(s string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 32)
	return n
}
