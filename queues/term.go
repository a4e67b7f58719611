// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// term is one time of being the active manager. Its fields belong to its
// reconcile loop.
type term struct {
	*Manager
	began    time.Time
	absent   map[compute.QueueName]bool     // whose topic was missing at some time in this term
	inited   map[compute.TopicID]string     // in which group this term initialised it
	failures map[compute.QueueName]failure  // of queues that failed last time
	written  map[compute.QueueName]Progress // as they were last, of truncateLoop alone
	partly   bool                           // not all instances could be read the last time
}

func newTerm(m *Manager) *term {
	return &term{
		Manager: m, began: m.now(), absent: map[compute.QueueName]bool{},
		inited: map[compute.TopicID]string{}, failures: map[compute.QueueName]failure{},
		written: map[compute.QueueName]Progress{},
	}
}

// caughtUp waits until everything there was when the term began has been read:
// what the manager before wrote included.
func (t *term) caughtUp(ctx context.Context) bool { return t.until(ctx, t.opts.View.Sync) }

// caughtUpOnLists waits as caughtUp does, but not for instances.
func (t *term) caughtUpOnLists(ctx context.Context) bool { return t.until(ctx, t.opts.View.SyncLists) }

func (t *term) until(ctx context.Context, synced func(context.Context) error) bool {
	select {
	case <-t.ready:
	case <-ctx.Done():
		return false
	}
	for wait := t.opts.Backoff; ; wait = min(2*wait, t.opts.MaxBackoff) {
		err := t.within(ctx, synced)
		if err == nil {
			return true
		}
		t.opts.Logger.Warn("cannot catch up yet", zap.Error(err))
		if !service.Sleep(ctx, service.Jitter(wait)) {
			return false
		}
	}
}

// triedToCatchUp waits as caughtUp does, but for one try only: for what does no harm where not all was read. So hosts
// are rung though a partition has no leader. Advice is no such hint: it says that hosts are rung for all work, and need
// not sample queues. Nor is that an agent is alone.
func (t *term) triedToCatchUp(ctx context.Context) bool {
	select {
	case <-t.ready:
	case <-ctx.Done():
		return false
	}
	if err := t.sync(ctx); err != nil {
		t.opts.Logger.Warn("cannot catch up; rings hosts for what it has read", zap.Error(err))
	}
	return ctx.Err() == nil
}

func (t *term) sync(ctx context.Context) error { return t.within(ctx, t.opts.View.Sync) }

// onceMore is how long a pass waits for instances of which not all could be read the last time.
const onceMore = time.Second

// syncForPass reads what a pass goes by. Where a partition of instances cannot be read, for it has no leader or this
// process is cut off from that, it goes on with partly set: queues are made for all other projects, and none is ended.
func (t *term) syncForPass(ctx context.Context) error {
	patience := t.opts.StepTimeout
	if t.partly {
		patience = min(patience, onceMore)
	}
	trying, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	unread := t.opts.View.Sync(trying)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if unread == nil {
		t.partly = false
		return nil
	}
	if err := t.within(ctx, t.opts.View.SyncLists); err != nil {
		return err
	}
	if !t.partly {
		t.opts.Logger.Warn("not all instances can be read: queues are made, and none is ended", zap.Error(unread))
	}
	t.partly = true
	return nil
}

// within bounds one request.
func (t *term) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.opts.StepTimeout)
	defer cancel()
	return f(ctx)
}

// next waits for news, which is collected a little, or for the time to be up;
// false if the term is over. A wait of 0 is no limit.
func (t *term) next(ctx context.Context, news <-chan struct{}, wait time.Duration) bool {
	came, on := await(ctx, news, wait)
	if came {
		return service.Sleep(ctx, t.opts.Debounce)
	}
	return on
}

// await waits for news, or for the time to be up; on is false if ctx has ended. A wait
// of 0 is no limit.
func await(ctx context.Context, news <-chan struct{}, wait time.Duration) (came, on bool) {
	var up <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		up = timer.C
	}
	select {
	case <-ctx.Done():
		return false, false
	case <-up:
		return false, true
	case <-news:
		return true, true
	}
}

// failure is how often a queue failed in a row, and when to try again.
type failure struct {
	times int
	again time.Time
	err   error
}

// after is the failure that follows f. What failed together is tried again together:
// one call for all, and only one manager is active.
func (f failure) after(err error, now time.Time, first, most, atLeast time.Duration) failure {
	wait := first << min(f.times, 20)
	if wait > most || wait <= 0 {
		wait = most
	}
	return failure{times: f.times + 1, again: now.Add(max(wait, atLeast)), err: err}
}
