// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// fence says that the host is dead; the epoch is that of this word.
func (c *cell) fence() compute.FenceEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(compute.Command{Op: compute.CommandFenced})
	return compute.FenceEpoch(len(c.stream))
}

// end is the position of the stream's end.
func (c *cell) end() compute.FenceEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return compute.FenceEpoch(len(c.stream))
}

// claimed wants the epoch that the last claim of an instance carried.
func (c *cell) claimed(n int, want compute.FenceEpoch) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	got, there := compute.FenceEpoch(0), false
	for _, r := range c.reports {
		if r.Op == compute.ReportClaim && r.Instance == id(n) {
			got, there = r.Fence, true
		}
	}
	if !there || got != want {
		c.t.Errorf("instance %d was claimed: %t, under fence %d, want %d", n, there, got, want)
	}
}

func TestClaimsCarryTheLastFence(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(10 * time.Second)
		c.claimed(1, 0)
		epoch := c.fence()
		pass(10 * time.Second)
		c.boot(2, "small")
		pass(10 * time.Second)
		c.claimed(2, epoch)
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil) // the journal remembers it
		c.boot(3, "small")
		pass(10 * time.Second)
		c.claimed(3, epoch)
		c.want(compute.StateError, compute.StateActive, compute.StateActive)
		stop(c, n)
	})
}

// The disk with the journal is lost, the hypervisor's is not, and the stream has
// a fence: what was made before it is destroyed and never runs again, whatever
// the user says of it; what was made after it stays. A new journal takes all of
// the stream for acted upon.
func TestNewJournalBehindAFence(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(10 * time.Second)
		stop(c, n)
		if err := c.host.Crash(); err != nil {
			c.t.Fatal(err)
		}
		c.fence()
		c.command(1, compute.OpStart, 5) // its conductor has not heard of the fence
		end := c.end() + 1               // with the word that it is alone
		n = c.start(c.t.TempDir(), fake.Options{}, nil)
		pass(time.Minute)
		if got := c.counts(fake.Resumed); len(got) != 0 {
			c.t.Errorf("a dead host's machines run again: %v", got)
		}
		if got := c.counts(fake.Destroyed); got[id(1)] != 1 {
			c.t.Errorf("destroyed %v, want instance 1 once", got)
		}
		c.boot(2, "small")
		pass(10 * time.Second)
		c.claimed(2, end)
		stop(c, n)
		n = c.start(c.t.TempDir(), fake.Options{}, nil) // lost again
		pass(time.Minute)
		c.want(compute.StateError, compute.StateActive)
		if got := c.counts(fake.Destroyed); got[id(2)] != 0 {
			c.t.Errorf("an old fence destroyed %v", got)
		}
		end = c.end() // what was said since its beginning, it has acted upon; none of it is a fence
		c.boot(3, "small")
		pass(10 * time.Second)
		c.mu.Lock()
		for _, r := range c.reports {
			if r.Op == compute.ReportClaim && r.Instance == id(3) && (r.Fence == 0 || r.Fence > end) {
				c.t.Errorf("claimed under fence %d, the stream's end was %d", r.Fence, end)
			}
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// What was offered to this host alone, and was not granted when the host was declared dead, is begun anew under the new
// fence, though nobody offers it again.
func TestPinnedWorkOutlivesAFence(t *testing.T) {
	for name, granted := range map[string]bool{"while it is prepared": true, "while it is claimed": false} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				o := fake.Options{PrepareTime: 3 * time.Second, DestroyTime: 3 * time.Second}
				n := c.start(dir, o, nil)
				pass(time.Second)
				c.noGrants = !granted
				c.pin(1, "small", small)
				if pass(2 * time.Second); !granted {
					pass(3 * time.Second)
				}
				epoch := c.fence()
				c.mu.Lock()
				c.noGrants = false
				c.mu.Unlock()
				pass(10 * time.Second)
				c.claimed(1, epoch)
				c.want(compute.StateActive)
				stop(c, n)
			})
		})
	}
}

// What was offered since as a later attempt is begun, and what cannot be begun at once is left to its conductor, which
// offers it again.
func TestPinnedWorkBehindAFence(t *testing.T) {
	o := fake.Options{PrepareTime: time.Minute}
	story(t, o, func(c *cell, dir string) {
		n := c.start(dir, o, nil)
		pass(time.Second)
		c.pin(1, "small", small)
		pass(time.Second)
		c.mu.Lock()
		x := c.insts[id(1)]
		x.attempt, x.build.Attempt = 2, 2
		c.publish(x)
		c.mu.Unlock()
		pass(time.Second)
		c.fence()
		pass(70 * time.Second)
		c.mu.Lock()
		for _, r := range c.reports {
			if r.Op == compute.ReportClaim && r.Attempt != 2 {
				t.Errorf("attempt %d was claimed, and attempt 2 had been offered", r.Attempt)
			}
		}
		c.mu.Unlock()
		c.want(compute.StateActive)
		c.pin(2, "small", small)
		pass(time.Second)
		c.desire(compute.HostDisabled, 1)
		pass(time.Second)
		c.fence()
		pass(2 * time.Second)
		c.desire(compute.HostEnabled, 2)
		pass(2 * time.Minute)
		c.wantOne(2, compute.StateActive)
		stop(c, n)
	})
}
