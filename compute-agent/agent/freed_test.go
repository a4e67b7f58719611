// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// whole is a queue with work that takes all that a host has.
func whole() compute.Queue {
	return queue("whole", compute.Resources{compute.VCPU: 16, compute.MemoryMB: 16384})
}

// What was kept for a preparation that was called off is free once nothing is left of
// it: the same work, which went back to its queue, is taken here again.
func TestRoomAfterACancelledPrepare(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{PrepareTime: 20 * time.Second, DestroyTime: 5 * time.Second}, nil)
		c.boot(1, "whole")
		pass(5 * time.Second)
		c.fence() // what is being prepared is called off
		pass(2 * time.Second)
		if got := c.waits(); got != nil {
			c.t.Errorf("while it is undone the host waits on %v", got)
		}
		if s := n.agent.Stats(); s.Taken != 1 {
			c.t.Errorf("while it is undone: %+v", s)
		}
		pass(10 * time.Second)
		if s := n.agent.Stats(); s.Taken != 2 {
			c.t.Errorf("once it is undone: %+v", s)
		}
		pass(time.Minute)
		c.want(compute.StateActive)
		stop(c, n)
	}, whole())
}

// What ends without a word, because its claim was denied, holds its room until nothing
// is left of it, and no longer.
func TestRoomOfWhatEndsQuietly(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{PrepareTime: 2 * time.Second, DestroyTime: 20 * time.Second}, nil)
		c.boot(1, "whole")
		pass(time.Second)
		c.delete(1) // its claim will be denied
		c.boot(2, "whole")
		pass(5 * time.Second)
		free := c.beacon().Free
		if got := c.waits(); got != nil || free[compute.VCPU] != 0 {
			c.t.Errorf("while it is undone the host waits on %v and has %v free", got, free)
		}
		pass(time.Minute)
		c.want(compute.StateDeleted, compute.StateActive)
		stop(c, n)
	}, whole())
}

// Room that a delete gave back is in a beacon at once: the beacon that went along with the report of the delete still
// says that the host is full, and what waits is rung for only once a later one says otherwise.
func TestFreedRoomIsTold(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "whole")
		pass(20 * time.Second)
		c.want(compute.StateActive)
		if free := c.beacon().Free; free[compute.VCPU] != 0 {
			c.t.Fatalf("before the delete %v is free", free)
		}
		c.delete(1)
		pass(2 * time.Second)
		c.want(compute.StateDeleted)
		if free := c.beacon().Free; free[compute.VCPU] != 16 {
			c.t.Errorf("2 s after the delete the last beacon says that %v is free", free)
		}
		stop(c, n)
	}, whole())
}
