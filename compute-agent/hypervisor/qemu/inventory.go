// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// Inventory counts processors, memory and room for disks, and lists the QEMU
// processes that are none of ours.
func (d *Driver) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	inv, err := d.inventory(ctx)
	return inv, hypervisor.Classed(ctx, "inventory", err)
}

func (d *Driver) inventory(ctx context.Context) (hypervisor.Inventory, error) {
	if ctx.Err() != nil {
		return hypervisor.Inventory{}, ctx.Err()
	}
	disks, err := d.disks()
	if err != nil {
		return hypervisor.Inventory{}, err
	}
	all, err := d.host.Processes()
	if err != nil {
		return hypervisor.Inventory{}, err
	}
	var foreign []compute.Foreign
	for _, p := range all {
		if !d.owns(p) {
			foreign = append(foreign, p.Foreign())
		}
	}
	memory := d.host.MemoryMB()
	if limit := d.host.MemoryLimit(); limit > 0 {
		// The kernel kills machines that want more together: they are in the agent's cgroup. What others have is taken
		// off again, and is not in it.
		memory = min(memory, limit+memoryOf(foreign))
	}
	return d.host.Inventory(d.o.Share(d.accel), int64(runtime.NumCPU()), memory, disks, foreign)
}

// disks are those of our machines. One whose record cannot be read is taken to hold nothing, so that the host rather
// offers too little.
func (d *Driver) disks() ([]host.Disk, error) {
	ids, err := d.instances()
	var disks []host.Disk
	for _, id := range ids {
		r, _, _ := d.load(id)
		disks = append(disks, host.Disk{
			File: filepath.Join(d.dir(id), prepare.DiskFile), GB: r.Machine.Resources[compute.DiskGB],
		})
	}
	return disks, err
}

// memoryOf is what other machines may use, in MiB.
func memoryOf(foreign []compute.Foreign) (mb int64) {
	for _, f := range foreign {
		mb += f.Uses[compute.MemoryMB]
	}
	return mb
}
