// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

func TestSlotsBoundWhatIsPrepared(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		most, now := 0, 0
		d := fake.Options{PrepareTime: 10 * time.Second}
		n := c.start(
			dir, d,
			func(o *Options) { o.Slots = 2; o.Driver = &watch{Driver: o.Driver, most: &most, now: &now, cell: c} },
		)
		for i := 1; i <= 5; i++ {
			c.boot(i, "small")
		}
		pass(5 * time.Second)
		if got := c.waits(); got != nil {
			c.t.Errorf("with all slots busy it waits on %v", got)
		}
		pass(40 * time.Second)
		c.want(
			compute.StateActive, compute.StateActive, compute.StateActive, compute.StateActive, compute.StateActive,
		)
		if most != 2 {
			c.t.Errorf("%d were prepared at once", most)
		}
		stop(c, n)
	})
}

// A launch does not wait for guests that are slow to stop, however many they are.
func TestLaunchBesideSlowStops(t *testing.T) {
	slow := fake.Options{Deaf: func(compute.InstanceID) bool { return true }}
	story(t, slow, func(c *cell, dir string) {
		n := c.start(dir, slow, func(o *Options) { o.Slots = 1 })
		for i := range 6 {
			c.boot(i+1, "small")
		}
		c.boot(8, "small")
		pass(30 * time.Second)
		for i := range 6 {
			c.command(i+1, compute.OpStop, compute.Version(i+10))
		}
		pass(time.Second)
		c.boot(7, "small")
		c.delete(8)
		pass(5 * time.Second)
		c.wantOne(7, compute.StateActive)
		c.wantOne(8, compute.StateDeleted)
		pass(2 * time.Minute)
		for _, m := range c.host.Machines()[:6] {
			if m.Power != compute.PowerStopped {
				c.t.Errorf("told to stop, and %+v", m)
			}
		}
		stop(c, n)
	})
}
