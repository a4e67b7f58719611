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
	ids, err := d.instances()
	if err != nil {
		return hypervisor.Inventory{}, err
	}
	var disks []string
	for _, id := range ids {
		disks = append(disks, filepath.Join(d.dir(id), prepare.DiskFile))
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
	return d.host.Inventory(d.o.Share(d.accel), int64(runtime.NumCPU()), d.host.MemoryMB(), disks, foreign)
}

// owns says whether a process is in a folder of ours.
func (d *Driver) owns(p host.Process) bool {
	return filepath.Dir(filepath.Dir(p.Option("pidfile"))) == d.o.Dir
}
