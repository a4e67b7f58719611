package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// op is one call of the hypervisor. For an instance there is one at a time.
type op struct {
	id     compute.InstanceID
	image  string // of a preparation
	claim  compute.ClaimID
	stage  task.Stage
	within time.Duration
	do     func(context.Context) (task.Event, error)
	began  time.Time          // zero: it was never begun
	cancel context.CancelFunc // nil until it begins
}

// waits says whether a call needs a free hand. Preparations have the build slots for
// that, which were free when the work was taken; a launch is short, and would wait
// for guests that are slow to stop.
func (o *op) waits() bool { return o.stage > task.Launching }

// start begins a call, or waits for a free hand.
func (l *loop) start(
	p pending, stage task.Stage, within time.Duration, do func(context.Context) (task.Event, error),
) *op {
	o := &op{id: p.id, claim: p.claim, stage: stage, within: within, do: do}
	if !o.waits() {
		l.call(o)
		return o
	}
	l.queued = append(l.queued, o)
	l.lendHands()
	return o
}

// handsPerSlot bounds how many calls that wait for a hand there are at once.
const handsPerSlot = 4

func (l *loop) lendHands() {
	for len(l.queued) > 0 && l.hands < handsPerSlot*l.o.Slots {
		o := l.queued[0]
		l.queued = l.queued[1:]
		l.hands++
		l.call(o)
	}
}

// call makes the call, unless the task has gone on while it waited.
func (l *loop) call(o *op) {
	t, ok := l.tasks[o.id]
	if !ok || t.Claim != o.claim || t.Stage != o.stage {
		l.a.inbox.put(func(l *loop) { l.called(o, failed(o.stage, task.Failure{Message: "interrupted"}), nil) })
		return
	}
	ctx, cancel := context.WithTimeout(l.work, o.within)
	o.cancel, o.began = cancel, time.Now()
	l.ops[o.id] = o
	l.workers.Go(func() {
		defer cancel()
		event, err := o.do(ctx)
		if err != nil {
			event = failed(o.stage, classify(err))
		}
		l.a.inbox.put(func(l *loop) { l.called(o, event, err) })
	})
}

// called hears how a call ended.
func (l *loop) called(o *op, e task.Event, err error) {
	l.o.Metrics.called(o, err)
	if l.ops[o.id] == o {
		delete(l.ops, o.id)
	}
	if o.waits() {
		l.hands--
		defer l.lendHands()
	}
	t, ok := l.tasks[o.id]
	if !ok || t.Claim != o.claim {
		return
	}
	if err != nil {
		l.log.Warn("the hypervisor failed", zap.String("instance", string(o.id)),
			zap.Uint32("attempt", uint32(t.Attempt)), zap.Stringer("in", o.stage),
			zap.String("error", hypervisor.Brief(err.Error())))
	}
	l.judge(t, e, o.image, err)
	l.step(o.id, e)
}

// judge counts starts for the black hole guard. What was interrupted, and what
// is the request's own fault, says nothing about the host; nor does an image that is
// broken here, which is counted by itself.
func (l *loop) judge(t *task.Task, e task.Event, image string, err error) {
	var f task.Failure
	switch e := e.(type) {
	case task.Prepared:
		delete(l.images, image)
		return
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
	l.o.Metrics.failedAs(f.Class)
	switch {
	case hypervisor.OfImage(err):
		l.badImage(image, f.Message)
	case f.Class != compute.FailureRequest:
		l.guard = l.guard.Failed(f.Message, l.o.Timing.Quarantine, time.Now())
		l.keepHost()
	}
}
