// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

// axesOf are n axes of as many values each.
func axesOf(n, values int) (axes []compute.Capability, names []compute.AxisName) {
	for i := range n {
		a := compute.Capability{Axis: compute.AxisName(fmt.Sprint("axis", i))}
		for v := range values {
			a.Values = append(a.Values, compute.CapabilityValue{Value: compute.AxisValue(fmt.Sprint("v", v))})
		}
		axes, names = append(axes, a), append(names, a.Axis)
	}
	return axes, names
}

// A burst for one of many queues that few hosts serve is placed, and hosts find it
// without searching through all the others. They used to: of 60 boots for one of 200
// queues some were not placed after minutes, with room for all of them.
func TestABurstForOneOfManyQueues(t *testing.T) {
	for _, c := range []struct{ hosts, axes, values, queues int }{
		{3, 2, 13, 196}, // the choices are 14 on each axis: none is one
		{1, 3, 6, 343},
	} {
		t.Run(fmt.Sprint(c.queues, " queues, ", c.hosts, " hosts"), func(t *testing.T) {
			kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
				r := newRig(t, b, roomyHosts(c.hosts)...)
				r.metrics = telemetry.NewMetrics()
				r.up()
				p := r.as("p")
				axes, names := axesOf(c.axes, c.values)
				r.offer(p, axes, []compute.Flavor{small("m1.small", names...)})
				before, began := shareFetches(t, r), time.Now()
				one := compute.Boot{Flavor: "m1.small", With: compute.Choices{"axis0": "v3", "axis1": "v5"}}
				ids := r.boot(p, 47, one)
				for i := range 3 {
					other := compute.Boot{
						Flavor: "m1.small",
						With:   compute.Choices{"axis0": compute.AxisValue(fmt.Sprint("v", i))},
					}
					ids = append(ids, r.boot(p, 1, other)...)
				}
				r.await(ids, compute.StateActive)
				r.exactlyOnce(ids)
				looks := float64(c.hosts) * float64(time.Since(began)/fetch.ShortPoll) // while they wait for the next one
				if each := (shareFetches(t, r) - before - looks) / float64(len(ids)); each > mostLooks {
					t.Errorf("%.1f share fetches a boot, want %d at most", each, mostLooks)
				}
			})
		})
	}
}

// mostLooks is how many share fetches a boot may cost where queues are many: it takes
// one, a few hosts look in vain, and a machine that is slow has some look again.
const mostLooks = 12

func shareFetches(t *testing.T, r *rig) float64 {
	t.Helper()
	n, _ := telemetrytest.Value(t, r.metrics.Gatherer(), "berth_kafka_request_duration_seconds", "api", "ShareFetch")
	return n
}

// Boots that avoid the only host with room wait, and hold up nobody else's in other
// queues.
func TestBootsThatAvoidTheOnlyHostHoldUpNobody(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, roomyHosts(1)...).up()
		axes, names := axesOf(2, 13)
		admin := r.as("p")
		r.offer(admin, axes, []compute.Flavor{small("m1.small", names...)})
		with := func(v int, avoid ...compute.HostID) compute.Boot {
			return compute.Boot{
				Flavor: "m1.small", Avoid: avoid,
				With: compute.Choices{"axis0": compute.AxisValue(fmt.Sprint("v", v))},
			}
		}
		selfish := r.as("selfish")
		var held []compute.InstanceID
		for i := range 6 {
			held = append(held, r.boot(selfish, 1, with(i, r.hosts[0].ID))...)
		}
		r.await(held, compute.StateQueued) // the partition of one project is read apart from that of the other
		var ids []compute.InstanceID
		for i := range 6 {
			ids = append(ids, r.boot(admin, 2, with(6+i))...)
		}
		r.await(ids, compute.StateActive)
		r.exactlyOnce(ids)
		for _, id := range held {
			if s := r.seen.get(id).State; s != compute.StateQueued {
				t.Errorf("%s avoids the only host, and is %s", id, s)
			}
		}
	})
}
