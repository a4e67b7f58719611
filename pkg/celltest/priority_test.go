// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

func ranked(p compute.Priority) compute.Boot {
	return compute.Boot{Flavor: "m1.small", Rules: compute.RulesOf("", compute.Set{}, p)}
}

// launchedIDs are the machines that were launched, in that order.
func (r *rig) launchedIDs() (ids []compute.InstanceID) {
	r.t.Helper()
	events, err := r.world.Events()
	r.must(err)
	for _, e := range events {
		if e.Kind == fake.Launched {
			ids = append(ids, e.Instance)
		}
	}
	return ids
}

// told waits until the queue manager has said how much lies in the tiers of a queue.
func (r *rig) told(c *client.Client, depth uint64) {
	r.t.Helper()
	for _, p := range compute.Priorities() {
		name := compute.TierName("m1.small", p)
		r.poll(fmt.Sprintf("%d lie in %s", depth, name), func() bool {
			q, err := c.Queue(r.t.Context(), name)
			return err == nil && q.Advice != nil && q.Advice.Depth == depth
		})
	}
}

// TestHigherFirst: as room appears on full hosts, one place after the other, what waits is taken by its class. Nothing runs
// before that is of a lower class than something which is there, but where a broker takes longer to answer than a look lasts:
// of one place at a time none was seen. A broker that has much else to do does so, and hosts that looked into a tier in
// vain look again after 15 s: then another cell is asked.
// BERTH_PRIORITIES is how many of each class are booted, for a measurement.
func TestHigherFirst(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		n := 6
		if given, err := strconv.Atoi(os.Getenv("BERTH_PRIORITIES")); err == nil {
			n = given
		}
		const cells = 3
		prefix := b.Prefix
		for i := range cells {
			b.Prefix = fmt.Sprint(prefix, "cell", i, ".")
			wrong, order := wrongOrder(t, b, n)
			t.Logf("%d of %d pairs in the wrong order: %v", wrong, 3*n*n, order)
			// One that comes before all others of a higher class is a ninth of all pairs; without any order it is half of them.
			if 4*wrong <= 3*n*n {
				return
			}
		}
		t.Errorf("in each of %d cells more than a quarter of the pairs were in the wrong order", cells)
	})
}

// wrongOrder boots n of each class in a full cell, frees one place after the other, and says how many pairs of what was
// launched then were in the wrong order.
func wrongOrder(t *testing.T, b kafkatest.Broker, n int) (wrong int, order []compute.Priority) {
	t.Helper()
	r := newRig(t, b, smallHosts(3)...).up()
	defer r.stopAll()
	c := r.as("p")
	half := small("m1.small")
	half.Resources[compute.VCPU] = 8
	r.offer(c, nil, []compute.Flavor{half})
	// Two of each class are two on each host. A broker takes longer for the first work of a tier.
	var full []compute.InstanceID
	for _, p := range compute.Priorities() {
		full = append(full, r.boot(c, 2, ranked(p))...)
	}
	r.await(full, compute.StateActive)
	class := map[compute.InstanceID]compute.Priority{}
	for i := range 3 * n {
		p := []compute.Priority{compute.PriorityLow, compute.PriorityHigh, compute.PriorityNormal}[i%3]
		for _, id := range r.boot(c, 1, ranked(p)) {
			class[id] = p
		}
	}
	r.told(c, uint64(n))
	for i := range 3 * n {
		r.delete(c, []compute.InstanceID{r.launchedIDs()[i]})
		r.poll(fmt.Sprintf("%d were launched", len(full)+i+1), func() bool { return len(r.launchedIDs()) > len(full)+i })
	}
	for _, id := range r.launchedIDs()[len(full):] {
		order = append(order, class[id])
	}
	for i, p := range order {
		for _, later := range order[i+1:] {
			if later.Rank(time.Time{}).Before(p.Rank(time.Time{})) {
				wrong++
			}
		}
	}
	return wrong, order
}
