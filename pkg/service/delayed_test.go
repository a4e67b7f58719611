// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/service"
)

// A part that is told to stop works on for as long as was said; one that is not ready, or ends by itself, does not.
func TestDelayed(t *testing.T) {
	broken := errors.New("broken")
	untilStopped := service.Func(func(ctx context.Context) error { <-ctx.Done(); return nil })
	for name, c := range map[string]struct {
		part  service.Part
		after time.Duration
		says  bool
		wants error
	}{
		"ready":     {untilStopped, time.Minute, true, nil},
		"not ready": {unreadyUntilStopped{untilStopped}, 0, false, nil},
		"ends meanwhile": {service.Func(func(context.Context) error {
			time.Sleep(time.Second + 10*time.Second)
			return broken
		}), 10 * time.Second, true, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				var said, stopped time.Time
				time.AfterFunc(time.Second, func() { stopped = time.Now(); stop() })
				err := service.Delayed(c.part, time.Minute, func() { said = time.Now() }).Run(ctx)
				if took := time.Since(stopped); !errors.Is(err, c.wants) || took != c.after {
					t.Errorf("it ended %s after it was told to, with %v", took, err)
				}
				if c.says != said.Equal(stopped) {
					t.Errorf("told to stop at %s, it said so at %s", stopped, said)
				}
			})
		})
	}
	if err := service.Delayed(unready{broken}, time.Hour, nil).Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("it ended by itself with %v", err)
	}
}

// unreadyUntilStopped never gets ready.
type unreadyUntilStopped struct{ service.Part }

func (unreadyUntilStopped) Ready() <-chan struct{} { return nil }
