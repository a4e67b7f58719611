// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// smallHost is a simulated host with room for sixteen small machines.
func smallHost(n int, traits ...compute.Trait) cell.SimulatedHost {
	h := cell.PlainHost(n, traits...)
	h.Inventory.Reserved = nil
	h.Inventory.Totals = compute.Resources{compute.VCPU: 16, compute.MemoryMB: 64 << 10, compute.DiskGB: 500}
	return h
}

// small is a flavor that fits a small host sixteen times.
func small(name compute.FlavorName, axes ...compute.AxisName) compute.Flavor {
	return compute.Flavor{
		Name:         name,
		Capabilities: axes,
		Resources:    compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1024, compute.DiskGB: 10},
	}
}

func smallHosts(n int) []cell.SimulatedHost {
	var hosts []cell.SimulatedHost
	for i := 1; i <= n; i++ {
		hosts = append(hosts, smallHost(i))
	}
	return hosts
}

func TestBootAndDelete(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(5)...).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		ids := r.boot(c, 40, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.exactlyOnce(ids)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		r.sane()
		for _, h := range r.world.Hosts() {
			if left := h.Machines(); len(left) > 0 {
				t.Errorf("%s still has %v", h.ID(), left)
			}
		}
	})
}

func TestFullCloudFillsUpAsMachinesGo(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		first := r.boot(c, 32, compute.Boot{Flavor: "m1.small"})
		r.await(first, compute.StateActive)
		second := r.boot(c, 10, compute.Boot{Flavor: "m1.small"})
		r.await(second, compute.StateQueued)
		r.delete(c, first[:10])
		r.await(first[:10], compute.StateDeleted)
		r.await(second, compute.StateActive)
		r.exactlyOnce(append(first, second...))
	})
}

// Two thousand boots at 100/s over 100 agents and 10 queues on one real broker:
// all active, each launched exactly once, nothing lost, nothing doubled. Under
// the race detector it is fullLoad's quarter.
func TestTwoThousandBootsOverAHundredAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafkatest.Kafka(t), roomyHosts(100)...).up()
	c := r.as("p")
	var flavors []compute.Flavor
	for i := range 10 {
		flavors = append(flavors, small(compute.FlavorName(fmt.Sprintf("m1.f%d", i))))
	}
	r.offer(c, nil, flavors)
	n, rate := fullLoad()
	ids := r.bootAtRate("p", n, rate, func(i int) compute.Boot {
		return compute.Boot{Flavor: flavors[i%len(flavors)].Name}
	})
	r.await(ids, compute.StateActive)
	r.exactlyOnce(ids)
	r.logLatency(ids)
}
