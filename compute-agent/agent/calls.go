// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sealed"
)

// work is one call of the hypervisor, made of what was known when it was decided: it is made by a
// worker, and knows nothing of the loop.
type work func(context.Context) (task.Event, error)

func prepare(d hypervisor.Driver, keys *sealed.Keys, t task.Task, b compute.Build) work {
	spec := hypervisor.Spec{
		Instance: t.Instance, Project: t.Project, Attempt: t.Attempt, Claim: t.Claim, Fence: t.Fence, Name: t.Name,
		Resources: t.Resources, Place: t.Place, Image: b.Image, Metadata: b.Metadata, UserData: b.UserData,
		SSHKeys: b.SSHKeys, Placeholder: t.Placeholder, In: t.In,
	}
	return func(ctx context.Context) (task.Event, error) {
		if b.Sealed != "" {
			data, err := keys.Open(sealed.Owner{Project: b.Project, Instance: b.Instance}, b.Sealed)
			if err != nil {
				return nil, closed(err)
			}
			spec.UserData = data
		}
		return task.Prepared{}, d.Prepare(ctx, spec)
	}
}

// closed is the failure of user data that cannot be opened.
func closed(err error) error {
	if compute.KindOf(err) != compute.KindUnavailable {
		return &hypervisor.Error{Class: compute.FailureRequest, Message: err.Error()} // on no host it opens
	}
	return keyless{&hypervisor.Error{Class: compute.FailureHost, Message: err.Error()}} // others may have the key
}

// keyless is a failure for want of a key, which says nothing of how machines start here.
type keyless struct{ error }

func (k keyless) Unwrap() error { return k.error }

func launch(d hypervisor.Driver, t task.Task) work {
	return func(ctx context.Context) (task.Event, error) {
		return task.Launched{}, d.Launch(ctx, t.Instance, t.Attempt, t.Claim)
	}
}

func destroy(d hypervisor.Driver, id compute.InstanceID) work {
	return func(ctx context.Context) (task.Event, error) { return task.Destroyed{}, d.Destroy(ctx, id) }
}

// power carries out a command; grace is what a guest gets to stop softly.
func power(d hypervisor.Driver, id compute.InstanceID, c compute.PowerCommand, grace time.Duration) work {
	if c.Hard {
		grace = 0
	}
	return func(ctx context.Context) (task.Event, error) {
		switch c.Op {
		case compute.OpStop:
			if err := d.Stop(ctx, id, grace); err != nil {
				return nil, err
			}
			return task.PowerDone{Power: compute.PowerStopped, Stopped: whyStopped(ctx, d, id)}, nil
		case compute.OpStart:
			return task.PowerDone{Power: compute.PowerRunning}, d.Start(ctx, id)
		}
		return task.PowerDone{Power: compute.PowerRunning}, d.Reboot(ctx, id, grace)
	}
}

// whyStopped asks how a machine that was told to stop has ended: it may have
// been cut off, or have stopped before.
func whyStopped(ctx context.Context, d hypervisor.Driver, id compute.InstanceID) task.Stopped {
	list, err := d.List(ctx)
	for _, m := range list {
		if err == nil && m.Instance == id && m.Power == compute.PowerStopped {
			return stopped(m)
		}
	}
	return task.Stopped{Why: compute.StoppedUnknown}
}

// failed is the event that tells a task that a call failed.
func failed(s task.Stage, f task.Failure) task.Event {
	switch s {
	case task.Preparing:
		return task.PrepareFailed{Failure: f}
	case task.Launching:
		return task.LaunchFailed{Failure: f}
	case task.Running:
		return task.PowerDone{Failed: &f}
	}
	return task.DestroyFailed{}
}

// classify says what kind of failure an error of the hypervisor is.
func classify(err error) task.Failure {
	var e *hypervisor.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return task.Failure{Class: compute.FailureTimeout,
			Message: hypervisor.Brief("the hypervisor took too long: " + err.Error())}
	case errors.As(err, &e):
		return task.Failure{Class: e.Class, Message: hypervisor.Brief(e.Error())}
	}
	return task.Failure{Message: hypervisor.Brief(err.Error())}
}
