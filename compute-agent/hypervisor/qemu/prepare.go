package qemu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/seed"
	"github.com/berth-project/berth/pkg/compute"
)

// Prepare makes the folder, the disk, the seed and the process.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	what := "prepare " + string(s.Instance)
	if ctx.Err() != nil {
		return hypervisor.Classed(ctx, what, ctx.Err())
	}
	if err := s.Check(); err != nil {
		return err
	}
	done, err := d.prepared(ctx, s)
	if err != nil || done {
		return hypervisor.Classed(ctx, what, err)
	}
	if err = d.make(ctx, s); err == nil || errors.Is(err, errCrash) {
		return err
	}
	return hypervisor.Undone(what, hypervisor.Classed(ctx, what, err), func(ctx context.Context) error { return d.Destroy(ctx, s.Instance) })
}

// prepared says whether there is nothing to do, and clears away what another
// attempt, or half a Prepare, has left.
func (d *Driver) prepared(ctx context.Context, s hypervisor.Spec) (bool, error) {
	r, there, err := d.load(s.Instance)
	if err != nil || !there {
		return false, err
	}
	if r.Machine.Launched {
		return false, hypervisor.Refuse("attempt %d of %s was launched here: destroy it first", r.Machine.Attempt, s.Instance)
	}
	if r.Ready && r.Machine.Attempt == s.Attempt && r.Machine.Claim == s.Claim {
		return true, nil
	}
	return false, d.Destroy(ctx, s.Instance)
}

// make does the work. What it leaves after an error is the caller's to undo.
func (d *Driver) make(ctx context.Context, s hypervisor.Spec) error {
	img, err := d.images.Find(ctx, s.Image)
	if err != nil {
		return err
	}
	r := record{Machine: s.Machine(), Plan: d.plan(s, img)}
	if err := d.host.Enough(d.share(), s.Resources, s.Place); err != nil {
		return err
	}
	if err := d.born(&r); err != nil {
		return err
	}
	if err := d.crash("recorded"); err != nil {
		return err
	}
	if err := d.images.Make(ctx, filepath.Join(d.dir(s.Instance), diskFile), s.Image, img, s.Resources); err != nil {
		return err
	}
	if err := seed.Write(filepath.Join(d.dir(s.Instance), seedFile), s); err != nil {
		return fmt.Errorf("cloud-init seed: %w", err)
	}
	if err := d.crash("made"); err != nil {
		return err
	}
	p, err := d.spawn(ctx, r.Plan)
	if err != nil {
		return err
	}
	if err := d.crash("spawned"); err != nil {
		return err
	}
	r.Ready, r.PID, r.Start, r.Boot = true, p.PID, p.Start, d.host.BootID()
	if err := save(d.dir(s.Instance), r); err != nil {
		return err
	}
	return d.crash("prepared")
}

func (d *Driver) plan(s hypervisor.Spec, img image.Image) plan {
	return plan{
		ID: s.Instance, Machine: d.o.Machine, Accel: d.accel, CPUs: s.Resources[compute.VCPU], MemoryMB: s.Resources[compute.MemoryMB],
		Disk: img.HasDisk(s.Resources), Base: img.Disk, Format: img.Format, Kernel: img.Kernel, Initrd: img.Initrd,
		Append:  img.Append,
		Network: d.o.Network, Devices: slices.Clone(s.Devices), Nodes: slices.Clone(s.Nodes),
	}
}
