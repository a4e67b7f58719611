// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// refuse has a project ask for what there is not.
func (c *checked) refuse(p compute.Project, n int, now time.Time) Output {
	c.t.Helper()
	r := compute.Request{
		Op: compute.OpBoot, Project: p, Instance: long(fmt.Sprint(n)), At: now,
		Boot: &compute.Boot{Flavor: "none", UserData: "secret", SSHKeys: []string{}},
	}
	return c.step(Requested{Request: r}, catalog(), now)
}

// TestUserDataGoesWithTheInstance: however it ends.
func TestUserDataGoesWithTheInstance(t *testing.T) { testUserDataGoes(t, true) }

// TestSealedUserDataGoesWithTheInstance likewise.
func TestSealedUserDataGoesWithTheInstance(t *testing.T) { testUserDataGoes(t, false) }

func testUserDataGoes(t *testing.T, open bool) {
	for end, lines := range map[string]string{
		"refused":              "",
		"deleted":              "delete 1",
		"too late":             "+2h",
		"failed":               "claim 1 host=h1\nfailed 1 host=h1 class=request",
		"lost":                 "claim 1 host=h1\nstarted 1 host=h1\ngone 1 host=h1",
		"deleted where it ran": "claim 1 host=h1\nstarted 1 host=h1\ndelete 1\ngone 1 host=h1",
	} {
		t.Run(end, func(t *testing.T) {
			s := newStory(t)
			boot := &compute.Boot{Flavor: "m1.small", Sealed: compute.Sealed("secret"), Attempts: 1}
			if open {
				boot.Sealed, boot.UserData = "", "secret"
			}
			if end == "refused" {
				boot.Flavor = "none"
			}
			s.state.t = t
			s.hear(Requested{
				Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: long("1"), Boot: boot, At: s.now},
			})
			s.tell(t, lines)
			inst := s.state.Instance(long("1"))
			if !inst.State.Ended() || inst.Boot.UserData != "" || inst.Boot.Sealed != "" {
				t.Errorf("%s, with user data %q, sealed %q", inst.State, inst.Boot.UserData, inst.Boot.Sealed)
			}
			for _, before := range s.state.log[:len(s.state.log)-1] {
				if before.Boot.UserData == "" && before.Boot.Sealed == "" {
					t.Errorf("version %d (%s) has lost its user data", before.Version, before.State)
				}
			}
		})
	}
}

// TestEndedOnesAreBounded: of each project the newest stay, with a takeover in between too.
func TestEndedOnesAreBounded(t *testing.T) {
	opts := Defaults()
	opts.MaxEnded = 3
	c := fresh(t)
	c.State = New(opts)
	now := epoch
	for n := 1; n <= 5; n++ {
		now = now.Add(time.Second)
		c.refuse("p", n, now)
	}
	c.refuse("q", 6, now)
	there := func(want ...int) {
		t.Helper()
		if c.Len() != len(want) {
			t.Errorf("%d records, want %v", c.Len(), want)
		}
		for _, n := range want {
			if c.Instance(long(fmt.Sprint(n))) == nil {
				t.Errorf("%d is gone", n)
			}
		}
	}
	there(3, 4, 5, 6)
	// Deleted, it has ended just now.
	now = now.Add(time.Second)
	c.step(Requested{Request: compute.Request{Op: compute.OpDelete, Project: "p", Instance: long("3")}}, catalog(), now)
	now = now.Add(time.Second)
	c.refuse("p", 7, now)
	there(3, 5, 6, 7)
	// The next owner keeps fewer: all that is too much goes with whatever it hears first.
	opts.MaxEnded = 1
	next := fresh(t)
	next.State = New(opts)
	for _, inst := range c.last {
		next.last[inst.ID] = inst
		next.Load(inst, catalog(), now)
	}
	c = next
	c.step(HostsRead{}, catalog(), now)
	there(6, 7)
	if due := c.NextDue(); !due.Equal(epoch.Add(5 * time.Second).Add(opts.KeepEnded)) {
		t.Errorf("the next is forgotten at %v", due)
	}
	c.step(Tick{Until: epoch.Add(6 * time.Second).Add(opts.KeepEnded)}, catalog(), now)
	there(7)
}

// TestManyThatEndedGoPiecemeal: no step writes more than a batch holds.
func TestManyThatEndedGoPiecemeal(t *testing.T) {
	opts := Defaults()
	s := New(opts)
	for n := range 2*maxTrimmed + 100 {
		s.Load(
			&compute.Instance{
				ID: long(fmt.Sprint(n)), Project: "p", State: compute.StateError, Version: 1, EndedAt: epoch,
			},
			catalog(), epoch,
		)
	}
	s.opts.MaxEnded = 50
	for _, e := range s.instances {
		s.addEnded(e)
		break
	}
	for _, want := range []int{maxTrimmed, maxTrimmed, 50, 0} {
		if out := s.Step(HostsRead{}, catalog(), epoch); len(out.Removed) != want {
			t.Errorf("%d are forgotten, want %d", len(out.Removed), want)
		}
	}
	if s.Len() != 50 || len(s.timers.items) != 50 {
		t.Errorf("%d are left, with %d timers", s.Len(), len(s.timers.items))
	}
}

// TestEndedAtOnceGoInOrder: of those that ended at the same time the first goes first.
func TestEndedAtOnceGoInOrder(t *testing.T) {
	opts := Defaults()
	opts.MaxEnded = 3
	c := fresh(t)
	c.State = New(opts)
	for n := 1; n <= 9; n++ {
		c.refuse("p", n, epoch)
		for before := 1; before <= n; before++ {
			if there := c.Instance(long(fmt.Sprint(before))) != nil; there != (before > n-3) {
				t.Fatalf("after %d: %d is there: %t", n, before, there)
			}
		}
	}
}

// TestEndedAt: records of before say only when they were changed.
func TestEndedAt(t *testing.T) {
	later := epoch.Add(time.Hour)
	if at := endedAt(&compute.Instance{ChangedAt: later}); !at.Equal(later) {
		t.Error(at)
	}
	if at := endedAt(&compute.Instance{ChangedAt: later, EndedAt: epoch}); !at.Equal(epoch) {
		t.Error(at)
	}
}

// TestEndedWithoutReason: a record that does not say why it ended denies claims all the same.
func TestEndedWithoutReason(t *testing.T) {
	s := newStory(t)
	inst := &compute.Instance{ID: long("1"), Project: "p", State: compute.StateError, Version: 1, Attempt: 1,
		EndedAt: epoch}
	s.state.Load(inst, s.view, s.now)
	out := s.state.Step(Reported{Report: report(t, "claim", parse([]string{"1", "host=h1"}))}, s.view, s.now)
	if len(out.Effects) != 1 || out.Effects[0].(Tell).Command.Op != compute.CommandDeny {
		t.Errorf("%+v", out)
	}
}
