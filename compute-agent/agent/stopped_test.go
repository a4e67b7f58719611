// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// changes are why an instance stopped, as its reports of changes say; "" is that
// it runs.
func (c *cell) changes(n int) (why []compute.ReasonCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.reports {
		switch {
		case r.Op != compute.ReportChanged || r.Instance != id(n):
		case r.Stopped == nil:
			why = append(why, "")
		default:
			why = append(why, r.Stopped.Code)
		}
	}
	return why
}

// Why a machine stopped is told with it, soon after the hypervisor says that
// something happened, and again after a restart.
func TestWhyMachinesStop(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		for i := range 4 {
			c.boot(i+1, "small")
		}
		pass(16 * time.Second) // the next poll is 14 s away
		if err := errors.Join(c.host.Kill(id(1)), c.host.PowerOff(id(2)), c.host.Kill(id(4))); err != nil {
			c.t.Fatal(err)
		}
		c.command(3, compute.OpStop, 7)
		pass(time.Second)
		for i, want := range map[int][]compute.ReasonCode{
			1: {compute.MachineKilled}, 2: {compute.GuestShutdown}, 3: {compute.StoppedByCommand},
		} {
			if diff := cmp.Diff(want, c.changes(i)); diff != "" {
				c.t.Errorf("instance %d: %s", i, diff)
			}
		}
		// A stop of what was stopped otherwise is answered with why it does not run.
		c.command(4, compute.OpStop, 7)
		c.command(1, compute.OpStart, 7)
		pass(time.Second)
		if diff := cmp.Diff([]compute.ReasonCode{compute.MachineKilled, ""}, c.changes(1)); diff != "" {
			c.t.Errorf("started again: %s", diff)
		}
		if diff := cmp.Diff(
			[]compute.ReasonCode{compute.MachineKilled, compute.MachineKilled}, c.changes(4),
		); diff != "" {
			c.t.Errorf("killed, then stopped: %s", diff)
		}
		stop(c, n)

		if err := c.host.Crash(); err != nil {
			c.t.Fatal(err)
		}
		n = c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.mu.Lock()
		last := map[compute.InstanceID]compute.Report{}
		for _, r := range c.reports {
			if r.Op == compute.ReportStarted {
				last[r.Instance] = r
			}
		}
		c.mu.Unlock()
		for i, want := range map[int]compute.ReasonCode{
			1: compute.HostRestarted, 2: compute.GuestShutdown, 3: compute.StoppedByCommand,
		} {
			if r := last[id(i)]; r.Stopped == nil || r.Stopped.Code != want {
				c.t.Errorf("after the restart, instance %d: %+v, want %s", i, r.Stopped, want)
			}
		}
		stop(c, n)
	})
}

// A guest that does not listen has as long as its command says, if that is more than its host gives.
func TestAGuestHasItsGrace(t *testing.T) {
	deaf := fake.Options{Deaf: func(compute.InstanceID) bool { return true }}
	story(t, deaf, func(c *cell, dir string) {
		n := c.start(dir, deaf, nil)
		c.boot(1, "small")
		c.boot(2, "small")
		pass(5 * time.Second)
		c.commandWith(1, compute.PowerCommand{Op: compute.OpStop, Version: 7, Grace: 10 * time.Minute})
		c.commandWith(2, compute.PowerCommand{Op: compute.OpStop, Version: 7, Grace: time.Second})
		pass(29 * time.Second)
		stopped := func(want ...int) {
			t.Helper()
			for i := range 2 {
				if got := c.counts(fake.Stopped)[id(i+1)]; got != want[i] {
					t.Errorf("%d was stopped %d times", i+1, got)
				}
			}
		}
		stopped(0, 0)
		pass(2 * time.Second)
		stopped(0, 1)
		pass(9 * time.Minute)
		stopped(0, 1)
		pass(time.Minute)
		stopped(1, 1)
		stop(c, n)
	})
}

// A reboot is done once, even if nobody heard that it was, and the agent knows nothing of it any more.
func TestARebootThatALostJournalKnew(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(5 * time.Second)
		reboot := compute.PowerCommand{Op: compute.OpReboot, Version: 7, Journal: n.agent.begin.ID}
		c.commandWith(1, reboot)
		pass(5 * time.Second)
		stop(c, n)
		n = c.start(t.TempDir(), fake.Options{}, nil)
		pass(5 * time.Minute)
		c.commandWith(1, reboot) // by a conductor that has heard neither the answer, nor of the new journal
		pass(5 * time.Second)
		if got := c.counts(fake.Rebooted)[id(1)]; got != 1 {
			t.Errorf("it was rebooted %d times", got)
		}
		if c.insts[id(1)].command != nil {
			t.Error("the reboot is not answered")
		}
		reboot.Version, reboot.Journal = 8, n.agent.begin.ID
		c.commandWith(1, reboot)
		pass(5 * time.Second)
		if got := c.counts(fake.Rebooted)[id(1)]; got != 2 {
			t.Errorf("with the next it was rebooted %d times", got)
		}
		stop(c, n)
	})
}

// A journal that is put back from an older copy does nothing once more that was done and answered since.
func TestAnOlderCopyOfTheJournal(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(5 * time.Second)
		stop(c, n)
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		n = c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for version, op := range []compute.RequestOp{compute.OpReboot, compute.OpStop, compute.OpStart} {
			c.command(1, op, compute.Version(version+5))
			pass(5 * time.Second)
		}
		stop(c, n)
		c.mu.Lock()
		c.insts[id(1)].command = nil // as it was answered
		c.mu.Unlock()
		n = c.start(copied, fake.Options{}, nil)
		pass(5 * time.Minute)
		for _, kind := range []fake.EventKind{fake.Rebooted, fake.Stopped, fake.Resumed} {
			if got := c.counts(kind)[id(1)]; got != 1 {
				t.Errorf("%d times %s", got, kind)
			}
		}
		stop(c, n)
	})
}
