package agent

import (
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/task"
)

// quit begins the end: nothing more is offered, what was not claimed is undone
// and released, and what is short may finish.
func (l *loop) quit() {
	l.stopping, l.stopBy = true, time.Now().Add(l.o.Timing.Stop)
	l.view.pollAt = time.Time{}
	l.log.Info("stopping", zap.Int("instances", len(l.tasks)))
	for id := range l.tasks {
		l.step(id, task.Quit{})
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
	return put == done && len(l.ops) == 0 && len(l.queued) == 0 && len(l.decided) == 0 && l.a.inbox.empty()
}
