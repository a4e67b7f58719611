// SPDX-License-Identifier: Apache-2.0

// Package placeholder keeps machines that are none: placeholders of reservations, which hold room on a host. Each is a
// small file in a folder of the host, so that a placeholder outlives the agent and the host's reboot as a machine does.
// All that is about a machine is the driver's below.
package placeholder

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Driver is a driver that keeps placeholders beside the machines of another one.
type Driver struct {
	hypervisor.Driver
	notes *notes
}

// Over keeps placeholders in a folder, which it makes, and leaves the rest to d. It warns of what is damaged there.
func Over(d hypervisor.Driver, folder string, log *zap.Logger) (*Driver, error) {
	n, err := openNotes(folder, log)
	if err != nil {
		return nil, err
	}
	return &Driver{Driver: d, notes: n}, nil
}

// Unwrap is the driver below.
func (d *Driver) Unwrap() hypervisor.Driver { return d.Driver }

// Capabilities are those of the driver below.
func (d *Driver) Capabilities() hypervisor.Capabilities {
	c := d.Driver.Capabilities()
	c.Placeholders = true
	return c
}

// Prepare writes a placeholder down.
func (d *Driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	if !s.Placeholder {
		return d.Driver.Prepare(ctx, s)
	}
	if err := s.Instance.Check(); err != nil {
		return hypervisor.Reject("%v", err)
	}
	if ctx.Err() != nil { // a note is written at once, or not begun
		return ctx.Err()
	}
	was, there, err := d.notes.read(s.Instance)
	switch {
	case err != nil:
		return err
	case there && was.Launched:
		return hypervisor.Refuse("placeholder %s is held here already, of attempt %d", s.Instance, was.Attempt)
	case there && was.Attempt == s.Attempt && was.Claim == s.Claim:
		return nil
	}
	return d.notes.write(s.Machine())
}

// Launch writes down that a placeholder is held.
func (d *Driver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	m, there, err := d.notes.read(id)
	switch {
	case err != nil:
		return err
	case !there:
		return d.Driver.Launch(ctx, id, a, c)
	case ctx.Err() != nil:
		return ctx.Err()
	case m.Attempt != a || m.Claim != c:
		return hypervisor.Refuse("placeholder %s was prepared for attempt %d, claim %s, and not for attempt %d, claim %s",
			id, m.Attempt, m.Claim, a, c)
	case m.Launched:
		return nil
	}
	m.Launched = true
	return d.notes.write(m)
}

// Destroy removes a placeholder, or the machine.
func (d *Driver) Destroy(ctx context.Context, id compute.InstanceID) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	removed, err := d.notes.remove(id)
	if removed || err != nil {
		return err
	}
	return d.Driver.Destroy(ctx, id)
}

// List has placeholders beside the machines.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Machine, error) {
	list, err := d.Driver.List(ctx)
	if err != nil {
		return nil, err
	}
	held, err := d.notes.list()
	if err != nil {
		return nil, err
	}
	list = append(list, held...)
	slices.SortFunc(list, func(a, b hypervisor.Machine) int { return cmp.Compare(a.Instance, b.Instance) })
	return list, nil
}

// Stop refuses to stop a placeholder.
func (d *Driver) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	if err := d.refuse(id); err != nil {
		return err
	}
	return d.Driver.Stop(ctx, id, grace)
}

// Start refuses to start a placeholder.
func (d *Driver) Start(ctx context.Context, id compute.InstanceID) error {
	if err := d.refuse(id); err != nil {
		return err
	}
	return d.Driver.Start(ctx, id)
}

// Reboot refuses to reboot a placeholder.
func (d *Driver) Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	if err := d.refuse(id); err != nil {
		return err
	}
	return d.Driver.Reboot(ctx, id, grace)
}

// refuse is why there is nothing to command.
func (d *Driver) refuse(id compute.InstanceID) error {
	_, there, err := d.notes.read(id)
	if err == nil && there {
		err = hypervisor.Refuse("%s is a placeholder, and has no machine: boot one into its reservation", id)
	}
	return err
}
