package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// Room that appears while a fetch is open is offered at once: what waits for it
// does not wait for that fetch to end, whenever it began.
func TestRoomIsOfferedBesideAnOpenFetch(t *testing.T) {
	for phase := range 5 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				n := c.start(dir, fake.Options{}, nil)
				c.boot(1, "large")
				pass(20*time.Second + time.Duration(phase)*time.Second)
				c.boot(2, "large")
				pass(time.Second)
				c.want(compute.StateActive, compute.StateQueued)
				c.delete(1)
				pass(500 * time.Millisecond)
				c.want(compute.StateDeleted, compute.StateActive)
				stop(c, n)
			}, queue("small", compute.Resources{compute.VCPU: 1}), queue("large", compute.Resources{compute.VCPU: 12}))
		})
	}
}

// What the open fetch reserves stays reserved until it ends: work that fits the
// host alone, but not beside it, waits that long.
func TestRoomThatIsReservedIsOfferedWhenTheFetchEnds(t *testing.T) {
	for phase := range 5 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				n := c.start(dir, fake.Options{}, nil)
				c.boot(1, "half")
				pass(20*time.Second + time.Duration(phase)*time.Second)
				c.boot(2, "all")
				pass(time.Second)
				c.delete(1)
				pass(5500 * time.Millisecond)
				c.want(compute.StateDeleted, compute.StateActive)
				stop(c, n)
			}, queue("half", compute.Resources{compute.VCPU: 8}), queue("all", compute.Resources{compute.VCPU: 16}))
		})
	}
}

// A fetch in the spare lane that does not end keeps nobody from the first lane.
func TestStuckSpareLane(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.hang = true
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "large")
		pass(20 * time.Second)
		c.delete(1)
		pass(time.Second) // the spare lane waits for more of these, and goes on to
		for i := 2; i < 5; i++ {
			c.boot(i, "small")
			pass(2 * time.Second)
		}
		c.want(compute.StateDeleted, compute.StateActive, compute.StateActive, compute.StateActive)
		stop(c, n)
	}, queue("small", compute.Resources{compute.VCPU: 1}), queue("large", compute.Resources{compute.VCPU: 12}))
}
