// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/service"
)

func TestDuring(t *testing.T) {
	broken, misused := errors.New("broken"), errors.New("misused")
	ready := func(run func(context.Context) error) service.Part { return service.Func(run) }
	untilStopped := func(ctx context.Context) error { <-ctx.Done(); return nil }
	for name, c := range map[string]struct {
		part  service.Part
		use   func(context.Context) error
		wants error
	}{
		"used":             {ready(untilStopped), func(context.Context) error { return nil }, nil},
		"misused":          {ready(untilStopped), func(context.Context) error { return misused }, misused},
		"the part ends it": {ready(func(context.Context) error { return broken }), untilStopped, broken},
		"the part says it": {
			ready(func(ctx context.Context) error { <-ctx.Done(); return broken }),
			func(context.Context) error { return misused }, broken,
		},
		"it broke too early":   {unready{broken}, nil, broken},
		"it just ended so far": {unready{}, nil, service.ErrEndedEarly},
	} {
		t.Run(name, func(t *testing.T) {
			if err := service.During(t.Context(), c.part, c.use); !errors.Is(err, c.wants) {
				t.Errorf("%v, want %v", err, c.wants)
			}
		})
	}
}

func TestDuringIsCalledOffBeforeThePartIsReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service.During(ctx, never{newPart(&diary{}, "a")}, nil); err != nil {
		t.Error(err)
	}
}

// unready ends before it is ready.
type unready struct{ err error }

func (unready) Ready() <-chan struct{}        { return nil }
func (u unready) Run(_ context.Context) error { return u.err }

// Many that wait for the same come back one after the other, none later than asked.
func TestJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		d := service.Jitter(time.Second)
		if d < time.Second/2 || d > time.Second {
			t.Fatalf("%s", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d of 100 waits differ", len(seen))
	}
	if d := service.Jitter(0); d != 0 {
		t.Errorf("of nothing: %s", d)
	}
}
