// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Share is what an operator says of a host's inventory.
type Share struct {
	Dir      string            // where the machines' disks are
	MinFree  int64             // bytes that stay free there, or nothing is prepared
	Totals   compute.Resources // replace, class by class, what is found
	Reserved compute.Resources // for the host itself
	Traits   []compute.Trait   // besides those found
	Accel    string            // "kvm" or "tcg"
}

// Disk is a machine's own.
type Disk struct {
	File string
	GB   int64 // what the machine holds of DISK_GB; 0: its flavor has none
}

// Inventory is what a host with these processors and so much memory has, with
// the disks of its machines and everybody else's machines.
func (h Host) Inventory(
	s Share,
	cpus, memoryMB int64,
	disks []Disk,
	foreign []compute.Foreign,
) (hypervisor.Inventory, error) {
	var inv hypervisor.Inventory
	gb, err := h.diskGB(s, disks)
	if err != nil {
		return inv, err
	}
	inv.Totals = compute.Resources{compute.VCPU: cpus, compute.MemoryMB: memoryMB, compute.DiskGB: gb}
	for class, n := range s.Totals {
		inv.Totals[class] = n
	}
	inv.Reserved = s.Reserved.Clone()
	inv.Traits = slices.Concat(s.Traits, h.Traits(s.Accel))
	slices.Sort(inv.Traits)
	inv.Traits = slices.Compact(inv.Traits)
	inv.Nodes, inv.Devices = h.Nodes(), h.PCI()
	inv.Unmanaged, inv.Foreign = compute.Resources{}, foreign
	for _, f := range foreign {
		inv.Unmanaged = inv.Unmanaged.Plus(f.Uses)
		for i, d := range inv.Devices {
			inv.Devices[i].InUse = d.InUse || slices.Contains(f.Devices, d.Address)
		}
	}
	return inv, nil
}

// diskGB is what is free and what our machines take, of each at most what it holds: others' files on the same file
// system are not ours to give away, nor is the disk of a machine without DISK_GB, which no sum counts.
func (h Host) diskGB(s Share, disks []Disk) (int64, error) {
	free, _, err := h.Room(s.Dir)
	if err != nil {
		return 0, err
	}
	for _, d := range disks {
		if info, err := os.Stat(d.File); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				free += min(s.Blocks*512, min(d.GB, endless>>30)<<30)
			}
		}
	}
	return max(free-s.MinFree, 0) >> 30, nil
}

// Enough refuses before anything is made what the host has no room for, or not the
// devices. The offer sees to sums; this is for a host that is not what it was.
func (h Host) Enough(s Share, wants compute.Resources, p compute.Place) error {
	if err := h.Free(p); err != nil {
		return err
	}
	free, _, err := h.Room(s.Dir)
	if err != nil {
		return err
	}
	if free < s.MinFree {
		return hypervisor.Refuse(
			"the disk of %s is full: %d MiB are free, %d have to stay: make room, or set the host's DISK_GB lower",
			filepath.Clean(s.Dir), free>>20, s.MinFree>>20,
		)
	}
	if has := h.MemoryMB(); has > 0 && wants[compute.MemoryMB] > has {
		return hypervisor.Refuse("MEMORY_MB %d: this host has %d in all", wants[compute.MemoryMB], has)
	}
	return nil
}

// Spare refuses a copy of an image that would take so many bytes of the disk that less than the operator wants stays
// free. That is the image's fault on this host, which starts machines of those that it has copies of.
func (h Host) Spare(s Share, bytes int64) error {
	free, _, err := h.Room(s.Dir)
	if err == nil && free-bytes < s.MinFree {
		err = hypervisor.RefuseImage("the disk of %s is full: %d MiB are free, a copy of the image takes %d, and %d have to "+
			"stay: make room, or set the host's DISK_GB lower", filepath.Clean(s.Dir), free>>20, bytes>>20, s.MinFree>>20)
	}
	return err
}
