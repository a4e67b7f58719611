// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"
)

// unread is since when a partition cannot be read, or the leaders of a topic not be found, and why at last.
type unread struct {
	since time.Time
	why   error
	told  bool
}

const (
	leastPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
	// tellAfter is above what a change of leaders takes.
	tellAfter = 10 * time.Second
)

var (
	errNothing = errors.New("a broker did not answer about the partition")
	errStalled = errors.New("a broker does not answer")
	errNoLead  = errors.New("the partition has no leader")
)

// fails notes that a partition cannot be read, since now or longer.
func (l *loop) fails(partition int32, why error) {
	u := l.unread[partition]
	if u == nil {
		u = &unread{since: time.Now()}
		l.unread[partition] = u
	}
	u.why = why
}

// reads notes that a partition can be read: something new of it was, or there is nothing new. That what was read
// before can be read again says nothing.
func (l *loop) reads(partition int32, c *cursor, before int64) {
	if c.next > before || c.atEnd() {
		delete(l.unread, partition)
	}
}

// pause is how long to wait before the leaders are asked for: about as long as that which failed last has not been
// read, so that a new failure does not wait for what an old one waits for.
func (l *loop) pause(now time.Time) time.Duration {
	since := l.blind.since
	for _, u := range l.unread {
		if u.since.After(since) {
			since = u.since
		}
	}
	pause := min(max(now.Sub(since), leastPause), maxPause)
	return pause - rand.N(pause/2+1) // #nosec G404 -- jitter: all followers of the topic would come at once
}

// tell says once what cannot be read for long.
func (l *loop) tell(now time.Time) {
	topic := zap.String("topic", l.f.topic)
	long := func(u *unread) bool { return !u.since.IsZero() && !u.told && now.Sub(u.since) >= tellAfter }
	if long(&l.blind) {
		l.blind.told = true
		l.f.opts.Log.Warn("cannot find which brokers lead; trying on", topic, zap.Error(l.blind.why))
	}
	var partitions []int32
	var why error
	for p, u := range l.unread {
		if long(u) {
			u.told, why = true, u.why
			partitions = append(partitions, p)
		}
	}
	if len(partitions) > 0 {
		slices.Sort(partitions)
		l.f.opts.Log.Warn("cannot read; trying on", topic, zap.Int32s("partitions", partitions), zap.Error(why))
	}
}
