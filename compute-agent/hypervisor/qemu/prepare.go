package qemu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Prepare makes the folder, the disk, the seed and the process.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	what := "prepare " + string(s.Instance)
	if ctx.Err() != nil {
		return classed(ctx, what, ctx.Err())
	}
	if err := checkSpec(s); err != nil {
		return err
	}
	done, err := d.prepared(ctx, s)
	if err != nil || done {
		return classed(ctx, what, err)
	}
	if err = d.make(ctx, s); err == nil || errors.Is(err, errCrash) {
		return err
	}
	err = classed(ctx, what, err)
	if left := d.undo(s.Instance); left != nil {
		return &hypervisor.Error{Class: compute.FailureHost, Message: what + " failed and something is left", Cause: errors.Join(err, left)}
	}
	return err
}

func checkSpec(s hypervisor.Spec) error {
	if err := s.Instance.Check(); err != nil {
		return reject("%v", err)
	}
	if s.Resources[compute.VCPU] < 1 || s.Resources[compute.MemoryMB] < 1 {
		return reject("resources %q: a machine needs VCPU and MEMORY_MB of at least 1: add them to its flavor", s.Resources)
	}
	for _, a := range s.Devices {
		if err := a.Check(); err != nil {
			return reject("%v", err)
		}
	}
	return nil
}

// prepared says whether there is nothing to do, and clears away what another
// attempt, or half a Prepare, has left.
func (d *Driver) prepared(ctx context.Context, s hypervisor.Spec) (bool, error) {
	r, there, err := d.load(s.Instance)
	if err != nil || !there {
		return false, err
	}
	if r.Machine.Launched {
		return false, refuse("attempt %d of %s was launched here: destroy it first", r.Machine.Attempt, s.Instance)
	}
	if r.Ready && r.Machine.Attempt == s.Attempt && r.Machine.Claim == s.Claim {
		return true, nil
	}
	return false, d.Destroy(ctx, s.Instance)
}

// undoTime is how long it may take to undo a Prepare whose own time is over.
const undoTime = 30 * time.Second

func (d *Driver) undo(id compute.InstanceID) error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	return d.Destroy(ctx, id)
}

// make does the work. What it leaves after an error is the caller's to undo.
func (d *Driver) make(ctx context.Context, s hypervisor.Spec) error {
	img, err := d.images.find(ctx, s.Image)
	if err != nil {
		return err
	}
	r := record{Machine: machineOf(s), Plan: d.plan(s, img)}
	if err := d.enough(r.Plan); err != nil {
		return err
	}
	if err := d.create(r); err != nil {
		return err
	}
	if err := d.crash("recorded"); err != nil {
		return err
	}
	if err := d.disk(ctx, s, img); err != nil {
		return err
	}
	if err := writeSeed(d.dir(s.Instance), s); err != nil {
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
	r.Ready, r.PID, r.Start, r.Boot = true, p.pid, p.start, d.bootID()
	if err := save(d.dir(s.Instance), r); err != nil {
		return err
	}
	return d.crash("prepared")
}

func machineOf(s hypervisor.Spec) hypervisor.Machine {
	return hypervisor.Machine{
		Instance: s.Instance, Project: s.Project, Attempt: s.Attempt, Claim: s.Claim, Fence: s.Fence,
		Resources: s.Resources.Clone(), Devices: slices.Clone(s.Devices),
	}
}

func (d *Driver) plan(s hypervisor.Spec, img image) plan {
	return plan{
		ID: s.Instance, Machine: d.o.Machine, Accel: d.accel, CPUs: s.Resources[compute.VCPU], MemoryMB: s.Resources[compute.MemoryMB],
		Disk: img.disk != "" || s.Resources[compute.DiskGB] > 0, Kernel: img.kernel, Initrd: img.initrd, Append: img.append,
		Network: d.o.Network, Devices: slices.Clone(s.Devices),
	}
}

// enough refuses before anything is made what the host has no room for. The
// offer sees to sums; this is for a host that is not what it was.
func (d *Driver) enough(p plan) error {
	free, _, err := d.room(d.o.Dir)
	if err != nil {
		return err
	}
	if free < d.o.MinFree {
		return refuse("the disk of %s is full: %d MiB are free, %d have to stay: make room, or set the host's DISK_GB lower", d.o.Dir, free>>20, d.o.MinFree>>20)
	}
	if has := d.memoryMB(); has > 0 && p.MemoryMB > has {
		return refuse("MEMORY_MB %d: this host has %d in all", p.MemoryMB, has)
	}
	return nil
}

// disk makes the machine's own disk on top of the image's.
func (d *Driver) disk(ctx context.Context, s hypervisor.Spec, img image) error {
	gb := s.Resources[compute.DiskGB]
	if need := (img.bytes + 1<<30 - 1) >> 30; img.disk != "" && gb > 0 && gb < need {
		return reject("DISK_GB %d: image %q needs %d: choose a larger flavor", gb, s.Image, need)
	}
	args := []string{"create", "-q", "-f", "qcow2"}
	if img.disk != "" {
		args = append(args, "-b", img.disk, "-F", img.format)
	}
	args = append(args, filepath.Join(d.dir(s.Instance), diskFile))
	switch {
	case gb > 0:
		args = append(args, fmt.Sprint(gb, "G"))
	case img.disk == "":
		return nil
	}
	return run(ctx, d.o.ImageBin, args...)
}

// run runs a program whose complaints are its error.
func run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(program), args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
