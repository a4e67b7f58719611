// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
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
