package agent

import (
	"context"
	"errors"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// The functions below make a call of the hypervisor from what is known now; it
// is made elsewhere, without looking at the loop again.

func (l *loop) prepare(id compute.InstanceID) func(context.Context) (task.Event, error) {
	t, b := l.tasks[id], l.builds[id]
	if t == nil {
		return nil
	}
	spec := hypervisor.Spec{
		Instance: t.Instance, Project: t.Project, Attempt: t.Attempt, Claim: t.Claim, Fence: t.Fence, Name: t.Name,
		Resources: t.Resources, Place: t.Place, Image: b.Image, Metadata: b.Metadata, UserData: b.UserData, SSHKeys: b.SSHKeys,
	}
	delete(l.builds, id)
	return func(ctx context.Context) (task.Event, error) {
		return task.Prepared{}, l.o.Driver.Prepare(ctx, spec)
	}
}

func (l *loop) launch(id compute.InstanceID) func(context.Context) (task.Event, error) {
	t := l.tasks[id]
	if t == nil {
		return nil
	}
	attempt, claim := t.Attempt, t.Claim
	return func(ctx context.Context) (task.Event, error) {
		return task.Launched{}, l.o.Driver.Launch(ctx, id, attempt, claim)
	}
}

func (l *loop) destroy(id compute.InstanceID) func(context.Context) (task.Event, error) {
	return func(ctx context.Context) (task.Event, error) {
		return task.Destroyed{}, l.o.Driver.Destroy(ctx, id)
	}
}

func (l *loop) power(id compute.InstanceID) func(context.Context) (task.Event, error) {
	t := l.tasks[id]
	if t == nil || t.Command == nil {
		return nil
	}
	c, grace := *t.Command, l.o.Timing.StopGrace
	if c.Hard {
		grace = 0
	}
	return func(ctx context.Context) (task.Event, error) {
		switch c.Op {
		case compute.OpStop:
			if err := l.o.Driver.Stop(ctx, id, grace); err != nil {
				return nil, err
			}
			return task.PowerDone{Power: compute.PowerStopped, Stopped: l.whyStopped(ctx, id)}, nil
		case compute.OpStart:
			return task.PowerDone{Power: compute.PowerRunning}, l.o.Driver.Start(ctx, id)
		}
		return task.PowerDone{Power: compute.PowerRunning}, l.o.Driver.Reboot(ctx, id, grace)
	}
}

// whyStopped asks how a machine that was told to stop has ended: it may have
// been cut off, or have stopped before. It is called from workers.
func (l *loop) whyStopped(ctx context.Context, id compute.InstanceID) task.Stopped {
	list, err := l.o.Driver.List(ctx)
	for _, m := range list {
		if err == nil && m.Instance == id && m.Power == compute.PowerStopped {
			return stopped(m)
		}
	}
	return task.Stopped{Why: compute.StoppedUnknown}
}

// failed is the event by which a task hears that a call failed.
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
