// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"sync"
	"time"
)

// schedule says when each boot is meant to be sent. It does not wait for
// anything that was sent before: that is what makes the load open, and why no
// stall can hide in what is measured from these moments.
type schedule struct {
	rate  float64 // a second
	burst int     // that are sent at once
}

// at is when boot i is due, from the first one on.
func (s schedule) at(i int) time.Duration {
	first := i - i%s.burst
	return time.Duration(float64(first) / s.rate * float64(time.Second))
}

func (s schedule) run(ctx context.Context, n int, send func(i int, due time.Time)) error {
	return paced(ctx, time.Now(), n, s.at, send)
}

// timetable has the moment of each boot, from a first moment on.
type timetable struct {
	start time.Time
	at    []time.Duration
}

func (t timetable) run(ctx context.Context, n int, send func(i int, due time.Time)) error {
	return paced(ctx, t.start, n, func(i int) time.Duration { return t.at[i] }, send)
}

// paced calls send for n boots, each in a goroutine of its own when it is due,
// and answers when all calls have. It sends no more when ctx ends.
func paced(
	ctx context.Context, start time.Time, n int, at func(i int) time.Duration, send func(i int, due time.Time),
) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for i := range n {
		due := start.Add(at(i))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		calls.Go(func() { send(i, due) })
	}
	return nil
}
