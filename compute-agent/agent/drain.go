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

// note says in the log, once each, that a draining host is empty, and that it
// is not though it should be by now. Nothing else follows from a deadline: what
// ends a machine is a delete, and no clock.
func (d *drain) note(wish compute.HostDesired, left int, now time.Time, log *zap.Logger) {
	d.due = time.Time{}
	if wish.State != compute.HostDraining {
		return
	}
	if d.of != wish.Version {
		*d = drain{of: wish.Version}
	}
	late := left > 0 && !wish.Deadline.IsZero() && !now.Before(wish.Deadline)
	switch {
	case left == 0 && !d.empty:
		log.Info("the host is drained: nothing is left on it")
	case late && !d.late:
		log.Warn("the host should be drained by now and is not: what is left stays until it is deleted",
			zap.Int("left", left), zap.Time("deadline", wish.Deadline))
	case left > 0 && !late:
		d.due = wish.Deadline
	}
	d.empty, d.late = left == 0, d.late || late
}
