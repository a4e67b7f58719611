// Package hypervisortest is the contract of package hypervisor as a test suite.
// Every driver passes it.
package hypervisortest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Subject is one empty host to try a driver on.
type Subject struct {
	Driver hypervisor.Driver
	// Reopen is a driver for the same host as a restarted agent makes it, after
	// the old one was dropped without a word.
	Reopen func() hypervisor.Driver
	// Launches counts, from outside the driver, how often the instance's
	// machine began to run for the first time.
	Launches func(compute.InstanceID) int
	// Left lists, from outside the driver, what is left of any machine on the
	// host: processes, files, reservations. Empty when all is cleaned up.
	Left func() []string
	// Resources fit the host several times over.
	Resources compute.Resources
}

// Run tries everything the contract says, each on an empty host.
func Run(t *testing.T, empty func(t *testing.T) Subject) {
	for name, try := range map[string]func(*testing.T, Subject){
		"PrepareLaunchDestroy":           prepareLaunchDestroy,
		"PrepareTwice":                   prepareTwice,
		"PrepareReplacesOlderAttempt":    prepareReplacesOlderAttempt,
		"PrepareRefusesLaunched":         prepareRefusesLaunched,
		"LaunchTwice":                    launchTwice,
		"LaunchTwiceAcrossRestart":       launchTwiceAcrossRestart,
		"LaunchUnprepared":               launchUnprepared,
		"LaunchWrongAttemptOrClaim":      launchWrongAttemptOrClaim,
		"DestroyNothing":                 destroyNothing,
		"DestroyPreparedLeavesNothing":   destroyPrepared,
		"ListAcrossRestart":              listAcrossRestart,
		"StopStartKeepsResources":        stopStart,
		"StopTwiceStartTwice":            stopTwiceStartTwice,
		"PowerRefusesPreparedAndUnknown": powerRefuses,
		"EndedContextChangesNothing":     endedContext,
		"InventoryHasTotals":             inventory,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, empty(t))
		})
	}
}

const (
	first  = compute.InstanceID("00000000-0000-4000-8000-000000000001")
	second = compute.InstanceID("00000000-0000-4000-8000-000000000002")
)

func (s Subject) spec(id compute.InstanceID, a compute.Attempt, c compute.ClaimID) hypervisor.Spec {
	return hypervisor.Spec{Instance: id, Project: "p", Attempt: a, Claim: c, Fence: 7, Name: "web", Resources: s.Resources}
}

func prepareLaunchDestroy(t *testing.T, s Subject) {
	ctx := t.Context()
	ok(t, s.Driver.Prepare(ctx, s.spec(first, 1, "c1")))
	m := only(t, s.Driver)
	if m.Launched || m.Power == compute.PowerRunning {
		t.Errorf("prepared, and already launched: %+v", m)
	}
	if m.Instance != first || m.Project != "p" || m.Attempt != 1 || m.Claim != "c1" || m.Fence != 7 || !m.Resources.Equal(s.Resources) {
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
	if err := s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")); err == nil {
		t.Error("Prepare of a later attempt replaced a launched machine")
	}
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
	if err := s.Driver.Launch(t.Context(), first, 1, "c1"); err == nil {
		t.Error("launched what was never prepared")
	}
	s.launched(t, first, 0)
	s.empty(t)
}

func launchWrongAttemptOrClaim(t *testing.T, s Subject) {
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")))
	if err := s.Driver.Launch(t.Context(), first, 1, "c2"); err == nil {
		t.Error("launched for another attempt")
	}
	if err := s.Driver.Launch(t.Context(), first, 2, "c1"); err == nil {
		t.Error("launched for another claim")
	}
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

func stopStart(t *testing.T, s Subject) {
	s.launch(t, first)
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	m := only(t, s.Driver)
	if m.Power != compute.PowerStopped || !m.Launched || !m.Resources.Equal(s.Resources) {
		t.Errorf("stopped, and List gives %+v", m)
	}
	ok(t, s.Reopen().Start(t.Context(), first))
	if m := only(t, s.Driver); m.Power != compute.PowerRunning {
		t.Errorf("started, and List gives %+v", m)
	}
	ok(t, s.Driver.Reboot(t.Context(), first, true))
	if m := only(t, s.Driver); m.Power != compute.PowerRunning {
		t.Errorf("rebooted, and List gives %+v", m)
	}
	s.launched(t, first, 1)
}

func stopTwiceStartTwice(t *testing.T, s Subject) {
	s.launch(t, first)
	for range 2 {
		ok(t, s.Driver.Stop(t.Context(), first, time.Second))
	}
	for range 2 {
		ok(t, s.Driver.Start(t.Context(), first))
	}
}

func powerRefuses(t *testing.T, s Subject) {
	ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1")))
	for _, id := range []compute.InstanceID{first, second} {
		if s.Driver.Start(t.Context(), id) == nil {
			t.Errorf("Start made %s run without a Launch", id)
		}
		if s.Driver.Reboot(t.Context(), id, true) == nil {
			t.Errorf("Reboot made %s run without a Launch", id)
		}
		s.launched(t, id, 0)
	}
}

func endedContext(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Driver.Prepare(ctx, s.spec(first, 1, "c1")) == nil {
		t.Error("Prepare under an ended context answers nil")
	}
	s.empty(t)
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

func (s Subject) launch(t *testing.T, id compute.InstanceID) {
	t.Helper()
	ok(t, s.Driver.Prepare(t.Context(), s.spec(id, 1, "c1")))
	ok(t, s.Driver.Launch(t.Context(), id, 1, "c1"))
}

func (s Subject) launched(t *testing.T, id compute.InstanceID, want int) {
	t.Helper()
	if n := s.Launches(id); n != want {
		t.Errorf("%s was launched %d times, want %d", id, n, want)
	}
}

func (s Subject) empty(t *testing.T) {
	t.Helper()
	if got := list(t, s.Driver); len(got) != 0 {
		t.Errorf("List still gives %+v", got)
	}
	if left := s.Left(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func only(t *testing.T, d hypervisor.Driver) hypervisor.Machine {
	t.Helper()
	got := list(t, d)
	if len(got) != 1 {
		t.Fatalf("List gives %d machines, want one: %+v", len(got), got)
	}
	return got[0]
}

func list(t *testing.T, d hypervisor.Driver) []hypervisor.Machine {
	t.Helper()
	got, err := d.List(t.Context())
	ok(t, err)
	return got
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
