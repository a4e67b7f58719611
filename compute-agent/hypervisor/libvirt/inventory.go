// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"path/filepath"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// Inventory asks libvirt for processors and memory, and lists the domains that
// are none of ours and the QEMU processes that are none of libvirt's.
func (d *Driver) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	inv, err := d.inventory(ctx)
	return inv, classed(ctx, "inventory", err)
}

func (d *Driver) inventory(ctx context.Context) (hypervisor.Inventory, error) {
	if err := d.home.There(); err != nil { // the room is another file system's
		return hypervisor.Inventory{}, err
	}
	processes, err := d.host.Processes() // first: what libvirt starts later is not taken for somebody else's
	if err != nil {
		return hypervisor.Inventory{}, err
	}
	runs := map[compute.InstanceID]host.Process{}
	for _, p := range processes {
		runs[compute.InstanceID(p.Option("uuid"))] = p
	}
	var cpus, memory int64
	var disks []host.Disk
	var foreign []compute.Foreign
	known := map[string]bool{}
	err = d.short(ctx, func(c conn) error {
		_, kb, n, _, _, _, _, _, err := c.NodeGetInfo()
		if err != nil {
			return err
		}
		cpus, memory = int64(n), int64(kb/1024)
		domains, _, err := c.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		for _, dom := range domains {
			id := uuidOf(dom)
			known[string(id)] = true
			f, whose, err := d.inspect(c, dom)
			switch {
			case err != nil:
				return err
			case whose == ours:
				disks = append(disks, host.Disk{
					File: filepath.Join(d.dir(id), prepare.DiskFile), GB: f.stamp.machine().Resources[compute.DiskGB],
				})
			case whose == others:
				f, err := other(c, dom)
				if err != nil {
					return err
				}
				f.PID, f.Devices = runs[id].PID, runs[id].Devices()
				foreign = append(foreign, f)
			}
		}
		return nil
	})
	if err != nil {
		return hypervisor.Inventory{}, err
	}
	for _, p := range processes {
		if !known[p.Option("uuid")] {
			foreign = append(foreign, p.Foreign())
		}
	}
	return d.host.Inventory(d.o.Share(d.accel), cpus, memory, disks, foreign)
}

// other is somebody else's domain. One that does not run uses nothing.
func other(c conn, dom libvirt.Domain) (compute.Foreign, error) {
	f := compute.Foreign{Name: dom.Name, Uses: compute.Resources{}}
	state, most, _, cpus, _, err := c.DomainGetInfo(dom)
	if is(err, libvirt.ErrNoDomain) {
		return f, nil
	}
	if (found{state: libvirt.DomainState(state)}).active() {
		f.Uses = compute.Resources{compute.VCPU: int64(cpus), compute.MemoryMB: int64(most+1023) / 1024}
	}
	return f, err
}
