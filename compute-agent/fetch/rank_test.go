// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// tiered is a host with room for one of a queue that has both tiers, all at one broker.
func tiered(t *testing.T) *fixture {
	d := newFixture(t)
	for _, p := range compute.Priorities() {
		d.addTier("q", p, 10)
	}
	return d
}

// addTier lists the queue of a class: how many processors its work needs.
func (d *fixture) addTier(base compute.QueueName, p compute.Priority, needs int64) {
	q := compute.Queue{Name: base, Resources: compute.Resources{compute.VCPU: needs}}.Tier(p)
	q.Group, q.TopicID = "g", "t"
	d.SetQueue(q, d.now)
}

func (d *fixture) rings(q compute.QueueName, minutes int) {
	d.Ring(compute.Look{Queue: q, Oldest: d.now.Add(-time.Duration(minutes) * time.Minute)}, d.now)
}

// A host with room for one that was rung for several classes looks where work ranks first, and, where nothing is, where
// it ranks next: what was said and is not so keeps it from nothing.
func TestARungHostLooksByRank(t *testing.T) {
	d := tiered(t)
	d.rings("q", 1)
	d.rings("q.priority-low", 1)
	d.rings("q.priority-high", 1)
	for _, want := range []string{"open q.priority-high 100ms", "open q 100ms", "open q.priority-low 100ms"} {
		d.look()
		d.told(want)
		d.ended("q", -1, 0)
	}
	d.rings("q", 1)
	d.rings("q.priority-low", 12)
	d.look()
	d.told("open q.priority-low 100ms")
}

// A host that waits on a queue and has room for one looks into the tier above it first, of which nobody has told it,
// and where there was nothing not again for an epoch.
func TestAHostLooksIntoTheTierAbove(t *testing.T) {
	d := tiered(t)
	d.Ring(compute.Look{Queue: "q", Hold: time.Minute}, d.now)
	d.look()
	d.told("open q.priority-high 100ms")
	d.ended("q", -1, 0)
	d.look()
	d.told("open q")
	d.ended("q", -1, 0)
	d.look()
	d.told("open q")
	d.ended("q", -1, 0)
	d.now = d.now.Add(16 * time.Second)
	d.look()
	d.told("open q.priority-high 100ms")
}

// A host waits on a queue for its hold, and the last ring said that work lies there, which others have taken since. It
// was rung for two other queues, and has no room for work of all three: what it waits on does not hold them up, be they
// of its class or of another.
func TestAHoldOfWorkThatWentHoldsUpNothing(t *testing.T) {
	d := newFixture(t)
	d.addTier("a", compute.PriorityHigh, 1)
	d.addTier("b", compute.PriorityHigh, 10)
	d.addTier("c", compute.PriorityLow, 1)
	d.Ring(compute.Look{Queue: "a.priority-high", Hold: time.Minute, Oldest: d.now.Add(-5 * time.Second)}, d.now)
	d.Ring(compute.Look{Queue: "b.priority-high", Oldest: d.now.Add(-time.Second)}, d.now)
	d.rings("c.priority-low", 1)
	d.look()
	d.told("open a.priority-high 100ms")
	d.ended("a", -1, 0)
	d.look()
	d.told("open b.priority-high 100ms")
	d.ended("b", -1, 0)
	d.look()
	d.told("open a.priority-high", "open c.priority-low 100ms")
}

// So it is where the host has one slot alone.
func TestAHoldInTheLastSlotHoldsUpNothing(t *testing.T) {
	d := tiered(t)
	d.slots = 1
	d.add("b 1")
	d.Ring(compute.Look{Queue: "q.priority-high", Hold: time.Minute}, d.now)
	d.rings("b", 1)
	d.look()
	d.told("open q.priority-high 100ms")
	d.ended("q", -1, 0)
	d.look()
	d.told("open b 100ms")
}

// A host that waits on a queue does so for a moment only where it was rung for another one, at another broker, for
// which it has no room beside.
func TestAHostWaitsForAMomentWhereItWasRungElsewhere(t *testing.T) {
	d := newFixture(t, "a1 7", "a2 6", "b 5")
	d.ring(compute.Look{Queue: "a1", Hold: time.Minute})
	d.told("open a1")
	d.ring(compute.Look{Queue: "a2", Hold: time.Minute})
	d.ring(compute.Look{Queue: "b"})
	d.told()
	for _, want := range []string{"open a2 500ms", "open b 100ms"} {
		d.ended("a", -1, 0)
		d.look()
		d.told(want)
	}
}
