// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

func broken(t *testing.T, s Subject) {
	if len(s.Broken) == 0 {
		t.Fatal("the subject has nothing that breaks")
	}
	for _, b := range s.Broken {
		t.Run(b.Name, func(t *testing.T) {
			spec := s.spec(first, 1, "c1")
			mend := b.Break(&spec)
			err := s.Driver.Prepare(t.Context(), spec)
			refused(t, "Prepare", err, b.Class)
			if hypervisor.OfImage(err) != b.Image {
				t.Errorf("the image is said to be at fault: %t, and is: %t: %v", !b.Image, b.Image, err)
			}
			s.empty(t)
			mend()
			ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 2, "c2")))
			ok(t, s.Driver.Destroy(t.Context(), first))
			s.empty(t)
		})
	}
}

func crash(t *testing.T, s Subject) {
	if len(s.Crashes) == 0 {
		t.Fatal("the subject has no moments to die at")
	}
	for _, c := range s.Crashes {
		t.Run(c.Name, func(t *testing.T) {
			s.die(t, c)
			s.goOn(t, s.Reopen())
			ok(t, s.Driver.Destroy(t.Context(), first))
			s.empty(t)
			s.die(t, c)
			ok(t, s.Reopen().Destroy(t.Context(), first))
			s.empty(t)
		})
	}
}

// die is the life of an agent that ends at that moment.
func (s Subject) die(t *testing.T, c Crash) {
	t.Helper()
	d := c.Driver()
	err := d.Prepare(t.Context(), s.spec(first, 1, "c1"))
	if err == nil {
		err = d.Launch(t.Context(), first, 1, "c1")
	}
	if !errors.Is(err, hypervisor.ErrCrash) {
		t.Fatalf("it was to die, and answers %v", err)
	}
}

// goOn is the next life: it brings the instance where the last one was going.
func (s Subject) goOn(t *testing.T, d hypervisor.Driver) {
	t.Helper()
	there := list(t, d)
	if len(there) > 1 {
		t.Fatalf("one was made, and List gives %+v", there)
	}
	if len(there) == 0 || !there[0].Launched {
		s.launched(t, first, 0)
		ok(t, d.Prepare(t.Context(), s.spec(first, 1, "c1")))
	} else if (there[0].Power == compute.PowerRunning) == there[0].Waits { // it is launched again only if it says so
		t.Errorf("its launch was begun and is never finished: %+v", there[0])
	}
	for range 2 {
		ok(t, d.Launch(t.Context(), first, 1, "c1"))
	}
	if m := only(t, d); !m.Launched || m.Power != compute.PowerRunning {
		t.Errorf("launched after a crash, and List gives %+v", m)
	}
	s.launched(t, first, 1)
}

func killed(t *testing.T, s Subject) {
	s.launch(t, first)
	s.Kill(first)
	for _, d := range []hypervisor.Driver{s.Driver, s.Reopen()} {
		if m := only(t, d); m.Power != compute.PowerStopped || !m.Launched || m.Detail == "" ||
			m.Why != compute.MachineKilled {
			t.Errorf("killed from outside, and List gives %+v", m)
		}
		ok(t, d.Launch(t.Context(), first, 1, "c1"))
		ok(t, d.Stop(t.Context(), first, 0))
		if m := only(t, d); m.Power != compute.PowerStopped {
			t.Errorf("a second Launch started a killed machine: %+v", m)
		}
	}
	ok(t, s.Driver.Start(t.Context(), first))
	if m := only(t, s.Driver); m.Power != compute.PowerRunning {
		t.Errorf("started again, and List gives %+v", m)
	}
	s.Kill(first)
	ok(t, s.Driver.Destroy(t.Context(), first))
	s.empty(t)
}

func foreign(t *testing.T, s Subject) {
	if !s.Driver.Capabilities().Foreign {
		return
	}
	before := s.foreign(t, nil)
	uses, alive := s.Foreign()
	s.launch(t, first)
	s.foreign(t, func(f compute.Foreign) bool {
		return uses.Equal(f.Uses) &&
			!slices.ContainsFunc(before, func(b compute.Foreign) bool { return b.PID == f.PID && b.Name == f.Name })
	})
	if m := only(t, s.Driver); m.Instance != first {
		t.Errorf("List gives somebody else's machine: %+v", m)
	}
	ok(t, s.Driver.Destroy(t.Context(), first))
	s.empty(t)
	if !alive() {
		t.Error("somebody else's machine is dead")
	}
}

// foreign lists the machines that are not Berth's; want is true for one of them.
func (s Subject) foreign(t *testing.T, want func(compute.Foreign) bool) []compute.Foreign {
	t.Helper()
	inv, err := s.Driver.Inventory(t.Context())
	ok(t, err)
	sum := compute.Resources{}
	for _, f := range inv.Foreign {
		sum = sum.Plus(f.Uses)
	}
	if !sum.Equal(inv.Unmanaged) {
		t.Errorf("unmanaged are %s, and the sum of %+v is %s", inv.Unmanaged, inv.Foreign, sum)
	}
	if want != nil && !slices.ContainsFunc(inv.Foreign, want) {
		t.Errorf("somebody else's machine is not among %+v", inv.Foreign)
	}
	return inv.Foreign
}

func capabilities(t *testing.T, s Subject) {
	c := s.Driver.Capabilities()
	if c.Driver == "" {
		t.Error("the driver has no name")
	}
	if _, has := hypervisor.As[hypervisor.Console](s.Driver); has != c.Console {
		t.Errorf("the driver says console: %t, and has one: %t", c.Console, has)
	}
	if _, has := hypervisor.As[hypervisor.Events](s.Driver); has != c.Events {
		t.Errorf("the driver says events: %t, and has them: %t", c.Events, has)
	}
}

func console(t *testing.T, s Subject) {
	c, has := hypervisor.As[hypervisor.Console](s.Driver)
	if !has {
		return
	}
	_, err := c.Console(t.Context(), second, 0, 100)
	refused(t, "Console of nothing", err, compute.FailureHost)
	s.launch(t, first)
	s.Up(first)
	whole := s.printed(t, first)
	if whole == "" {
		t.Fatal("the guest is up and has printed nothing")
	}
	part, err := c.Console(t.Context(), first, 3, 5)
	ok(t, err)
	if part.Offset != 3 || string(part.Data) != whole[3:8] || part.End < int64(len(whole)) {
		t.Errorf("bytes 3 to 8 of %q are %+v", whole, part)
	}
	part, err = c.Console(t.Context(), first, part.End+1000, 5)
	ok(t, err)
	if part.Offset != part.End || len(part.Data) != 0 {
		t.Errorf("behind the end there is %+v", part)
	}
	ok(t, s.Driver.Stop(t.Context(), first, 0))
	whole = s.printed(t, first)
	part, err = c.Console(t.Context(), first, -4, 100)
	ok(t, err)
	if string(part.Data) != whole[len(whole)-4:] {
		t.Errorf("the last 4 bytes of %q are %q", whole, part.Data)
	}
	ok(t, s.Driver.Start(t.Context(), first))
	s.Up(first)
	if again := s.printed(t, first); len(again) <= len(whole) || again[:len(whole)] != whole {
		t.Errorf("after a second boot the console is %q, before it was %q", again, whole)
	}
}

func events(t *testing.T, s Subject) {
	e, has := hypervisor.As[hypervisor.Events](s.Driver)
	if !has {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan hypervisor.Event, 100), make(chan error, 1)
	go func() { ended <- e.Events(ctx, func(e hypervisor.Event) { told <- e }) }()
	s.launch(t, first)
	await := func(power compute.PowerState, again func()) {
		t.Helper()
		waits, cancel := Waiting(t)
		defer cancel()
		retry := time.NewTicker(time.Second) // what happened before Events listened is never told
		defer retry.Stop()
		for {
			select {
			case got := <-told:
				if got.Instance == first && got.Power == power {
					return
				}
			case <-retry.C:
				again()
			case <-waits.Done():
				t.Fatalf("no event says %s", power)
			}
		}
	}
	start := func() { ok(t, s.Driver.Start(t.Context(), first)) }
	await(compute.PowerStopped, func() { start(); s.Kill(first) })
	await(compute.PowerRunning, start)
	cancel()
	if err := Receive(t, "the end of Events", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Events ended with %v", err)
	}
}
