// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// drain is what the log has of how the host is being emptied.
type drain struct {
	of          compute.Version // the wish
	empty, late bool            // said
	due         time.Time       // when it is late; zero: there is nothing to wait for
}

// drained says in the log, once each, that a draining host is empty, and that it
// is not though it should be by now. Nothing else follows from a deadline: what
// ends a machine is a delete, and no clock.
func (l *loop) drained(now time.Time) {
	d := l.host.Desired
	l.drain.due = time.Time{}
	if d.State != compute.HostDraining || !l.stream.caughtUp { // a later wish may lie in the stream
		return
	}
	if l.drain.of != d.Version {
		l.drain = drain{of: d.Version}
	}
	left := len(l.tasks)
	late := left > 0 && !d.Deadline.IsZero() && !now.Before(d.Deadline)
	switch {
	case left == 0 && !l.drain.empty:
		l.log.Info("the host is drained: nothing is left on it")
	case late && !l.drain.late:
		l.log.Warn("the host should be drained by now and is not: what is left stays until it is deleted",
			zap.Int("left", left), zap.Time("deadline", d.Deadline))
	case left > 0 && !late:
		l.drain.due = d.Deadline
	}
	l.drain.empty, l.drain.late = left == 0, l.drain.late || late
}
