package main

import (
	"context"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/front"
	"github.com/berth-project/berth/pkg/service"
)

// teller says how a daemon is: to whoever asks /readyz, to systemd, and in the
// log. One goroutine at a time uses it.
type teller struct {
	face   *front.Front
	serves bool // the face is the part's own once it is there
	notify func(state string)
	log    *zap.Logger
	last   reminder
}

// waiting says that the daemon is not ready and why; in the log not more than
// once in a minute.
func (t *teller) waiting(why string) {
	t.face.Waiting(why)
	t.notify("STATUS=" + why)
	if t.last.due(time.Now()) {
		t.log.Warn(why)
	}
}

// starting says that what was waited for is there.
func (t *teller) starting() {
	t.face.Waiting("starting")
	t.notify("STATUS=starting")
}

// through runs the part to its end, and says when it is ready and when it stops.
func (t *teller) through(ctx context.Context, part service.Part) error {
	err := service.During(ctx, part, func(ctx context.Context) error {
		t.log.Info("ready")
		if !t.serves {
			t.face.Up()
		}
		t.notify(systemd.SdNotifyReady + "\nSTATUS=ready")
		<-ctx.Done()
		if !t.serves {
			t.face.Waiting("stopping")
		}
		t.notify(systemd.SdNotifyStopping + "\nSTATUS=stopping")
		t.log.Info("stopping")
		return nil
	})
	if err == nil {
		t.log.Info("stopped")
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
