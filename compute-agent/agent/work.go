// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
)

// call is one call of the hypervisor. For an instance there is one at a time.
type call struct {
	id     compute.InstanceID
	image  string // of a preparation
	claim  compute.ClaimID
	stage  task.Stage
	within time.Duration
	asks   bool // it waits for a guest to shut down: a stop or reboot that is not hard
	do     work
	began  time.Time          // zero: it was never begun
	stuck  bool               // it should have ended, and has not
	cancel context.CancelFunc // nil until it begins
}

// pool are the calls of which only so many are made at once.
type pool struct{ busy, most int }

// calls are what the hypervisor is doing, and what it will do when a slot for it is free.
type calls struct {
	running map[compute.InstanceID]*call
	waiting []*call     // for a slot, the first one first
	builds  pool        // a slot was free when the work was taken, but for all but one of a set that was offered whole
	workers pool        // end or change machines
	guests  pool        // are asked to shut down
	begin   func(*call) // makes a call
}

// pool is in which a call is; nil: in none. A guest may take minutes to shut down. If that held a worker, others would
// not be asked before their grace is over, and deletes would wait. A launch is short.
func (c *calls) pool(x *call) *pool {
	switch {
	case x.asks:
		return &c.guests
	case x.stage == task.Preparing:
		return &c.builds
	case x.stage > task.Launching:
		return &c.workers
	}
	return nil
}

// workersPerSlot and guestsPerSlot are how many worker slots there are for each build slot, and how many guests are
// asked to shut down at once.
const workersPerSlot, guestsPerSlot = 4, 16

func newCalls(slots int, begin func(*call)) calls {
	return calls{
		running: map[compute.InstanceID]*call{}, begin: begin,
		builds: pool{most: slots}, workers: pool{most: workersPerSlot * slots},
		guests: pool{most: guestsPerSlot * slots},
	}
}

// start begins a call, or has it wait for a slot.
func (c *calls) start(x *call) {
	if c.pool(x) == nil {
		c.begin(x)
		return
	}
	c.waiting = append(c.waiting, x)
	c.startWaiting()
}

// startWaiting begins the calls that there are slots for.
func (c *calls) startWaiting() {
	for x := c.next(); x != nil; x = c.next() {
		c.begin(x)
	}
}

// next takes the next call for which there is a slot; nil: none waits for one that is free.
func (c *calls) next() *call {
	i := slices.IndexFunc(c.waiting, func(x *call) bool { return c.pool(x).busy < c.pool(x).most })
	if i < 0 {
		return nil
	}
	x := c.waiting[i]
	c.waiting = slices.Delete(c.waiting, i, i+1)
	c.pool(x).busy++
	return x
}

// stuckAfter is how long after its time is over a call may still end: drivers take up to 50 s to undo a preparation.
const stuckAfter = 2 * time.Minute

// mustEnd is when a call counts as stuck; zero: never. Only calls that make a machine count: new work needs such.
func (x *call) mustEnd() time.Time {
	if x.stage > task.Launching {
		return time.Time{}
	}
	return x.began.Add(x.within + stuckAfter)
}

// due is when the next call is stuck; zero: none will be.
func (c *calls) due() (next time.Time) {
	for _, x := range c.running {
		if end := x.mustEnd(); !x.stuck && !end.IsZero() && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return next
}

// stuck is the call that has been stuck for longest, so that it is the same each time; nil: none is.
func (c *calls) stuck() (first *call) {
	for _, x := range c.running {
		if x.stuck && (first == nil || x.began.Before(first.began) || x.began.Equal(first.began) && x.id < first.id) {
			first = x
		}
	}
	return first
}

// ended takes note that a call is over, whether or not it was begun.
func (c *calls) ended(x *call) {
	if c.running[x.id] == x {
		delete(c.running, x.id)
	}
	if p := c.pool(x); p != nil {
		p.busy--
	}
}

// none says that nothing is done, or waits to be done.
func (c *calls) none() bool { return len(c.running)+len(c.waiting) == 0 }

// interrupt ends what is being done for an instance. What waits for a slot ends without being made, and needs none for
// that: else a delete would wait until all guests are through that were asked to shut down before.
func (c *calls) interrupt(id compute.InstanceID) {
	if x := c.running[id]; x != nil {
		x.cancel()
		return
	}
	if i := slices.IndexFunc(c.waiting, func(x *call) bool { return x.id == id }); i >= 0 {
		x := c.waiting[i]
		c.waiting = slices.Delete(c.waiting, i, i+1)
		c.pool(x).busy++ // which ended takes off again
		c.begin(x)
	}
}

// call makes the call, unless the task has gone on while it waited.
func (l *loop) call(c *call) {
	t, ok := l.tasks[c.id]
	if !ok || t.Claim != c.claim || t.Stage != c.stage {
		l.a.inbox.put(func(l *loop) { l.called(c, failed(c.stage, task.Failure{Message: "interrupted"}), nil) })
		return
	}
	ctx, cancel := context.WithTimeout(l.work, c.within)
	c.cancel, c.began = cancel, time.Now()
	l.calls.running[c.id] = c
	l.workers.Go(func() {
		defer cancel()
		event, err := c.do(ctx)
		if err != nil {
			event = failed(c.stage, classify(err))
		}
		l.a.inbox.put(func(l *loop) { l.called(c, event, err) })
	})
}

// stuck gives up what the driver does not end in its time, whatever it hangs in: what it prepares may be built
// elsewhere, and so may what waits for a slot that is not freed. The host takes no work meanwhile, which would hang as
// well.
func (l *loop) stuck(now time.Time) {
	for id, x := range l.calls.running {
		if end := x.mustEnd(); x.stuck || end.IsZero() || now.Before(end) {
			continue
		}
		x.stuck = true
		l.log.Error("the hypervisor does not end a call; the host takes no work until it does",
			zap.String("instance", string(id)), zap.Stringer("in", x.stage), zap.Duration("for", now.Sub(x.began)))
		l.step(id, task.Stuck{})
		for _, waits := range l.calls.waiting {
			if waits.stage == task.Preparing {
				l.step(waits.id, task.Stuck{})
			}
		}
	}
}

// called takes note of how a call ended.
func (l *loop) called(c *call, e task.Event, err error) {
	l.o.Metrics.called(c, err)
	l.calls.ended(c)
	if c.stuck {
		l.fetches.Changed()
	}
	defer l.calls.startWaiting()
	t, ok := l.tasks[c.id]
	if !ok || t.Claim != c.claim {
		return
	}
	l.traceCall(t, c, err)
	if err != nil {
		l.log.Warn("the hypervisor failed", zap.String("instance", string(c.id)), tracing.Field(t.Trace),
			zap.Uint32("attempt", uint32(t.Attempt)), zap.Stringer("in", c.stage),
			zap.String("error", hypervisor.Brief(err.Error())))
	}
	l.judge(t, e, c.image, err)
	l.step(c.id, e)
}

// judge counts starts for the black hole guard. What was interrupted, and what
// is the request's own fault, says nothing about the host; nor does an image that is
// broken here, which is counted by itself, nor a key that it lacks.
func (l *loop) judge(t *task.Task, e task.Event, image string, err error) {
	if t.Placeholder && err == nil {
		return // that a note can be written says nothing of machines; that it cannot says enough
	}
	var f task.Failure
	switch e := e.(type) {
	case task.Prepared:
		l.starts.prepared(image)
		return
	case task.Launched:
		if t.Stage != task.Launching {
			return
		}
		l.a.counts.launches.Add(1)
		if l.starts.launched() {
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
	case errors.As(err, new(keyless)): // which its beacon warns of
	case hypervisor.OfImage(err):
		l.starts.imageFailed(image, f.Message, time.Now())
	case f.Class != compute.FailureRequest:
		l.starts.failed(f.Message, time.Now())
		l.keepHost()
	}
}
