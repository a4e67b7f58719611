// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// checkStalled asks for the leaders if an answer takes long.
func (l *loop) checkStalled(ctx context.Context, now time.Time) {
	for _, a := range l.open {
		if now.Sub(a.since) > stalledAfter {
			l.refreshLeaders(ctx, errors.New("a broker does not answer"))
			return
		}
	}
}

// refreshLeaders asks for the leaders, after a pause that grows with the failures.
func (l *loop) refreshLeaders(ctx context.Context, why error) {
	if l.refreshing {
		return
	}
	l.refreshing = true
	var pause time.Duration
	if why != nil {
		l.fails++
		pause = min(maxPause, 50*time.Millisecond<<min(l.fails, 10))
		pause -= rand.N(pause/2 + 1) // #nosec G404 -- jitter: all followers of the topic would come at once
	}
	if l.fails == logAfter {
		l.f.opts.Log.Warn("cannot read; trying on", zap.String("topic", l.f.topic), zap.Error(why))
	}
	known := map[int32]bool{}
	for p := range l.at {
		known[p] = true
	}
	go func() {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
			l.views <- l.f.leaders(ctx, known)
		case <-ctx.Done():
			l.views <- view{err: ctx.Err()}
		}
	}()
}

// leaders asks for the leaders, and where partitions begin that are not known.
func (f *Follower) leaders(ctx context.Context, known map[int32]bool) (v view) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if v.topic, v.err = f.client.Leaders(ctx, f.topic); v.err != nil {
		return v
	}
	begin := map[int32][]int32{}
	for p, broker := range v.topic.Of {
		if !known[p] && broker >= 0 {
			begin[broker] = append(begin[broker], p)
		}
	}
	v.oldest = map[int32]int64{}
	for broker, partitions := range begin {
		oldest, err := f.client.Oldest(ctx, broker, f.topic, partitions)
		if err != nil {
			v.err = err
			return v
		}
		for p, offset := range oldest {
			v.oldest[p] = offset
		}
	}
	return v
}

// applyView takes over the leaders that were found, and asks again if some are missing.
func (l *loop) applyView(ctx context.Context, v view) error {
	l.refreshing = false
	if v.err != nil || len(v.topic.Of) == 0 {
		if compute.KindOf(v.err) == compute.KindForbidden {
			return v.err
		}
		l.refreshLeaders(ctx, fmt.Errorf("who leads %s: %w", l.f.topic, errors.Join(v.err, ctx.Err())))
		return nil
	}
	if l.topic.Of != nil && l.topic.ID != v.topic.ID {
		return replaced(l.f.topic, "it was deleted and made again")
	}
	for p := range l.topic.Of {
		if _, ok := v.topic.Of[p]; !ok { // a broker that has not heard of all yet
			v.topic.Of[p] = -1
		}
	}
	l.topic = v.topic
	for p, offset := range v.oldest {
		if l.at[p] == nil {
			l.at[p] = newCursor(offset)
		}
	}
	l.regroup()
	if l.leaderless() {
		l.refreshLeaders(ctx, errors.New("partitions without a leader"))
	}
	return nil
}

// regroup gives up questions to brokers that lead no more what they were asked
// about, and lets lost partitions be asked for again.
func (l *loop) regroup() {
	for p, c := range l.at {
		moved := c.by != nil && c.by.broker != l.topic.Of[p]
		if moved {
			c.by = nil
		}
		if moved || c.lost {
			c.doubt()
		}
		c.lost = false
	}
	for broker, a := range l.open {
		if !l.wanted(a) {
			a.cancel()
			delete(l.open, broker)
			l.late = append(l.late, a)
		}
	}
}

// wanted says whether somebody still waits for an answer.
func (l *loop) wanted(a *request) bool {
	for p := range a.from {
		if c := l.at[p]; c != nil && c.by == a {
			return true
		}
	}
	return false
}

func (l *loop) leaderless() bool {
	for p, broker := range l.topic.Of {
		if broker < 0 || l.at[p] == nil {
			return true
		}
	}
	return false
}
