// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// pacer says when each of n boots is sent: it calls send for each, in a goroutine
// of its own, and answers when all calls have. It sends no more when ctx ends.
type pacer interface {
	run(ctx context.Context, n int, send func(i int, due time.Time)) error
}

// closed keeps so many boots in flight: the next one is due when one has settled.
// What is slow is asked for less, so a stall hides in it: it says what a given
// number of waiting callers see, not what a rate does.
type closed struct {
	ledger   *ledger
	boots    []*boot
	inFlight int
	stall    time.Duration
}

// run gives up what was not sent when nothing at all has moved for as long as
// stall: those in flight are lost, and no other takes their place.
func (c closed) run(ctx context.Context, n int, send func(i int, due time.Time)) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	timer := time.NewTimer(c.stall)
	defer timer.Stop()
	var flight []*boot
	next := 0
	for {
		news := c.ledger.wait()
		flight = c.ledger.unsettled(flight)
		for ; next < n && len(flight) < c.inFlight; next++ {
			i, due := next, time.Now()
			flight = append(flight, c.boots[i])
			calls.Go(func() { send(i, due) })
		}
		if next == n {
			return nil
		}
		timer.Reset(c.stall)
		select {
		case <-news:
		case <-timer.C:
			c.giveUp(c.boots[next:n])
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c closed) giveUp(rest []*boot) {
	for _, b := range rest {
		c.ledger.answered(
			b,
			time.Now(),
			&compute.Error{
				Kind:    compute.KindTimeout,
				Message: "was not sent: nothing had moved for " + c.stall.String(),
			},
		)
	}
}

// unsettled is those of some boots that have not settled.
func (l *ledger) unsettled(boots []*boot) []*boot {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*boot
	for _, b := range boots {
		if !b.settled() {
			out = append(out, b)
		}
	}
	return out
}
