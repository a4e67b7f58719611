// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/task"
)

// quit begins the end: nothing more is offered, what was not claimed is undone
// and released, and what is short may finish. That is also what was claimed:
// its answer is waited for half of the time there is, and then it is given back.
func (l *loop) quit() {
	now := time.Now()
	l.stopping, l.stopBy, l.giveUpAt = true, now.Add(l.o.Timing.Stop), now.Add(l.o.Timing.Stop/2)
	l.polls.at = time.Time{}
	l.log.Info("stopping", zap.Int("instances", len(l.tasks)))
	l.fetches.GiveAllBack(now)
	for id := range l.tasks {
		l.step(id, task.Quit{})
	}
}

// giveUp gives back what nobody has answered.
func (l *loop) giveUp(now time.Time) {
	if l.giveUpAt.IsZero() || now.Before(l.giveUpAt) {
		return
	}
	l.giveUpAt = time.Time{}
	for id := range l.tasks {
		l.step(id, task.GiveUp{})
	}
}

// finished says whether there is nothing left to wait for. Everything else is
// in the journal, and goes on with the next start.
func (l *loop) finished() bool {
	if !l.stopping {
		return false
	}
	if !l.stream.caughtUp || !time.Now().Before(l.stopBy) {
		return true
	}
	put, done := l.sender.progress()
	return put == done && !l.tasks.claiming() && l.calls.none() && len(l.decided) == 0 && l.a.inbox.empty()
}
