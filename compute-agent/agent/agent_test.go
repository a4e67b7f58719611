// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

var small = compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2048}

// story runs an agent in virtual time, and checks at its end that the host and
// the conductor agree.
func story(t *testing.T, d fake.Options, tell func(c *cell, dir string), queues ...compute.Queue) {
	t.Helper()
	if len(queues) == 0 {
		queues = []compute.Queue{queue("small", small)}
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queues...)
		tell(c, dir)
		c.check()
		close(c.over)
	})
}

// pass lets time go by until everything rests.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestBootAndDelete(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{PrepareTime: 45 * time.Second, LaunchTime: time.Second}, nil)
		for i := 1; i <= 3; i++ {
			c.boot(i, "small")
		}
		pass(50 * time.Second)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		for _, it := range c.queues["small"].items {
			if it.delivery != 1 || !it.done {
				c.t.Errorf("its lock was not kept: delivery %d, done %t", it.delivery, it.done)
			}
		}
		c.delete(2)
		pass(time.Second)
		c.want(compute.StateActive, compute.StateDeleted, compute.StateActive)
		if got := c.counts(fake.Launched); len(got) != 3 {
			c.t.Errorf("launched %v", got)
		}
		if s := n.agent.Stats(); s.Taken != 3 || s.Launches != 3 || s.Released != 0 || !s.Offering {
			c.t.Errorf("stats %+v", s)
		}
		if err := n.end(); err != nil {
			c.t.Error(err)
		}
	})
}
