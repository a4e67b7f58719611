// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/pkg/compute"
)

var (
	big = compute.Inventory{
		Totals: compute.Resources{compute.VCPU: 16, compute.MemoryMB: 32768, compute.DiskGB: 500},
	}
	small = compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1024, compute.DiskGB: 10}
)

// TestContractUnderPlaceholders: machines are what they are without package placeholder over the driver, and
// placeholders are instances without a machine.
func TestContractUnderPlaceholders(t *testing.T) {
	empty := func(t *testing.T) hypervisortest.Subject {
		w := fake.NewWorld()
		return under(t, subject(t, func() *fake.World { return w }))
	}
	t.Run("machines", func(t *testing.T) { hypervisortest.Run(t, empty) })
	t.Run("placeholders", func(t *testing.T) { hypervisortest.RunPlaceholders(t, empty) })
}

func TestContract(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		hypervisortest.Run(t, func(t *testing.T) hypervisortest.Subject {
			w := fake.NewWorld()
			return subject(t, func() *fake.World { return w })
		})
	})
	t.Run("folder", func(t *testing.T) {
		hypervisortest.Run(t, func(t *testing.T) hypervisortest.Subject {
			dir := t.TempDir()
			return subject(t, func() *fake.World {
				w, err := fake.OpenWorld(dir)
				if err != nil {
					t.Fatal(err)
				}
				return w
			})
		})
	})
}

func newDriver(t *testing.T, o fake.Options) (*fake.World, *fake.Host, *fake.Driver) {
	t.Helper()
	w := fake.NewWorld()
	h, err := w.Host("h1", big)
	if err != nil {
		t.Fatal(err)
	}
	return w, h, fake.NewDriver(h, o)
}

func spec(a compute.Attempt) hypervisor.Spec {
	return hypervisor.Spec{
		Instance: "i", Project: "p", Attempt: a, Claim: compute.ClaimID(fmt.Sprint("c", a)), Resources: small,
	}
}

// A device is one machine's.
func TestDeviceInUse(t *testing.T) {
	_, _, d := newDriver(t, fake.Options{})
	first, second := spec(1), spec(1)
	first.Devices = []compute.PCIAddress{"0000:3b:00.0"}
	second.Instance, second.Devices = "j", first.Devices
	if err := d.Prepare(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	var e *hypervisor.Error
	if err := d.Prepare(t.Context(), second); !errors.As(err, &e) || e.Class != compute.FailureHost {
		t.Errorf("Prepare with the other's device answers %v", err)
	}
	if err := d.Destroy(t.Context(), first.Instance); err != nil {
		t.Fatal(err)
	}
	if err := d.Prepare(t.Context(), second); err != nil {
		t.Errorf("Prepare once it is free answers %v", err)
	}
}

func TestFaults(t *testing.T) {
	broken := &hypervisor.Error{Class: compute.FailureRequest, Message: "no such image"}
	for name, c := range map[string]struct {
		fault    fake.Fault
		wantErr  error
		prepared bool
	}{
		"error before": {fake.Fault{Err: broken}, broken, false},
		"error after":  {fake.Fault{Err: broken, After: true}, broken, true},
		"hang":         {fake.Fault{Hang: true}, context.DeadlineExceeded, false},
		"too slow":     {fake.Fault{Slow: 2 * time.Minute}, context.DeadlineExceeded, false},
		"slow":         {fake.Fault{Slow: 30 * time.Second}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, h, d := newDriver(t, fake.Options{Fault: func(call fake.Call) *fake.Fault {
					if call.Method == "Prepare" && call.Host == "h1" {
						return &c.fault
					}
					return nil
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := d.Prepare(ctx, spec(1)); !errors.Is(err, c.wantErr) {
					t.Errorf("Prepare answers %v, want %v", err, c.wantErr)
				}
				if got := len(h.Machines()) == 1; got != c.prepared {
					t.Errorf("prepared: %t, want %t", got, c.prepared)
				}
			})
		})
	}
}

func TestCrashStopsWhatRan(t *testing.T) {
	w, h, d := newDriver(t, fake.Options{})
	if err := errors.Join(
		d.Prepare(t.Context(), spec(1)), d.Launch(t.Context(), "i", 1, "c1"), h.Crash(),
	); err != nil {
		t.Fatal(err)
	}
	if m := h.Machines()[0]; m.Power != compute.PowerStopped || !m.Launched {
		t.Errorf("after a power cut the machine is %+v", m)
	}
	n, err := w.Count(fake.Stopped)
	if err != nil || n["i"] != 1 {
		t.Errorf("the power cut was written down %d times (%v), want once", n["i"], err)
	}
}

func TestViolations(t *testing.T) {
	at := func(kind fake.EventKind, host compute.HostID, a compute.Attempt) fake.Event {
		return fake.Event{Kind: kind, Host: host, Instance: "i", Attempt: a}
	}
	for name, c := range map[string]struct {
		events []fake.Event
		want   int
	}{
		"once": {[]fake.Event{at(fake.Launched, "a", 1), at(fake.Destroyed, "a", 1)}, 0},
		"moved": {
			[]fake.Event{at(fake.Launched, "a", 1), at(fake.Destroyed, "a", 1), at(fake.Launched, "b", 2)}, 0,
		},
		"stopped then moved": {
			[]fake.Event{at(fake.Launched, "a", 1), at(fake.Stopped, "a", 1), at(fake.Launched, "b", 2)}, 0,
		},
		"two at once": {[]fake.Event{at(fake.Launched, "a", 1), at(fake.Launched, "b", 2)}, 1},
		"attempt twice": {
			[]fake.Event{at(fake.Launched, "a", 1), at(fake.Destroyed, "a", 1), at(fake.Launched, "b", 1)}, 1,
		},
		"woke beside": {
			[]fake.Event{
				at(fake.Launched, "a", 1), at(fake.Stopped, "a", 1), at(fake.Launched, "b", 2),
				at(fake.Resumed, "a", 1),
			},
			1,
		},
	} {
		if got := fake.Violations(c.events); len(got) != c.want {
			t.Errorf("%s: %d violations, want %d: %v", name, len(got), c.want, got)
		}
	}
}

// The oldest part of a long console is gone, and offsets still count it.
func TestLongConsole(t *testing.T) {
	_, h, d := newDriver(t, fake.Options{})
	if err := d.Prepare(t.Context(), spec(1)); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := h.Print("i", fmt.Sprintf("line %03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	part, err := d.Console(t.Context(), "i", 0, 1<<20)
	if err != nil || part.End != 9000 || part.Offset+int64(len(part.Data)) != 9000 || part.Offset == 0 {
		t.Errorf("the console is %d bytes from %d of %d, %v", len(part.Data), part.Offset, part.End, err)
	}
	if part, err = d.Console(t.Context(), "i", 8991, 9); err != nil || string(part.Data) != "line 999\n" {
		t.Errorf("the last line is %q, %v", part.Data, err)
	}
}
