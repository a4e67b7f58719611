// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// checkStalled asks for the leaders if an answer takes long.
func (l *loop) checkStalled(now time.Time) {
	for _, a := range l.open {
		if now.Sub(a.since) <= stalledAfter {
			continue
		}
		for p := range a.from {
			if c := l.at[p]; c != nil && c.by == a {
				l.fails(p, errStalled)
			}
		}
		l.refreshLeaders()
	}
}

// refreshLeaders has the leaders asked for after a pause, unless they are being asked for or will be before.
func (l *loop) refreshLeaders() {
	pause := l.pause(time.Now())
	due := time.Now().Add(pause)
	if l.refreshing || !l.due.IsZero() && !due.Before(l.due) {
		return
	}
	l.due = due
	l.timer.Reset(pause)
}

// verifyLeaders asks for the leaders now and then where nothing fails, too: one that is cut off from the other brokers
// answers as before, and does not know that another leads (docs/decisions/0025).
func (l *loop) verifyLeaders(ctx context.Context, now time.Time) {
	if !l.refreshing && l.due.IsZero() && now.Sub(l.viewed) >= verifyEvery {
		l.askLeaders(ctx)
	}
}

func (l *loop) askLeaders(ctx context.Context) {
	l.due, l.refreshing, l.viewed = time.Time{}, true, time.Now()
	known := map[int32]bool{}
	var missing []int32
	for p, c := range l.at {
		known[p] = true
		if c.verify && c.misses > 0 {
			missing = append(missing, p)
		}
	}
	calm := l.topic.Of != nil && l.blind.since.IsZero() && len(l.unread) == 0
	go func() {
		v := l.f.leaders(ctx, known, missing)
		v.calm = calm
		l.views <- v
	}()
}

// leaders asks for the leaders, and where partitions begin that are not known, or that are missing what was read. It
// asks the brokers side by side: one that does not answer says nothing about the partitions of others.
func (f *Follower) leaders(ctx context.Context, known map[int32]bool, missing []int32) (v view) {
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
	v.oldest, v.failed = map[int32]int64{}, map[int32]error{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	ask := func(broker int32, partitions []int32) {
		asked.Go(func() {
			ctx, stop := ctx, func() {}
			if len(begin)+len(missing) > 1 { // the others are not to wait for it for so long
				ctx, stop = context.WithTimeout(ctx, oldestWithin)
			}
			defer stop()
			oldest, err := f.client.Oldest(ctx, broker, f.topic, partitions)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(v.oldest, oldest)
			if compute.KindOf(err) == compute.KindForbidden {
				v.err = err
			}
			for _, p := range partitions {
				if err != nil {
					v.failed[p] = err
				}
			}
		})
	}
	for broker, partitions := range begin {
		ask(broker, partitions)
	}
	for _, p := range missing {
		if broker, led := v.topic.Of[p]; led && broker >= 0 {
			ask(broker, []int32{p}) // without an answer it is asked again
		}
	}
	asked.Wait()
	return v
}

// applyView takes over the leaders that were found, and asks again if some are missing.
func (l *loop) applyView(v view) error {
	l.refreshing = false
	remade := l.topic.Of != nil && l.topic.ID != v.topic.ID && len(v.topic.Of) > 0
	if v.calm && (remade || compute.KindOf(v.err) == compute.KindForbidden) {
		return nil // of a broker that is cut off from the others, perhaps: if it is so, questions for records fail
	}
	if v.err != nil || len(v.topic.Of) == 0 {
		if compute.KindOf(v.err) == compute.KindForbidden {
			return v.err
		}
		if l.blind.since.IsZero() {
			l.blind.since = time.Now()
		}
		l.blind.why = cmp.Or(v.err, errNoLead)
		l.refreshLeaders()
		return nil
	}
	l.blind = unread{}
	if remade {
		return replaced(l.f.topic, "it was deleted and made again")
	}
	for p, leader := range l.topic.Of {
		if _, ok := v.topic.Of[p]; !ok { // a broker that has not heard of all yet
			v.topic.Of[p] = -1
		} else if l.outdated(p, v.topic) {
			v.topic.Of[p], v.topic.Epoch[p] = leader, l.topic.Epoch[p]
		}
	}
	for p, c := range l.at { // regroup doubts those that are asked for now
		old, led := l.topic.Of[p]
		if led && c.by == nil && (old != v.topic.Of[p] || l.topic.Epoch[p] != v.topic.Epoch[p]) {
			c.doubt()
		}
	}
	l.topic = v.topic
	for p, offset := range v.oldest {
		if c := l.at[p]; c != nil {
			c.removed(offset)
		} else {
			l.at[p] = newCursor(offset)
		}
	}
	l.regroup()
	if l.leaderless(v.failed) {
		l.refreshLeaders()
	}
	return nil
}

// outdated says whether a broker has not heard yet of the leader that is followed. That leader must answer: one that
// does not may be of a topic that was made again, where epochs begin anew.
func (l *loop) outdated(p int32, said Leaders) bool {
	c := l.at[p]
	epoch, ok := said.Epoch[p]
	return ok && epoch < l.topic.Epoch[p] && l.topic.Of[p] >= 0 && c != nil && !c.lost
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

// leaderless notes which partitions have no leader, or one that has not said where they begin, and says whether there
// are any.
func (l *loop) leaderless(failed map[int32]error) (some bool) {
	for p, broker := range l.topic.Of {
		if broker < 0 || l.at[p] == nil {
			l.fails(p, cmp.Or(failed[p], errNoLead))
			some = true
		}
	}
	return some
}
