// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// atEachPhase tells a story five times, each with the work's arrival at another
// moment of the fetch that is open.
func atEachPhase(t *testing.T, first, second string, then func(c *cell), queues ...compute.Queue) {
	for phase := range 5 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				n := c.start(dir, fake.Options{}, nil)
				c.boot(1, first)
				pass(20*time.Second + time.Duration(phase)*time.Second)
				c.boot(2, second)
				pass(time.Second)
				then(c)
				stop(c, n)
			}, queues...)
		})
	}
}

// Room that appears while a fetch is open is offered at once: what waits for it
// does not wait for that fetch to end, whenever it began.
func TestRoomIsOfferedBesideAnOpenFetch(t *testing.T) {
	atEachPhase(t, "large", "large", func(c *cell) {
		c.want(compute.StateActive, compute.StateQueued)
		c.delete(1)
		pass(500 * time.Millisecond)
		c.want(compute.StateDeleted, compute.StateActive)
	}, queue("small", compute.Resources{compute.VCPU: 1}), queue("large", compute.Resources{compute.VCPU: 12}))
}

// A queue that is opened while a fetch is open is waited on at once.
func TestNewQueueIsWaitedOnBesideAnOpenFetch(t *testing.T) {
	for phase := range 5 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				n := c.start(dir, fake.Options{}, nil)
				pass(20*time.Second + time.Duration(phase)*time.Second)
				c.add(queue("new", compute.Resources{compute.VCPU: 1}))
				c.list()
				pass(100 * time.Millisecond)
				c.boot(1, "new")
				pass(500 * time.Millisecond)
				c.want(compute.StateActive)
				stop(c, n)
			}, queue("small", compute.Resources{compute.VCPU: 1}))
		})
	}
}

// What the open fetch reserves stays reserved until it ends: work that fits the
// host alone, but not beside it, waits that long.
func TestRoomThatIsReservedIsOfferedWhenTheFetchEnds(t *testing.T) {
	atEachPhase(t, "half", "all", func(c *cell) {
		c.delete(1)
		pass(5500 * time.Millisecond)
		c.want(compute.StateDeleted, compute.StateActive)
	}, queue("half", compute.Resources{compute.VCPU: 8}), queue("all", compute.Resources{compute.VCPU: 16}))
}

// A fetch in the secondary session that does not end keeps no work from the primary session.
func TestStuckSecondarySession(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.hang = true
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "large")
		pass(20 * time.Second)
		c.delete(1)
		pass(time.Second) // the secondary session waits for more of these, and goes on to
		for i := 2; i < 5; i++ {
			c.boot(i, "small")
			pass(2 * time.Second)
		}
		c.want(compute.StateDeleted, compute.StateActive, compute.StateActive, compute.StateActive)
		stop(c, n)
	}, queue("small", compute.Resources{compute.VCPU: 1}), queue("large", compute.Resources{compute.VCPU: 12}))
}
