// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"sync"
	"time"
)

// Clock is the time of the log, as far as a process can know it: what is a deadline
// in a record is judged by it, and not by a clock that somebody may have set an hour
// fast. It compares no clocks: a record that is read now was appended before, so this
// process is ahead of the log by at most the time between the two. The least of that
// over some minutes is taken, which is as good as the fastest read was. So Clock errs
// to one side only: something is due a little late, never early.
//
// Records say when they were appended where their topic has LogAppendTime. Without any
// such record Clock is the process's own. Of brokers whose clocks differ the fastest counts.
// The zero value is ready; methods may be called from any goroutine.
type Clock struct {
	mu     sync.Mutex
	began  time.Time // all is counted from it, so that setting this process's clock changes nothing
	turned time.Time // when the present period began
	ahead  [2]lead   // of the present period and of the one before
	last   time.Time // what At answered last
}

// lead is the least that this process was ahead of a record.
type lead struct {
	by    time.Duration
	known bool
}

const (
	clockPeriod = 5 * time.Minute
	// clockSlack is how far back At never goes. Farther, a broker's clock was set.
	clockSlack = time.Minute
)

// Observe learns from records that were just read.
func (c *Clock) Observe(recs []Record, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.steady(now)
	for _, rec := range recs {
		if rec.Logged && rec.Time.Unix() > 0 {
			c.hear(now.Sub(rec.Time), now)
		}
	}
}

func (c *Clock) hear(by time.Duration, now time.Time) {
	if now.Sub(c.turned) >= clockPeriod {
		c.turned, c.ahead[1], c.ahead[0] = now, c.ahead[0], lead{}
	}
	if first := &c.ahead[0]; !first.known || by < first.by {
		*first = lead{by, true}
	}
}

// Ahead is how far this process's clock is ahead of the log; 0 if nothing is known.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.least()
}

func (c *Clock) least() time.Duration {
	switch now, before := c.ahead[0], c.ahead[1]; {
	case now.known && before.known:
		return min(now.by, before.by)
	case now.known:
		return now.by
	}
	return c.ahead[1].by
}

// At is the time of the log when this process's clock shows now. It does not go
// back when now does not, but for a broker's clock that was set.
func (c *Clock) At(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.steady(now).Add(-c.least())
	if back := c.last.Sub(at); back > 0 && back < clockSlack {
		return c.last
	}
	c.last = at
	return at
}

// steady is now by the clock as it was set in the beginning.
func (c *Clock) steady(now time.Time) time.Time {
	if c.began.IsZero() {
		c.began, c.turned = now, now
	}
	return c.began.Add(now.Sub(c.began))
}
