// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// halted is a driver with machines that were launched by an agent that died before it let them go.
type halted struct {
	*fake.Driver

	mu       sync.Mutex
	launches int
}

func (d *halted) List(ctx context.Context) ([]hypervisor.Machine, error) {
	list, err := d.Driver.List(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, m := range list {
		if m.Launched && d.launches == 0 {
			list[i].Waits, list[i].Power = true, compute.PowerStopped
		}
	}
	return list, err
}

func (d *halted) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	d.mu.Lock()
	d.launches++
	d.mu.Unlock()
	return d.Driver.Launch(ctx, id, a, c)
}

func (d *halted) launched() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.launches
}

// What was launched and not let go is let go by the next agent, once: unless the
// host was declared dead in between, when it may run elsewhere. Where nobody knows whether it was, it stays as it is.
func TestWhatWaitsIsLetGoUnlessTheHostWasDeclaredDead(t *testing.T) {
	for name, dead := range map[string]bool{"alive": false, "declared dead": true, "words were missed": false} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				n := c.start(dir, fake.Options{}, nil)
				c.boot(1, "small")
				pass(10 * time.Second)
				stop(c, n)
				missed := name == "words were missed"
				if dead || missed {
					c.fence()
				}
				if missed {
					c.removeAll()
				}
				d := &halted{Driver: fake.NewDriver(c.host, fake.Options{})}
				n = c.start(dir, fake.Options{}, func(o *Options) { o.Driver = d })
				pass(time.Minute)
				if dead {
					c.want(compute.StateError)
				} else {
					c.want(compute.StateActive)
				}
				if launches, left := d.launched(), len(
					c.host.Machines(),
				); dead && left != 0 || (launches == 0) != (dead || missed) || launches > 1 {
					c.t.Errorf("it was launched %d times, and %d machines are there", launches, left)
				}
				stop(c, n)
			})
		})
	}
}
