// SPDX-License-Identifier: Apache-2.0

// Package hypervisortest is the contract of package hypervisor as a test suite.
// Every driver passes it.
package hypervisortest

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Subject is one empty host to try a driver on. All of it is required, but what
// the driver's Capabilities rule out.
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
	// Resources fit the host several times over, and Image goes with them.
	Resources compute.Resources
	Image     string

	// Swaps are ways in which somebody exchanges a machine's image; nil: the driver reads no files of images.
	Swaps func() []Swap
	// Broken are ways in which Prepare fails.
	Broken []Breakage
	// Crashes are moments at which an agent may die, the one between a process's
	// start and its record included.
	Crashes []Crash
	// Kill ends what runs a machine, behind the driver's back, and returns when
	// it is dead.
	Kill func(compute.InstanceID)
	// Pause holds up a running machine behind the driver's back, so that it stands
	// still; nil: the hypervisor knows no such thing.
	Pause func(compute.InstanceID)
	// Foreign starts a machine that is not Berth's, until the test ends. It says
	// what it uses and how to see whether it still runs.
	Foreign func() (uses compute.Resources, alive func() bool)

	// Listening asks for a guest that shuts down when it is asked to and then
	// prints Goodbye; Deaf asks for one that does not hear.
	Listening, Deaf func(*hypervisor.Spec)
	Goodbye         string
	// Linux asks for one that listens too, but only once its kernel has booted for seconds; nil: no guest takes long.
	Linux func(*hypervisor.Spec)
	// Up waits until a guest has booted so far that it hears.
	Up func(compute.InstanceID)

	placeholders bool // it is tried with those: no machine begins to run
}

// Breakage spoils the host or the request.
type Breakage struct {
	Name  string
	Class compute.FailureClass // of Prepare's error
	Image bool                 // the image on this host is at fault, and is to be said so
	// Break spoils; mend undoes it, so that Prepare of the suite's own request
	// works again.
	Break func(*hypervisor.Spec) (mend func())
}

// Crash is a moment inside Prepare or Launch.
type Crash struct {
	Name string
	// Driver dies at that moment: its call answers hypervisor.ErrCrash, having done nothing
	// more, and it is not used again.
	Driver func() hypervisor.Driver
}

// Crashes are those at moments that a driver names; open is a driver with this CrashPoint.
func Crashes(open func(hypervisor.CrashPoint) hypervisor.Driver, moments ...string) (all []Crash) {
	for _, moment := range moments {
		all = append(all, Crash{Name: moment, Driver: func() hypervisor.Driver { return open(DieAt(moment)) }})
	}
	return all
}

// DieAt has an agent die at one moment.
func DieAt(moment string) hypervisor.CrashPoint {
	return func(now string) error {
		if now == moment {
			return hypervisor.ErrCrash
		}
		return nil
	}
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
		"LaunchStartsNothingThatStopped": launchStopped,
		"DestroyNothing":                 destroyNothing,
		"DestroyPreparedLeavesNothing":   destroyPrepared,
		"DestroyStopped":                 destroyStopped,
		"ListAcrossRestart":              listAcrossRestart,
		"TwoAtOnce":                      twoAtOnce,
		"Broken":                         broken,
		"Crash":                          crash,
		"ContextEndsInPrepare":           contextEndsInPrepare,
		"KilledFromOutside":              killed,
		"StopStartKeepsResources":        stopStart,
		"StopTwiceStartTwice":            stopTwiceStartTwice,
		"PowerRefusesPreparedAndUnknown": powerRefuses,
		"PausedGoesOn":                   paused,
		"SoftStop":                       softStop,
		"SoftStopWhileBooting":           stopBooting,
		"SoftReboot":                     softReboot,
		"DeafStop":                       deafStop,
		"EndedContextChangesNothing":     endedContext,
		"InventoryHasTotals":             inventory,
		"Foreign":                        foreign,
		"Capabilities":                   capabilities,
		"Console":                        console,
		"ImageIsSwapped":                 swapped,
		"Events":                         events,
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

func (s Subject) spec(
	id compute.InstanceID, a compute.Attempt, c compute.ClaimID, change ...func(*hypervisor.Spec),
) hypervisor.Spec {
	spec := hypervisor.Spec{
		Instance:  id,
		Project:   "p",
		Attempt:   a,
		Claim:     c,
		Fence:     7,
		Name:      "web",
		Resources: s.Resources.Clone(),
		Image:     s.Image,

		Placeholder: s.placeholders,
	}
	for _, f := range change {
		f(&spec)
	}
	return spec
}

func (s Subject) launch(t *testing.T, id compute.InstanceID, change ...func(*hypervisor.Spec)) {
	t.Helper()
	ok(t, s.Driver.Prepare(t.Context(), s.spec(id, 1, "c1", change...)))
	ok(t, s.Driver.Launch(t.Context(), id, 1, "c1"))
}

func (s Subject) launched(t *testing.T, id compute.InstanceID, want int) {
	t.Helper()
	if s.placeholders {
		want = 0
	}
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

// refused wants an error of this class.
func refused(t *testing.T, what string, err error, class compute.FailureClass) {
	t.Helper()
	var e *hypervisor.Error
	switch {
	case err == nil:
		t.Errorf("%s answers nil, want an error of class %s", what, class)
	case !errors.As(err, &e):
		t.Errorf("%s answers %v, which has no class; want %s", what, err, class)
	case e.Class != class:
		t.Errorf("%s answers %v of class %s, want %s", what, err, e.Class, class)
	}
}
