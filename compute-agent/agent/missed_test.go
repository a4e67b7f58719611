// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// removeAll is retention that has removed the whole stream. The answer is where it goes on.
func (c *cell) removeAll() compute.FenceEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldest = int64(len(c.stream))
	return compute.FenceEpoch(c.oldest)
}

// killedBeforeLaunch runs an agent that has read a fence, and is killed before its first launch with the grant in its
// journal.
func (c *cell) killedBeforeLaunch(dir string) {
	p := &trip{kind: "launch", nth: 1, kill: func() {}}
	n := c.start(dir, fake.Options{}, func(o *Options) {
		o.Journal, o.Driver = tripJournal{o.Journal, p}, tripDriver{o.Driver, p, c}
		o.Reporter.(*node).set(p)
		o.Timing.Note = -1
	})
	p.mu.Lock()
	p.kill = n.cancel
	p.mu.Unlock()
	c.fence()
	c.boot(1, "small")
	pass(5 * time.Second)
	_ = n.end()
	c.want(compute.StateStarting)
}

// A host was evacuated with a grant in its journal that it had not launched, and comes back when its stream does not
// have the word any more. Where the stream was removed and made anew its epochs begin anew.
func TestEvacuatedLongAgo(t *testing.T) {
	for name, anew := range map[string]bool{"its stream was emptied": false, "its stream was made anew": true} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.killedBeforeLaunch(dir)
				c.fence()
				c.mu.Lock()
				x := c.insts[id(1)]
				x.state, x.attempt, x.claim = compute.StateActive, 2, "another host's"
				c.mu.Unlock()
				next := c.removeAll()
				if anew {
					c.mu.Lock()
					c.stream, c.oldest, next = nil, 0, 0
					c.mu.Unlock()
				}
				n := c.start(dir, fake.Options{}, nil)
				pass(2 * time.Minute)
				if got := c.counts(fake.Launched); len(got) != 0 {
					t.Errorf("launched %v", got)
				}
				c.boot(2, "small")
				pass(10 * time.Second)
				c.claimed(2, next)
				c.wantOne(2, compute.StateActive)
				stop(c, n)
				n = c.start(dir, fake.Options{}, nil) // nothing was missed since
				pass(2 * time.Minute)
				c.wantOne(2, compute.StateActive)
				stop(c, n)
				c.mu.Lock()
				delete(c.insts, id(1)) // what another host has is not for this one to show
				c.mu.Unlock()
			})
		})
	}
}

// What has passed it by was not missed, though it is removed before the next start.
func TestWhatPassedWasNotMissed(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(20 * time.Second)
		for range 3 {
			c.heard(compute.CommandAlone, compute.Voice{Journal: "another", Started: time.Now().UTC()})
		}
		pass(20 * time.Second)
		stop(c, n)
		next := c.removeAll()
		n = c.start(dir, fake.Options{}, nil)
		if from := n.agent.StartOffset(); from != int64(next) {
			t.Errorf("it starts at %d, want %d", from, next)
		}
		pass(20 * time.Second)
		c.want(compute.StateActive)
		stop(c, n)
	})
}

// A host that was cut off for long and was not evacuated keeps its machines, and what it had not launched is built
// again.
func TestCutOffForLong(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.killedBeforeLaunch(dir)
		n := c.start(dir, fake.Options{}, nil)
		pass(2 * time.Minute)
		c.want(compute.StateActive)
		stop(c, n)
		c.fence() // read by nobody
		next := c.removeAll()
		n = c.start(dir, fake.Options{}, nil)
		pass(2 * time.Minute)
		c.want(compute.StateActive)
		if got := c.counts(fake.Destroyed); len(got) != 0 {
			t.Errorf("destroyed %v", got)
		}
		c.boot(2, "small")
		pass(10 * time.Second)
		c.claimed(2, next)

		c.mu.Lock()
		c.oldest = int64(len(c.stream)) + 7 // while it runs, and cannot reach Kafka
		n.agent.Missed(c.oldest)
		for range 7 {
			c.stream = append(c.stream, c.stream[0])
		}
		c.mu.Unlock()
		c.boot(3, "small")
		pass(10 * time.Second)
		c.claimed(3, compute.FenceEpoch(c.oldest))
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		stop(c, n)
	})
}
