// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// A host that waits on a queue only because work is said to lie there does so for a
// moment, and not again until newer work is said to lie there; what lies there it takes.
func TestShortPoll(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		tell := func(depth uint64, oldest time.Time) {
			rec := wire.EncodeAdvice(compute.Advice{
				At: time.Now(), Full: true,
				About: []compute.QueueAdvice{{Queue: "deep", Depth: depth, Eligible: 1 << 30, Oldest: oldest}},
			})
			n.agent.Advice([]wire.Record{rec}, true)
		}
		waits := func(want ...compute.QueueName) {
			t.Helper()
			if diff := cmp.Diff(want, c.waits()); diff != "" {
				t.Errorf("the host waits on: %s", diff)
			}
		}
		tell(0, time.Time{})
		pass(30 * time.Second) // what was sampled before is over
		waits()
		tell(1<<30, time.Now())
		pass(fetch.ShortPoll / 2)
		waits("deep")
		pass(fetch.ShortPoll)
		waits()
		tell(1<<30, time.Now().Add(-time.Second)) // as before: it is on its way somewhere
		pass(fetch.ShortPoll / 2)
		waits()
		c.boot(1, "deep")
		tell(1<<30, time.Now())
		pass(fetch.ShortPoll / 2)
		c.want(compute.StateActive)
		stop(c, n)
	}, queue("deep", compute.Resources{compute.VCPU: 1}))
}
