// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/compute"
)

func prepareLaunchDestroy(t *testing.T, s Subject) {
	ctx := t.Context()
	ok(t, s.Driver.Prepare(ctx, s.spec(first, 1, "c1")))
	m := only(t, s.Driver)
	if m.Launched || m.Power == compute.PowerRunning {
		t.Errorf("prepared, and already launched: %+v", m)
	}
	if m.Instance != first || m.Project != "p" || m.Attempt != 1 || m.Claim != "c1" || m.Fence != 7 ||
		!m.Resources.Equal(s.Resources) {
		t.Errorf("List gives %+v", m)
	}
	ok(t, s.Driver.Launch(ctx, first, 1, "c1"))
	if m := only(t, s.Driver); !m.Launched || m.Power != compute.PowerRunning {
		t.Errorf("launched, and List gives %+v", m)
	}
	ok(t, s.Driver.Destroy(ctx, first))
	s.empty(t)
}

func prepareTwice(t *testing.T, s Subject) {
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	only(t, s.Driver)
}

func prepareReplacesOlderAttempt(t *testing.T, s Subject) {
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")))
	if m := only(t, s.Driver); m.Attempt != 2 || m.Claim != "c2" {
		t.Errorf("prepared again for attempt 2, and List gives %+v", m)
	}
}

func prepareRefusesLaunched(t *testing.T, s Subject) {
	s.launch(t, first)
	refused(
		t, "Prepare of a later attempt of a launched machine", s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")),
		compute.FailureHost,
	)
	refused(
		t, "Prepare of a launched machine", s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")),
		compute.FailureHost,
	)
	if m := only(t, s.Driver); m.Attempt != 1 || m.Power != compute.PowerRunning {
		t.Errorf("a refused Prepare changed the machine: %+v", m)
	}
}

func launchTwice(t *testing.T, s Subject) {
	s.launch(t, first)
	ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
	s.launched(t, first, 1)
}

func launchTwiceAcrossRestart(t *testing.T, s Subject) {
	s.launch(t, first)
	ok(t, s.Reopen().Launch(t.Context(), first, 1, "c1"))
	s.launched(t, first, 1)
}

func launchUnprepared(t *testing.T, s Subject) {
	refused(t, "Launch of what was never prepared", s.Driver.Launch(t.Context(), first, 1, "c1"), compute.FailureHost)
	s.launched(t, first, 0)
	s.empty(t)
}

func launchWrongAttemptOrClaim(t *testing.T, s Subject) {
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")))
	refused(t, "Launch for another attempt", s.Driver.Launch(t.Context(), first, 1, "c2"), compute.FailureHost)
	refused(t, "Launch for another claim", s.Driver.Launch(t.Context(), first, 2, "c1"), compute.FailureHost)
	s.launched(t, first, 0)
}

func destroyNothing(t *testing.T, s Subject) {
	ok(t, s.Driver.Destroy(t.Context(), first))
	s.launch(t, first)
	ok(t, s.Driver.Destroy(t.Context(), first))
	ok(t, s.Driver.Destroy(t.Context(), first))
	s.empty(t)
}

func destroyPrepared(t *testing.T, s Subject) {
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	s.launch(t, second)
	ok(t, s.Driver.Destroy(t.Context(), first))
	if m := only(t, s.Driver); m.Instance != second || m.Power != compute.PowerRunning {
		t.Errorf("destroying one touched the other: %+v", m)
	}
}

func listAcrossRestart(t *testing.T, s Subject) {
	s.launch(t, first)
	ok(t, s.Driver.Prepare(t.Context(), s.spec(second, 3, "c3")))
	got := list(t, s.Reopen())
	if len(got) != 2 || !got[0].Launched || got[1].Launched || got[1].Attempt != 3 || got[1].Claim != "c3" {
		t.Errorf("after a restart List gives %+v", got)
	}
}

func launchStopped(t *testing.T, s Subject) {
	s.launch(t, first)
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
	if m := only(t, s.Driver); m.Power != compute.PowerStopped {
		t.Errorf("a second Launch started a stopped machine: %+v", m)
	}
}

func destroyStopped(t *testing.T, s Subject) {
	s.launch(t, first)
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	ok(t, s.Reopen().Destroy(t.Context(), first))
	s.empty(t)
}

func twoAtOnce(t *testing.T, s Subject) {
	var both errgroup.Group
	for _, id := range []compute.InstanceID{first, second} {
		both.Go(func() error {
			for range 2 {
				if err := errors.Join(
					s.Driver.Prepare(t.Context(), s.spec(id, 1, "c1")), s.Driver.Launch(t.Context(), id, 1, "c1"),
					s.Driver.Stop(t.Context(), id, 0), s.Driver.Destroy(t.Context(), id),
				); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ok(t, both.Wait())
	s.empty(t)
}

// underEndedContext tries Prepare and Launch under a context that has ended. What is left is prepared; it answers that
// context, and what finds an error that is another.
func underEndedContext(t *testing.T, s Subject) (ctx context.Context, ended func(what string, err error)) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended = func(what string, err error) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s under an ended context answers %v", what, err)
		}
	}
	ended("Prepare", s.Driver.Prepare(ctx, s.spec(first, 1, "c1")))
	s.empty(t)
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	ended("Launch", s.Driver.Launch(ctx, first, 1, "c1"))
	return ctx, ended
}

func endedContext(t *testing.T, s Subject) {
	ctx, ended := underEndedContext(t, s)
	s.launched(t, first, 0)
	ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
	ended("Stop", s.Driver.Stop(ctx, first, 0))
	ended("Destroy", s.Driver.Destroy(ctx, first))
	_, err := s.Driver.List(ctx)
	ended("List", err)
	if m := only(t, s.Driver); m.Power != compute.PowerRunning {
		t.Errorf("calls under an ended context changed the machine: %+v", m)
	}
}

// A Prepare is broken off after one, two, four … milliseconds, until it is
// quicker than that.
func contextEndsInPrepare(t *testing.T, s Subject) {
	for patience := time.Millisecond; patience < 8*time.Minute; patience *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := s.Driver.Prepare(ctx, s.spec(first, 1, "c1"))
		cancel()
		if err == nil {
			ok(t, s.Driver.Destroy(t.Context(), first))
			s.empty(t)
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Prepare that was broken off after %s answers %v", patience, err)
		}
		s.empty(t)
	}
	t.Error("Prepare takes more than four minutes")
}

func inventory(t *testing.T, s Subject) {
	inv, err := s.Driver.Inventory(t.Context())
	ok(t, err)
	if !s.Resources.FitsIn(inv.Totals.Minus(inv.Reserved)) {
		t.Errorf("the subject's %s do not fit the host's %s", s.Resources, inv.Totals)
	}
	if !slices.IsSorted(inv.Traits) {
		t.Errorf("traits are not sorted: %v", inv.Traits)
	}
}
