// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// A host that does not hear what is said to it takes no work for which it would hear no grant, and says so. It takes
// some again once it hears.
func TestADeafHostTakesNothing(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		var cut atomic.Pointer[time.Time] // from when on nothing is read
		n := c.start(dir, fake.Options{}, func(o *Options) {
			o.Heard = func() time.Time {
				if at := cut.Load(); at != nil {
					return *at
				}
				return time.Now().Add(-40 * time.Second) // an idle stream
			}
		})
		pass(time.Minute)
		c.boot(1, "small")
		pass(10 * time.Second)
		c.want(compute.StateActive)
		now := time.Now()
		cut.Store(&now)
		pass(deafAfter + 20*time.Second)
		if b := c.speaks(); b.State != compute.HostQuarantined || !strings.Contains(b.Reason, "cannot be read") {
			t.Errorf("it hears nothing, and is %s: %s", b.State, b.Reason)
		}
		c.boot(2, "small")
		c.pin(3, "small", small) // read in the moment in which it hears again
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateQueued, compute.StateQueued)
		cut.Store(nil)
		pass(30 * time.Second)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		if b := c.speaks(); b.State != compute.HostEnabled {
			t.Errorf("it hears again, and is %s: %s", b.State, b.Reason)
		}
		stop(c, n)
	})
}
