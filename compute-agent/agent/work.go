package agent

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// carryOut does what was decided, now that the journal has it. What a later
// event of the same turn has overtaken is not begun.
func (l *loop) carryOut(p pending) {
	switch a := p.action.(type) {
	case task.Report:
		l.tell(a.Report)
	case task.Accept:
		l.answer(p.id, wire.AckAccept)
	case task.Release:
		l.answer(p.id, wire.AckRelease)
	case task.Renew:
		l.answer(p.id, wire.AckRenew)
	case task.Interrupt:
		if op := l.ops[p.id]; op != nil && op.cancel != nil {
			op.cancel()
		}
	case task.Prepare:
		l.start(p, task.Preparing, l.o.Timing.Prepare, l.prepare(p.id))
	case task.Launch:
		l.start(p, task.Launching, l.o.Timing.Launch, l.launch(p.id))
	case task.DoPower:
		l.start(p, task.Running, l.o.Timing.Power, l.power(p.id))
	case task.Destroy:
		l.start(p, task.Ending, l.o.Timing.Destroy, l.destroy(p.id))
	}
}

// answer acknowledges a queue's record, once it has an answer that stays.
func (l *loop) answer(id compute.InstanceID, how wire.Ack) {
	ref, ok := l.refs[id]
	if !ok {
		return
	}
	if how != wire.AckRenew {
		delete(l.refs, id)
	}
	if how == wire.AckRelease {
		l.a.counts.released.Add(1)
		l.leaveAlone(ref.Queue.Name)
	}
	l.o.Puller.Ack(ref, how)
}

// op is one call of the hypervisor. For an instance there is one at a time.
type op struct {
	id     compute.InstanceID
	claim  compute.ClaimID
	stage  task.Stage
	within time.Duration
	call   func(context.Context) (task.Event, error)
	cancel context.CancelFunc // nil until it begins
}

// start begins a call, or waits for a free hand. Preparations have the build
// slots for that, which were free when the work was taken.
func (l *loop) start(p pending, stage task.Stage, within time.Duration, call func(context.Context) (task.Event, error)) {
	o := &op{id: p.id, claim: p.claim, stage: stage, within: within, call: call}
	if stage == task.Preparing {
		l.call1(o)
		return
	}
	l.queued = append(l.queued, o)
	l.lendHands()
}

// handsPerSlot bounds how many other calls than Prepare there are at once.
const handsPerSlot = 4

func (l *loop) lendHands() {
	for len(l.queued) > 0 && l.hands < handsPerSlot*l.o.Slots {
		o := l.queued[0]
		l.queued = l.queued[1:]
		l.hands++
		l.call1(o)
	}
}

// call1 makes the call, unless the task has gone on while it waited.
func (l *loop) call1(o *op) {
	t, ok := l.tasks[o.id]
	if !ok || t.Claim != o.claim || t.Stage != o.stage {
		l.a.inbox.put(func(l *loop) { l.called(o, failed(o.stage, task.Failure{Message: "interrupted"}), nil) })
		return
	}
	ctx, cancel := context.WithTimeout(l.work, o.within)
	o.cancel = cancel
	l.ops[o.id] = o
	l.workers.Go(func() {
		defer cancel()
		event, err := o.call(ctx)
		if err != nil {
			event = failed(o.stage, classify(err))
		}
		l.a.inbox.put(func(l *loop) { l.called(o, event, err) })
	})
}

// called hears how a call ended.
func (l *loop) called(o *op, e task.Event, err error) {
	if l.ops[o.id] == o {
		delete(l.ops, o.id)
	}
	if o.stage != task.Preparing {
		l.hands--
		defer l.lendHands()
	}
	t, ok := l.tasks[o.id]
	if !ok || t.Claim != o.claim {
		return
	}
	if err != nil {
		l.log.Warn("the hypervisor failed", zap.String("instance", string(o.id)), zap.Uint32("attempt", uint32(t.Attempt)), zap.Stringer("in", o.stage), zap.Error(err))
	}
	l.judge(t, e)
	l.step(o.id, e)
}

// judge counts starts for the black hole guard. What was interrupted, and what
// is the request's own fault, says nothing about the host.
func (l *loop) judge(t *task.Task, e task.Event) {
	var f task.Failure
	switch e := e.(type) {
	case task.Launched:
		if t.Stage != task.Launching {
			return
		}
		l.a.counts.launches.Add(1)
		if l.guard.Fails > 0 {
			l.guard = l.guard.Succeeded()
			l.keepHost()
		}
		return
	case task.PrepareFailed:
		if t.Stage != task.Preparing {
			return
		}
		f = e.Failure
	case task.LaunchFailed:
		if t.Stage != task.Launching {
			return
		}
		f = e.Failure
	default:
		return
	}
	l.a.counts.failed.Add(1)
	if f.Class != compute.FailureRequest {
		l.guard = l.guard.Failed(f.Message, l.o.Timing.Quarantine, time.Now())
		l.keepHost()
	}
}

func (l *loop) prepare(id compute.InstanceID) func(context.Context) (task.Event, error) {
	t, b := l.tasks[id], l.builds[id]
	if t == nil {
		return nil
	}
	spec := hypervisor.Spec{
		Instance: t.Instance, Project: t.Project, Attempt: t.Attempt, Claim: t.Claim, Name: t.Name,
		Resources: t.Resources, Image: b.Image, Metadata: b.Metadata, UserData: b.UserData,
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
			return task.PowerDone{Power: compute.PowerStopped}, l.o.Driver.Stop(ctx, id, grace)
		case compute.OpStart:
			return task.PowerDone{Power: compute.PowerRunning}, l.o.Driver.Start(ctx, id)
		}
		return task.PowerDone{Power: compute.PowerRunning}, l.o.Driver.Reboot(ctx, id, c.Hard)
	}
}

// failed is the event by which a task hears that a call failed.
func failed(s task.Stage, f task.Failure) task.Event {
	switch s {
	case task.Preparing:
		return task.PrepareFailed{Failure: f}
	case task.Launching:
		return task.LaunchFailed{Failure: f}
	case task.Running:
		return task.PowerDone{Failed: true}
	}
	return task.DestroyFailed{}
}

// classify says what kind of failure an error of the hypervisor is.
func classify(err error) task.Failure {
	var e *hypervisor.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return task.Failure{Class: compute.FailureTimeout, Message: "the hypervisor took too long: " + err.Error()}
	case errors.As(err, &e):
		return task.Failure{Class: e.Class, Message: e.Error()}
	}
	return task.Failure{Message: err.Error()}
}
