// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// Outage tells the log that brokers cannot be used: once when that begins, once a minute while it lasts, and once
// when it is over, however many clients of the process notice. What they notice one by one is logged at debug.
type Outage struct {
	log *zap.Logger

	mu    sync.Mutex
	open  map[*OutageReporter]error // the clients in trouble, and why
	since time.Time
	told  time.Time            // zero: not yet
	said  map[string]time.Time // what kgo says, and when it last was passed on
}

// stillEvery is how often a log says that something has not passed.
const stillEvery = time.Minute

// NewOutage is told of nothing yet. Give it to all clients of a process by Config.
func NewOutage(log *zap.Logger) *Outage {
	return &Outage{log: log, open: map[*OutageReporter]error{}, said: map[string]time.Time{}}
}

// news says whether a message of kgo's, which are few, is worth a line: not if
// another client of the process has just said the same. Nil: always.
func (o *Outage) news(msg string) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if last, ok := o.said[msg]; ok && now.Sub(last) < stillEvery {
		return false
	}
	o.said[msg] = now
	return true
}

// OutageReporter is what one client that uses brokers for something sees of them. A
// nil one sees nothing.
type OutageReporter struct {
	outage *Outage
	what   string
	in     atomic.Bool // in trouble
}

// OutageReporter begins to look after a client. Without a common outage each has its own.
func (c Config) OutageReporter(what string) *OutageReporter {
	o := c.Outage
	if o == nil {
		o = NewOutage(c.Log)
	}
	return &OutageReporter{outage: o, what: what}
}

// Failed says that what was tried failed, and will be tried again. The caller has tried often enough that it is no
// change of leaders.
func (w *OutageReporter) Failed(err error) {
	if w == nil {
		return
	}
	w.in.Store(true)
	o, now := w.outage, time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) == 0 {
		o.since = now
	}
	o.open[w] = err
	switch {
	case o.told.IsZero():
		o.told = now
		o.log.Warn("Kafka cannot be used; trying on", zap.String("to", w.what), zap.Error(err))
	case now.Sub(o.told) >= stillEvery:
		o.told = now
		o.log.Warn(
			"Kafka still cannot be used", zap.Duration("for", now.Sub(o.since).Round(time.Second)),
			zap.Strings("to", o.whats()), zap.Error(err),
		)
	}
}

// Fine says that something succeeded, or that nobody tries any more.
func (w *OutageReporter) Fine() {
	if w == nil || !w.in.Load() || !w.in.Swap(false) {
		return
	}
	o := w.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, w)
	if len(o.open) > 0 {
		return
	}
	o.told = time.Time{}
	// As loud as what it ends: an operator that was told of that wants to be told of this.
	o.log.Warn("Kafka can be used again", zap.Duration("after", time.Since(o.since).Round(time.Millisecond)))
}

// whats names what cannot be done, each once.
func (o *Outage) whats() []string {
	what := map[string]bool{}
	for w := range o.open {
		what[w.what] = true
	}
	return slices.Sorted(maps.Keys(what))
}

// GroupTrouble sees that a member of a group does not get on. It is a hook of
// kgo, which tells of each try that failed.
type GroupTrouble struct {
	cfg    Config
	needs  []access.Right
	outage *OutageReporter
	fails  atomic.Int32
}

// NewGroupTrouble sees after a member of a group that shares out a topic.
func NewGroupTrouble(c Config, group, topic string) *GroupTrouble {
	needs := []access.Right{access.To(access.Read, access.Group, group), access.To(access.Describe, access.Topic, topic)}
	return &GroupTrouble{cfg: c, needs: needs, outage: c.OutageReporter("be a member of " + group)}
}

// OnGroupManageError hears of one try that failed.
func (g *GroupTrouble) OnGroupManageError(err error) {
	if IsForbidden(err) { // which does not pass by itself
		err = g.cfg.Classify("be a member", err, g.needs...)
	}
	if g.fails.Add(1) >= pace.LogAfter {
		g.outage.Failed(err)
	}
}

// Over says that the group has taken this member, or that it wants to be none.
func (g *GroupTrouble) Over() {
	g.fails.Store(0)
	g.outage.Fine()
}
