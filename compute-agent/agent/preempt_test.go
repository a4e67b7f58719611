// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// makeRoom has the host save room for a queue, and have machines taken away for it.
func (c *cell) makeRoom(q string) {
	c.mu.Lock()
	look := compute.Look{Queue: compute.QueueName(q), Save: time.Hour, Preempt: true}
	c.say(compute.Command{Op: compute.CommandLook, Look: &look, At: time.Now()})
	c.mu.Unlock()
	pass(time.Second)
}

// asked are the machines whose places were asked for, in all, and how often.
func (c *cell) asked() (ids []compute.InstanceID, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	once := map[compute.InstanceID]bool{}
	for _, r := range c.reports {
		if r.Op == compute.ReportPreempt && r.Queue == "large" {
			once[r.Instance] = true
			times++
		}
	}
	return slices.Sorted(maps.Keys(once)), times
}

// A host that is told again to make room, and one that was started again meanwhile, asks for the same places and no others; once
// it has taken the work it asks for none, and its claim says how many went.
func TestAskedForOnce(t *testing.T) {
	large := compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8192}
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 8; n++ { // of 2 GiB each: the host is full
			c.boot(n, "small", func(b *compute.Build) { b.Preemptible = n > 1 && n < 8 })
		}
		pass(time.Minute)
		if b := c.beacon(); !b.Preempts || b.Preemptible[compute.MemoryMB] != 6*2048 {
			t.Errorf("the beacon says that %v may be taken away", b.Preemptible)
		}
		c.makeRoom("large")
		first, _ := c.asked()
		if len(first) != 4 || slices.Contains(first, id(1)) || slices.Contains(first, id(8)) {
			t.Fatalf("asked for were %v", first)
		}
		c.makeRoom("large")
		stop(c, c.node)
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		c.makeRoom("large")
		if again, times := c.asked(); !slices.Equal(again, first) || times != 12 {
			t.Errorf("asked for were %v, %d times in all", again, times)
		}
		pass(20 * time.Second)
		if b := c.beacon(); b.Preemptible[compute.MemoryMB] != 2*2048 || b.Saving == nil || !b.Saving.Preempt {
			t.Errorf("the beacon says that %v may be taken away, for %+v", b.Preemptible, b.Saving)
		}
		for n := 1; n <= 8; n++ {
			if slices.Contains(first, id(n)) {
				c.delete(n)
			}
		}
		pass(5 * time.Second)
		c.makeRoom("large") // there is room
		c.boot(9, "large")
		pass(5 * time.Second)
		c.boot(10, "large")
		c.makeRoom("large") // said before the queue manager knew that the first was taken
		if again, times := c.asked(); !slices.Equal(again, first) || times != 12 || c.state(9) != compute.StateActive {
			t.Errorf("asked for were %v, %d times in all", again, times)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}
