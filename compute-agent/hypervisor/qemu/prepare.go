// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"slices"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// Prepare makes the folder, the disk, the seed and the process.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	var r record
	return prepare.Machine{
		Spec: s, Dir: d.dir(s.Instance), Host: d.host, Share: d.o.Share(d.accel), Images: d.images, Crash: d.crash,
		Done: func(ctx context.Context) (bool, error) { return d.prepared(ctx, s) },
		Record: func(_ context.Context, img image.Image) error {
			if !d.users.none() && !img.Public {
				return hypervisor.RefuseImage("image %q: machines run as users of their own (driver.qemu.users), who may "+
					"not read all of its files: chmod o+r them in %s, on every host", s.Image, d.o.Images)
			}
			r = record{Machine: s.Machine(), Plan: d.plan(s, img)}
			return d.born(&r)
		},
		Spawn: func(ctx context.Context) error {
			p, err := d.spawn(ctx, r.Plan)
			r.PID, r.Start = p.PID, p.Start
			return err
		},
		Finish: func(context.Context) error {
			r.Ready, r.Boot = true, d.host.BootID()
			return save(d.dir(s.Instance), r)
		},
		Destroy: func(ctx context.Context) error { return d.Destroy(ctx, s.Instance) },
	}.Run(ctx)
}

// prepared says whether there is nothing to do, and clears away what another
// attempt, or half a Prepare, has left.
func (d *Driver) prepared(ctx context.Context, s hypervisor.Spec) (bool, error) {
	r, there, err := d.load(s.Instance)
	if err != nil || !there {
		return false, err
	}
	if r.Machine.Launched {
		return false, hypervisor.Refuse(
			"attempt %d of %s was launched here: destroy it first",
			r.Machine.Attempt, s.Instance,
		)
	}
	if r.Ready && r.Machine.Attempt == s.Attempt && r.Machine.Claim == s.Claim {
		return true, nil
	}
	return false, d.Destroy(ctx, s.Instance)
}

func (d *Driver) plan(s hypervisor.Spec, img image.Image) plan {
	return plan{
		ID: s.Instance, Machine: d.o.Machine, Accel: d.accel, CPUs: s.Resources[compute.VCPU],
		MemoryMB: s.Resources[compute.MemoryMB],
		Disk:     img.HasDisk(s.Resources), Base: img.Disk, Format: img.Format, Kernel: img.Kernel, Initrd: img.Initrd,
		Append:  img.Append,
		Network: d.o.Network, Devices: slices.Clone(s.Devices), Nodes: slices.Clone(s.Nodes),
	}
}
