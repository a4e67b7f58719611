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
// of one place at a time none was seen. BERTH_PRIORITIES is how many of each class are booted, for a measurement.
func TestHigherFirst(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		n := 6
		if given, err := strconv.Atoi(os.Getenv("BERTH_PRIORITIES")); err == nil {
			n = given
		}
		r := newRig(t, b, smallHosts(3)...).up()
		c := r.as("p")
		half := small("m1.small")
		half.Resources[compute.VCPU] = 8
		r.offer(c, nil, []compute.Flavor{half})
		full := r.boot(c, 2*len(r.hosts), compute.Boot{Flavor: "m1.small"})
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
		var order []compute.Priority
		for _, id := range r.launchedIDs()[len(full):] {
			order = append(order, class[id])
		}
		wrong := 0
		for i, p := range order {
			for _, later := range order[i+1:] {
				if later.Rank(time.Time{}).Before(p.Rank(time.Time{})) {
					wrong++
				}
			}
		}
		t.Logf("%d of %d pairs in the wrong order", wrong, 3*n*n)
		if 10*wrong > 3*n*n { // a tenth; without any order it is half of them
			t.Errorf("%d of %d pairs in the wrong order: %v", wrong, 3*n*n, order)
		}
	})
}
