// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// RunPlaceholders tries what the contract says of placeholders, each on an empty host: they are listed as machines
// that run, and none of them is one.
func RunPlaceholders(t *testing.T, empty func(t *testing.T) Subject) {
	for name, try := range map[string]func(*testing.T, Subject){
		"PrepareLaunchDestroy":         prepareLaunchDestroy,
		"PrepareTwice":                 prepareTwice,
		"PrepareReplacesOlderAttempt":  prepareReplacesOlderAttempt,
		"PrepareRefusesLaunched":       prepareRefusesLaunched,
		"LaunchTwice":                  launchTwice,
		"LaunchTwiceAcrossRestart":     launchTwiceAcrossRestart,
		"LaunchUnprepared":             launchUnprepared,
		"LaunchWrongAttemptOrClaim":    launchWrongAttemptOrClaim,
		"DestroyNothing":               destroyNothing,
		"DestroyPreparedLeavesNothing": destroyPrepared,
		"ListAcrossRestart":            listAcrossRestart,
		"TwoAtOnce":                    twoPlaceholdersAtOnce,
		"EndedContextChangesNothing":   endedContextAndPlaceholders,
		"ContextEndsInPrepare":         contextEndsInPrepare,
		"PowerIsRefused":               placeholderHasNoPower,
		"BesideAMachine":               placeholderBesideAMachine,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := empty(t)
			if !s.Driver.Capabilities().Placeholders {
				t.Fatal("the driver says that it keeps no placeholders")
			}
			s.placeholders = true
			try(t, s)
			s.launched(t, first, 0)
		})
	}
}

func twoPlaceholdersAtOnce(t *testing.T, s Subject) {
	var both errgroup.Group
	for _, id := range []compute.InstanceID{first, second} {
		both.Go(func() error {
			for range 2 {
				_, listed := s.Driver.List(t.Context())
				if err := errors.Join(
					s.Driver.Prepare(t.Context(), s.spec(id, 1, "c1")), s.Driver.Launch(t.Context(), id, 1, "c1"),
					listed, s.Driver.Destroy(t.Context(), id),
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

func endedContextAndPlaceholders(t *testing.T, s Subject) {
	ctx, ended := underEndedContext(t, s)
	if m := only(t, s.Driver); m.Launched {
		t.Errorf("a Launch under an ended context changed it: %+v", m)
	}
	ended("Destroy", s.Driver.Destroy(ctx, first))
	only(t, s.Driver)
	_, err := s.Driver.List(ctx)
	ended("List", err)
}

// placeholderHasNoPower: there is nothing to command, and no console.
func placeholderHasNoPower(t *testing.T, s Subject) {
	try := func(state string) {
		t.Helper()
		refused(t, "Stop of "+state, s.Driver.Stop(t.Context(), first, 0), compute.FailureHost)
		refused(t, "Start of "+state, s.Driver.Start(t.Context(), first), compute.FailureHost)
		refused(t, "Reboot of "+state, s.Driver.Reboot(t.Context(), first, 0), compute.FailureHost)
		if c, has := hypervisor.As[hypervisor.Console](s.Driver); has {
			_, err := c.Console(t.Context(), first, 0, 100)
			refused(t, "Console of "+state, err, compute.FailureHost)
		}
	}
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	try("a prepared placeholder")
	ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
	try("a placeholder")
	if m := only(t, s.Driver); m.Power != compute.PowerRunning || !m.Placeholder {
		t.Errorf("List gives %+v", m)
	}
}

// placeholderBesideAMachine: neither is touched by what becomes of the other.
func placeholderBesideAMachine(t *testing.T, s Subject) {
	s.launch(t, first)
	s.launch(t, second, func(m *hypervisor.Spec) {
		m.Placeholder, m.In = false, compute.InPlaceholder{ID: first, Attempt: 1}
	})
	if n := s.Launches(second); n != 1 {
		t.Errorf("the machine was launched %d times", n)
	}
	got := list(t, s.Reopen())
	if len(got) != 2 || !got[0].Placeholder || got[1].Placeholder {
		t.Fatalf("List gives %+v", got)
	}
	ok(t, s.Driver.Stop(t.Context(), second, 0))
	ok(t, s.Driver.Destroy(t.Context(), first))
	if m := only(t, s.Driver); m.Instance != second || m.Power != compute.PowerStopped {
		t.Errorf("without the placeholder List gives %+v", m)
	}
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")))
	ok(t, s.Driver.Destroy(t.Context(), second))
	if m := only(t, s.Driver); m.Instance != first || m.Launched || m.Attempt != 2 {
		t.Errorf("without the machine List gives %+v", m)
	}
}
