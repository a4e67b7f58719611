// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Work of a later schema stays in its queue for an agent that reads it; an agent that does
// not read it rejects nothing and says in its beacon up to where it reads.
func TestWorkOfALaterSchema(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.schema = wire.Schema + 1
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(1, "small")
		pass(time.Minute)
		c.want(compute.StateQueued)
		c.mu.Lock()
		if it := c.queues["small"].items[0]; it.done || it.delivery < 2 || len(c.rejected) > 0 {
			c.t.Errorf("done %v, delivered %d times, rejected %+v", it.done, it.delivery, c.rejected)
		}
		if said := c.beacons[len(c.beacons)-1].Reads; said != wire.Schema {
			c.t.Errorf("it says that it reads up to %d", said)
		}
		c.mu.Unlock()
		stop(c, n)

		n = c.start(dir, fake.Options{}, func(o *Options) { o.Reads = wire.Schema + 1 })
		pass(time.Minute)
		c.want(compute.StateActive)
		c.mu.Lock()
		if said := c.beacons[len(c.beacons)-1].Reads; said != wire.Schema+1 {
			c.t.Errorf("it says that it reads up to %d", said)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// Work of a later schema holds up nothing that lies behind it.
func TestWorkBehindWorkOfALaterSchema(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.mu.Lock()
		c.schema = wire.Schema + 1
		c.mu.Unlock()
		for i := range 3 {
			c.boot(i+1, "small")
		}
		c.mu.Lock()
		c.schema = wire.Schema
		c.mu.Unlock()
		c.boot(4, "small")
		pass(time.Minute)
		c.want(compute.StateQueued, compute.StateQueued, compute.StateQueued, compute.StateActive)
		stop(c, n)
	})
}

// An agent reads commands up to the schema that it says.
func TestCommandsOfALaterSchema(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Reads = wire.Schema + 1 })
		pass(time.Second)
		disable := wire.EncodeCommand(compute.Command{
			Op: compute.CommandHost, Desired: &compute.HostDesired{State: compute.HostDisabled, Version: 1},
			At: time.Now(),
		})
		n.agent.Commands([]wire.Record{disable.InSchema(wire.Schema + 1)}, true)
		pass(20 * time.Second)
		c.mu.Lock()
		if last := c.beacons[len(c.beacons)-1]; last.State != compute.HostDisabled || len(c.rejected) > 0 {
			c.t.Errorf("it is %s; rejected %+v", last.State, c.rejected)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}
