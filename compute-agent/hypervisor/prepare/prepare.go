// SPDX-License-Identifier: Apache-2.0

// Package prepare is the order in which drivers of QEMU prepare a machine, and the moments between its steps at which
// an agent may die. What it leaves after an error is undone; what an agent that died has left, the next Prepare or
// Destroy of the instance removes.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/seed"
	"github.com/berth-project/berth/pkg/compute"
)

// The files of a machine in its folder.
const (
	DiskFile = "disk.qcow2"
	SeedFile = "seed.iso"
)

// Machine is one that is to be prepared. The functions are what differs from driver to driver, in the order
// in which they are called.
type Machine struct {
	Spec   hypervisor.Spec
	Dir    string // its folder
	Host   host.Host
	Share  host.Share
	Images *image.Store
	Crash  hypervisor.CrashPoint

	// Done says whether there is nothing to do, and clears away what another attempt, or half a Prepare, has
	// left.
	Done func(context.Context) (bool, error)
	// Record writes down the machine's owner, where List and Destroy find it, before anything else of it is there.
	// The files of its image will be in Dir.
	Record func(context.Context, image.Image) error
	// Folder makes Dir; nil: Record has.
	Folder func() error
	// Spawn starts its process, which stands still. Disk and seed are there.
	Spawn func(context.Context) error
	// Finish writes down that it is prepared.
	Finish func(context.Context) error
	// Destroy removes whatever there is of it.
	Destroy func(context.Context) error
}

// Run prepares it. An error has its class, and nothing is left of the machine, or the error says so.
func (m Machine) Run(ctx context.Context) error {
	what := "prepare " + string(m.Spec.Instance)
	if ctx.Err() != nil {
		return hypervisor.Classed(ctx, what, ctx.Err())
	}
	if err := m.Spec.Check(); err != nil {
		return err
	}
	done, err := m.Done(ctx)
	if err != nil || done {
		return hypervisor.Classed(ctx, what, err)
	}
	if err = m.make(ctx); err == nil || errors.Is(err, hypervisor.ErrCrash) {
		return err
	}
	return undone(what, hypervisor.Classed(ctx, what, err), m.Destroy)
}

// make does the work. What it leaves after an error is Run's to undo.
func (m Machine) make(ctx context.Context) error {
	img, err := m.Images.Find(ctx, m.Spec.Image)
	if err != nil {
		return err
	}
	defer m.Images.LetGo(img)
	if err := holds(m.Spec.Image, img, m.Spec.Resources); err != nil {
		return err
	}
	if err := m.Host.Enough(m.Share, m.Spec.Resources, m.Spec.Place); err != nil {
		return err
	}
	for _, step := range []struct {
		do   func(context.Context) error
		then string // the moment behind it
	}{
		{func(ctx context.Context) error { return m.Record(ctx, img.In(m.Dir)) }, "recorded"},
		{func(ctx context.Context) error { return m.fill(ctx, img) }, "made"},
		{func(ctx context.Context) error { return ofKernel(m.Spec.Image, img, m.Spawn(ctx)) }, "spawned"},
		{m.Finish, "prepared"},
	} {
		if err := step.do(ctx); err != nil {
			return err
		}
		if err := m.Crash(step.then); err != nil {
			return err
		}
	}
	return nil
}

// fill links the image, and makes the disk and the seed.
func (m Machine) fill(ctx context.Context, img image.Image) error {
	if m.Folder != nil {
		if err := m.Folder(); err != nil {
			return err
		}
	}
	if err := m.Images.Link(ctx, img, m.Dir); err != nil {
		return err
	}
	disk := filepath.Join(m.Dir, DiskFile)
	if err := m.Images.Make(ctx, disk, m.Spec.Image, img.In(m.Dir), m.Spec.Resources); err != nil {
		return err
	}
	if err := seed.Write(filepath.Join(m.Dir, SeedFile), m.Spec); err != nil {
		return fmt.Errorf("cloud-init seed: %w", err)
	}
	return nil
}

// undoTime is how long it may take to undo a Prepare after its own time is over.
const undoTime = 30 * time.Second

// undone is the error of a Prepare that failed, after destroy has undone it.
func undone(what string, failed error, destroy func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	if left := destroy(ctx); left != nil {
		return &hypervisor.Error{
			Class: compute.FailureHost, Message: what + " failed and something is left",
			Cause: errors.Join(failed, left),
		}
	}
	return failed
}
