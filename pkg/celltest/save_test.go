// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/queues/save"
)

// On a full host small machines end one after the other, and others wait to take their room. A machine that needs
// half of the host runs after as many have ended as it needs, and none of those that wait has begun meanwhile.
func TestALargeMachineAmongSmallOnes(t *testing.T) {
	t.Parallel()
	b := kafkatest.Embedded(t)
	r := newRig(t, b, smallHosts(1)...)
	rules := save.DefaultRules()
	rules.After = time.Second
	r.savings = &rules
	r.up()
	c := r.as("p")
	large := small("m1.large")
	large.Resources = compute.Resources{compute.VCPU: 8, compute.MemoryMB: 1024, compute.DiskGB: 10}
	r.offer(c, nil, []compute.Flavor{small("m1.small"), large})
	running := r.boot(c, 16, compute.Boot{Flavor: "m1.small"})
	r.await(running, compute.StateActive)
	big := r.boot(c, 1, compute.Boot{Flavor: "m1.large"})
	waiting := r.boot(c, 8, compute.Boot{Flavor: "m1.small"})
	r.poll("the host saves room", func() bool {
		h, err := c.Host(t.Context(), r.hosts[0].ID)
		return err == nil && h.Saving != nil && h.Saving.Queue == "m1.large"
	})
	why, err := c.Explain(t.Context(), big[0])
	if err != nil || !strings.Contains(why.Summary, "saves room for it") {
		t.Errorf("%q, %v", why.Summary, err)
	}
	for _, id := range running[:8] {
		r.delete(c, []compute.InstanceID{id})
	}
	r.await(big, compute.StateActive)
	for _, id := range waiting {
		if s := r.seen.get(id).State; s != compute.StateQueued {
			t.Errorf("one that waited is %s", s)
		}
	}
	r.delete(c, running[8:])
	r.await(waiting, compute.StateActive)
}
