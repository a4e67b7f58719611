// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/network"
)

// driver is the hypervisor as one life of an agent reaches it: not at all once
// the agent has ended. It has no Unwrap: a method that is not wrapped below would
// reach the machines of an agent that is dead.
type driver struct {
	hypervisor.Driver
	host    compute.HostID // the machines' own
	called  compute.HostID // as its agent calls it
	refused bool           // its agent must not start: the machines are another's
	link    *network.Link
	rec     *judge.Recording
}

// do is every call.
func (d *driver) do(ctx context.Context, method string, call func(context.Context) error) error {
	if d.refused {
		d.rec.AddViolation("home", "", "%s has begun on the machines of %s, and calls %s", d.called, d.host, method)
	}
	if err := d.link.Pass(); err != nil {
		return err
	}
	d.link.At("before:"+method, nil)
	if err := d.link.Pass(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.link.Life, cancel)()
	err := call(ctx)
	if err == nil {
		d.link.At("after:"+method, nil)
	}
	if gone := d.link.Pass(); gone != nil {
		return gone
	}
	return err
}

func (d *driver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	defer d.rec.AddWork(d.host, s.Instance, "Prepare")()
	err := d.do(ctx, "Prepare", func(ctx context.Context) error {
		d.rec.AddGiven(d.called, s)
		if err := d.image(s); err != nil {
			return err
		}
		return d.Driver.Prepare(ctx, s)
	})
	d.rec.AddFailedCall(d.host, s.Instance, s.Attempt, "Prepare", err)
	return err
}

func (d *driver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	defer d.rec.AddWork(d.host, id, "Launch")()
	err := d.do(ctx, "Launch", func(ctx context.Context) error {
		began := time.Now()
		err := d.Driver.Launch(ctx, id, a, c)
		d.rec.AddLaunch(judge.Launch{At: began, Host: d.called, Instance: id, Attempt: a, Claim: c})
		return err
	})
	d.rec.AddFailedCall(d.host, id, a, "Launch", err)
	return err
}

func (d *driver) Destroy(ctx context.Context, id compute.InstanceID) error {
	defer d.rec.AddWork(d.host, id, "Destroy")()
	return d.do(ctx, "Destroy", func(ctx context.Context) error { return d.Driver.Destroy(ctx, id) })
}

func (d *driver) List(ctx context.Context) (list []hypervisor.Machine, err error) {
	err = d.do(ctx, "List", func(ctx context.Context) error {
		list, err = d.Driver.List(ctx)
		return err
	})
	return list, err
}

func (d *driver) Inventory(ctx context.Context) (inv hypervisor.Inventory, err error) {
	err = d.do(ctx, "Inventory", func(ctx context.Context) error {
		inv, err = d.Driver.Inventory(ctx)
		return err
	})
	return inv, err
}

func (d *driver) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	return d.do(ctx, "Stop", func(ctx context.Context) error { return d.Driver.Stop(ctx, id, grace) })
}

func (d *driver) Start(ctx context.Context, id compute.InstanceID) error {
	return d.do(ctx, "Start", func(ctx context.Context) error { return d.Driver.Start(ctx, id) })
}

func (d *driver) Reboot(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	return d.do(ctx, "Reboot", func(ctx context.Context) error { return d.Driver.Reboot(ctx, id, grace) })
}

// image is what the hypervisor says of the image that a machine is to be made of. A machine
// of a broken one cannot be prepared.
func (d *driver) image(s hypervisor.Spec) error {
	b := d.rec.Schedule.World.Broken(d.host, s.Image)
	if b == nil {
		return nil
	}
	d.rec.CountFelt(b.Kind())
	return hypervisor.RefuseImage("image file %s is broken: simulated", s.Image)
}
