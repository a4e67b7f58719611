// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// failed tells that the fetch in a queue's session failed.
func (d *fixture) failed(queue string) {
	d.Ended(wire.Pulled{
		Session: wire.SessionID{Group: "g", Broker: int32(queue[0])}, Err: errors.New("the broker does not answer"),
	}, d.now)
}

// Work of a high class is said to lie at a broker that does not answer this host: it takes other work meanwhile.
func TestABrokerThatFailsHoldsUpNoLowerClass(t *testing.T) {
	d := newFixture(t)
	d.addTier("a", compute.PriorityHigh, 10)
	d.add("b 10")
	d.rings("a.priority-high", 1)
	d.rings("b", 1)
	d.look()
	d.told("open a.priority-high 100ms")
	d.failed("a")
	d.look()
	d.told("open b 100ms")
}

// So does a queue that is late.
func TestABrokerThatFailsHoldsUpNothingBehindLateWork(t *testing.T) {
	d := newFixture(t, "a 10", "b 10")
	d.Advise(compute.Advice{At: d.now, Rings: true, Full: true, About: []compute.QueueAdvice{
		{Queue: "a", Depth: 1, Late: true, Oldest: d.now.Add(-time.Minute)},
		{Queue: "b", Depth: 1, Oldest: d.now.Add(-time.Second)},
	}}, d.now)
	d.ring(compute.Look{Queue: "a"})
	d.told("open a 100ms")
	d.failed("a")
	d.ring(compute.Look{Queue: "b"})
	d.told("open b 100ms")
}
