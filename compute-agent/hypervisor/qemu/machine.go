// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Launch writes down that the machine runs from now on, and lets it go.
func (d *Driver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	return hypervisor.Classed(ctx, "launch "+string(id), d.launch(ctx, id, a, c))
}

func (d *Driver) launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r, there, err := d.load(id)
	switch {
	case err != nil:
		return err
	case !there || !r.Ready:
		return hypervisor.Refuse("%s is not prepared here", id)
	case r.Machine.Attempt != a || r.Machine.Claim != c:
		return hypervisor.Refuse(
			"%s is prepared for attempt %d claim %s, not attempt %d claim %s",
			id, r.Machine.Attempt, r.Machine.Claim, a, c,
		)
	case r.Machine.Launched:
		return d.release(ctx, r)
	}
	if err := d.ensure(ctx, &r); err != nil {
		return err
	}
	r.Machine.Launched, r.Wanted = true, compute.PowerRunning
	if err := save(d.dir(id), r); err != nil {
		return err
	}
	if err := d.crash("launched"); err != nil {
		return err
	}
	if err := d.tell(ctx, id, "cont"); err != nil {
		return err
	}
	return d.crash("let go")
}

var errSilent = errors.New("its process does not answer")

// release lets go of a process that waits, where an earlier call got no further.
// It starts none, and nothing that has run before.
func (d *Driver) release(ctx context.Context, r record) error {
	all, err := d.processes()
	if err != nil || r.Wanted != compute.PowerRunning || r.Again || len(of(all, d.dir(r.Machine.Instance))) == 0 {
		return err
	}
	switch d.status(ctx, r.Machine.Instance, commandTime) {
	case "prelaunch":
		return d.tell(ctx, r.Machine.Instance, "cont")
	case "":
		return errSilent
	}
	return nil
}

// ensure sees to it that the machine has a process, and puts it into the record
// if it is a new one.
func (d *Driver) ensure(ctx context.Context, r *record) error {
	dir := d.dir(r.Machine.Instance)
	p, err := d.spawn(ctx, r.Plan)
	if errors.Is(err, errAlive) {
		all, wrong := d.processes()
		if wrong != nil {
			return wrong
		}
		if there := of(all, dir); len(there) > 0 {
			p, err = there[0], nil
		} else if err = awaitLock(ctx, dir); err == nil { // it is about to die
			p, err = d.spawn(ctx, r.Plan)
		}
	}
	if err != nil {
		return err
	}
	if err := d.crash("started"); err != nil {
		return err
	}
	r.PID, r.Start, r.Boot = p.PID, p.Start, d.host.BootID()
	return nil
}

// Destroy ends the process as if power were cut and removes the folder.
func (d *Driver) Destroy(ctx context.Context, id compute.InstanceID) error {
	return hypervisor.Classed(ctx, "destroy "+string(id), d.destroy(ctx, id))
}

func (d *Driver) destroy(ctx context.Context, id compute.InstanceID) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := id.Check(); err != nil {
		return hypervisor.Reject("%v", err)
	}
	if err := d.home.There(); err != nil {
		return err
	}
	if err := d.kill(ctx, id); err != nil {
		return err
	}
	return d.clear(id)
}
