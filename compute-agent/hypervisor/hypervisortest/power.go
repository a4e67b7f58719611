// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

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
	ok(t, s.Driver.Reboot(t.Context(), first, 0))
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
		refused(t, "Start without a Launch", s.Driver.Start(t.Context(), id), compute.FailureHost)
		refused(t, "Stop without a Launch", s.Driver.Stop(t.Context(), id, 0), compute.FailureHost)
		refused(t, "Reboot without a Launch", s.Driver.Reboot(t.Context(), id, 0), compute.FailureHost)
		s.launched(t, id, 0)
	}
	ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	refused(t, "Reboot of a stopped machine", s.Driver.Reboot(t.Context(), first, 0), compute.FailureHost)
	if m := only(t, s.Driver); m.Power != compute.PowerStopped {
		t.Errorf("a refused Reboot started the machine: %+v", m)
	}
}

// paused: what stands still says so and why, however the agent came to it, and every
// power command brings it where it should be.
func paused(t *testing.T, s Subject) {
	if s.Pause == nil {
		return
	}
	s.launch(t, first, s.Listening)
	s.Up(first)
	pause := func() {
		t.Helper()
		s.Pause(first)
		for _, d := range []hypervisor.Driver{s.Driver, s.Reopen()} {
			m := becomes(t, d, compute.PowerPaused)
			if m.Why == "" || m.Detail == "" || !m.Launched || m.Waits {
				t.Fatalf("paused, and List gives %+v", m)
			}
		}
	}
	runs := func(after string) {
		t.Helper()
		if m := only(t, s.Driver); m.Power != compute.PowerRunning {
			t.Errorf("%s of a paused machine, and List gives %+v", after, m)
		}
	}
	pause()
	ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
	becomes(t, s.Driver, compute.PowerPaused) // a second Launch does not let it go on
	ok(t, s.Driver.Start(t.Context(), first))
	runs("Start")
	s.launched(t, first, 1)
	pause()
	ok(t, s.Driver.Reboot(t.Context(), first, 0))
	runs("Reboot")
	s.Up(first)
	if s.Driver.Capabilities().SoftStop {
		pause()
		ok(t, s.Driver.Stop(t.Context(), first, Patience))
		s.goodbyes(t, 1)
		ok(t, s.Driver.Start(t.Context(), first))
		s.Up(first)
	}
	pause()
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	if m := only(t, s.Driver); m.Power != compute.PowerStopped || m.Why != compute.StoppedByCommand {
		t.Errorf("paused and stopped, and List gives %+v", m)
	}
	ok(t, s.Driver.Start(t.Context(), first))
	pause()
	ok(t, s.Driver.Destroy(t.Context(), first))
	s.empty(t)
}

func softStop(t *testing.T, s Subject) {
	if !s.Driver.Capabilities().SoftStop {
		return
	}
	s.launch(t, first, s.Listening)
	s.Up(first)
	ok(t, s.Driver.Stop(t.Context(), first, Patience))
	if m := only(t, s.Driver); m.Power != compute.PowerStopped || m.Detail == "" || m.Why != compute.StoppedByCommand {
		t.Errorf("stopped softly, and List gives %+v", m)
	}
	s.goodbyes(t, 1)
	ok(t, s.Driver.Start(t.Context(), first))
	s.Up(first)
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	s.goodbyes(t, 1)
}

// stopBooting: a guest that is asked while its kernel boots shuts down by itself all the same.
func stopBooting(t *testing.T, s Subject) {
	if !s.Driver.Capabilities().SoftStop {
		return
	}
	booting := s.Listening
	if s.Linux != nil {
		booting = s.Linux
	}
	s.launch(t, first, booting)
	if s.Linux == nil { // a guest without a kernel hears nothing that it was asked before it listens
		s.Up(first)
	}
	ok(t, s.Driver.Stop(t.Context(), first, Patience))
	s.goodbyes(t, 1)
}

func softReboot(t *testing.T, s Subject) {
	if !s.Driver.Capabilities().SoftStop {
		return
	}
	s.launch(t, first, s.Listening)
	s.Up(first)
	ok(t, s.Driver.Reboot(t.Context(), first, Patience))
	s.goodbyes(t, 1)
	if m := only(t, s.Driver); m.Power != compute.PowerRunning {
		t.Errorf("rebooted softly, and List gives %+v", m)
	}
	s.launched(t, first, 1)
}

func deafStop(t *testing.T, s Subject) {
	s.launch(t, first, s.Deaf)
	ok(t, s.Driver.Stop(t.Context(), first, 300*time.Millisecond))
	if m := only(t, s.Driver); m.Power != compute.PowerStopped {
		t.Errorf("a deaf guest was stopped, and List gives %+v", m)
	}
	ok(t, s.Driver.Start(t.Context(), first))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Driver.Stop(ctx, first, Patience); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a Stop that was broken off answers %v", err)
	}
	if m := only(t, s.Driver); m.Power != compute.PowerRunning {
		t.Errorf("a deaf guest was asked and left alone, and List gives %+v", m)
	}
	s.goodbyes(t, 0)
}

// goodbyes counts how often the guest has shut down by itself.
func (s Subject) goodbyes(t *testing.T, want int) {
	t.Helper()
	said := func() int { return strings.Count(s.printed(t, first), s.Goodbye) }
	Await(t, "the goodbye is on the console", func() bool { return said() >= want }) // another process may write it
	if n := said(); n != want {
		t.Errorf("the guest said goodbye %d times, want %d", n, want)
	}
}

// printed is all of a guest's console.
func (s Subject) printed(t *testing.T, id compute.InstanceID) string {
	t.Helper()
	c, has := hypervisor.As[hypervisor.Console](s.Driver)
	if !has {
		t.Fatal("soft stops can only be told from hard ones by a console")
	}
	var all []byte
	for {
		part, err := c.Console(t.Context(), id, int64(len(all)), 100)
		ok(t, err)
		if len(part.Data) == 0 {
			return string(all)
		}
		all = append(all, part.Data...)
	}
}
