// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
)

// statusReporter says how a daemon is: at /readyz, to systemd, and in the
// log. One goroutine at a time uses it.
type statusReporter struct {
	face   *statusserver.Server
	serves bool // the face is the part's own once it is there
	notify func(state string)
	log    *zap.Logger
	last   reminder
}

// waiting says that the daemon is not ready and why; in the log not more than
// once in a minute.
func (r *statusReporter) waiting(why string) {
	r.face.Waiting(why)
	r.notify("STATUS=" + why)
	if r.last.due(time.Now()) {
		r.log.Warn(why)
	}
}

// starting says that what was waited for is there.
func (r *statusReporter) starting() {
	r.face.Waiting("starting")
	r.notify("STATUS=starting")
}

// through runs the part to its end, and says when it is ready and when it stops. Told to stop, it is not ready at once,
// and goes on for the delay.
func (r *statusReporter) through(ctx context.Context, part service.Part, delay time.Duration) error {
	err := service.During(ctx, service.Delayed(part, delay, r.face.Stopping), func(ctx context.Context) error {
		r.log.Info("ready")
		if !r.serves {
			r.face.Up()
		}
		r.notify(systemd.SdNotifyReady + "\nSTATUS=ready")
		<-ctx.Done()
		if !r.serves {
			r.face.Waiting("stopping")
		}
		r.notify(systemd.SdNotifyStopping + "\nSTATUS=stopping")
		r.log.Info("stopping")
		return nil
	})
	if err == nil {
		r.log.Info("stopped")
	}
	return err
}

// notifySystemd tells systemd, if it is the one that started this process.
func notifySystemd(state string) {
	_, _ = systemd.SdNotify(false, state) // it cannot be told that it cannot be told
}

// remindEvery is how often a log says what is still waited for.
const remindEvery = time.Minute

// reminder keeps what is said again and again from filling a log.
type reminder struct{ at time.Time }

// due says whether to say it now: for the first time, or again after a while. The
// text is no matter: which of three brokers failed last changes all the time.
func (r *reminder) due(now time.Time) bool {
	if !r.at.IsZero() && now.Sub(r.at) < remindEvery {
		return false
	}
	r.at = now
	return true
}
