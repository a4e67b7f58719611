// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// startsQuerier asks for the start offsets of queues, on a goroutine of its own, each
// queue at most once in a while however many partitions want to know.
type startsQuerier struct {
	every, timeout time.Duration
	starts         QueueStarts
	answer         func(map[compute.QueueName]int64)
	log            *zap.Logger

	mu     sync.Mutex
	wanted map[compute.QueueName]compute.Queue
	wake   chan struct{} // holds one: something is wanted
	ready  chan struct{} // closed
}

func newStartsQuerier(cfg Config, starts QueueStarts, answer func(map[compute.QueueName]int64)) *startsQuerier {
	a := &startsQuerier{
		every: cfg.Times.AskEvery, timeout: cfg.StartsTimeout, starts: starts, answer: answer, log: cfg.Log,
		wanted: map[compute.QueueName]compute.Queue{}, wake: make(chan struct{}, 1), ready: make(chan struct{}),
	}
	close(a.ready)
	return a
}

// want remembers that somebody wants to know. It does not block.
func (a *startsQuerier) want(q compute.Queue) {
	a.mu.Lock()
	a.wanted[q.Name] = q
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *startsQuerier) run(ctx context.Context) error {
	asked := map[compute.QueueName]time.Time{}
	for {
		due, wait := a.due(asked)
		if len(due) > 0 {
			a.ask(ctx, due)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		case <-wait:
		}
	}
}

// due takes out what may be asked now and notes that it is; wait ends when the
// first of the others may be.
func (a *startsQuerier) due(asked map[compute.QueueName]time.Time) (due []compute.Queue, wait <-chan time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, next := time.Now(), time.Duration(-1)
	for name, q := range a.wanted {
		if left := asked[name].Add(a.every).Sub(now); left > 0 {
			if next < 0 || left < next {
				next = left
			}
			continue
		}
		due, asked[name] = append(due, q), now
		delete(a.wanted, name)
	}
	slices.SortFunc(due, func(a, b compute.Queue) int { return cmp.Compare(a.Name, b.Name) })
	if next >= 0 {
		wait = time.After(next)
	}
	return due, wait
}

// ask passes on what it learns. What it does not learn is wanted again by the
// partition's own timer.
func (a *startsQuerier) ask(ctx context.Context, queues []compute.Queue) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	starts, err := a.starts.Starts(ctx, queues)
	if err != nil && ctx.Err() == nil {
		a.log.Warn("start offsets could not be asked", zap.Int("queues", len(queues)), zap.Error(err))
	}
	if len(starts) > 0 {
		a.answer(starts)
	}
}
