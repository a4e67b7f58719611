// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// speaks is the last beacon, with the voice of the agent that sent it.
func (c *cell) speaks() compute.Beacon {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.beacons) == 0 {
		c.t.Fatal("the agent says nothing")
	}
	return c.beacons[len(c.beacons)-1]
}

// twins has the host's stream say that these agents speak for it.
func (c *cell) twins(voices ...compute.Voice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(compute.Command{Op: compute.CommandTwins, Voices: voices})
}

// heard has the host's stream say something of one agent.
func (c *cell) heard(op compute.CommandOp, v compute.Voice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(compute.Command{Op: op, Voices: []compute.Voice{v}})
}

// Every report says by which agent, and so does the beacon.
func TestReportsCarryTheVoice(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(10 * time.Second)
		me := c.speaks().Voice()
		if me.Journal != n.journal.ID() || me.Started.IsZero() {
			t.Errorf("the beacon is said by %v", me)
		}
		c.mu.Lock()
		for _, r := range c.reports {
			if !r.Voice().Same(me) {
				t.Errorf("%s is said by %v, the beacon by %v", r.Op, r.Voice(), me)
			}
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// An agent under a name that was used before, with its journal or a new one, does nothing before it is told
// that it is alone: what it took until then would run where nobody expects it. Without an answer that
// lasts for a minute. What is pinned to the host waits, and so does what somebody wants of what is there.
func TestNothingBeforeItIsAlone(t *testing.T) {
	for name, lost := range map[string]bool{"its journal": false, "a new journal": true} {
		for answer, after := range map[string]time.Duration{"it is told": 20 * time.Second, "nobody answers": 0} {
			t.Run(name+", "+answer, func(t *testing.T) { nothingBeforeItIsAlone(t, lost, after) })
		}
	}
}

func nothingBeforeItIsAlone(t *testing.T, lost bool, after time.Duration) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(10 * time.Second)
		stop(c, n)
		if lost {
			dir = t.TempDir()
		}
		c.unmanaged = true
		n = c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(2, "small")
		c.pin(3, "small", small)
		c.delete(1)
		pass(18 * time.Second)
		c.want(compute.StateDeleting, compute.StateQueued, compute.StateQueued)
		if b := c.speaks(); b.State != compute.HostQuarantined || !b.Asks || !strings.Contains(b.Reason, "has begun") {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		if after > 0 {
			c.mu.Lock()
			c.say(compute.Command{Op: compute.CommandAlone, Voices: []compute.Voice{c.beacons[len(c.beacons)-1].Voice()}})
			c.mu.Unlock()
		} else {
			pass(35 * time.Second)
			c.want(compute.StateDeleting, compute.StateQueued, compute.StateQueued)
			pass(10 * time.Second)
		}
		pass(10 * time.Second)
		c.want(compute.StateDeleted, compute.StateActive, compute.StateActive)
		if b := c.speaks(); b.State != compute.HostEnabled || b.Asks {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		stop(c, n)
	})
}

// Where nothing was ever said to the host, which may only not have been heard yet, a mark in the folder of machines
// still says that an agent was there before.
func TestAnHeirWaits(t *testing.T) {
	for name, heir := range map[string]bool{"the first": false, "an heir": true} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.unmanaged = true
				n := c.start(t.TempDir(), fake.Options{}, func(o *Options) { o.Heir = heir })
				c.boot(1, "small")
				pass(30 * time.Second)
				want, state := compute.StateActive, compute.HostEnabled
				if heir {
					want, state = compute.StateQueued, compute.HostQuarantined
				}
				c.want(want)
				if b := c.speaks(); b.State != state || !b.Asks {
					t.Errorf("it is %s: %s, and asks: %t", b.State, b.Reason, b.Asks)
				}
				stop(c, n)
			})
		})
	}
}

// All that was said to an agent of before was removed since: a new journal is not the first of this name.
func TestAnEmptiedStreamWasUsed(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		stop(c, n)
		next := c.removeAll()
		c.unmanaged = true
		dir = t.TempDir()
		n = c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(50 * time.Second)
		c.want(compute.StateQueued)
		if b := c.speaks(); b.State != compute.HostQuarantined || !b.Asks {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		c.mu.Lock()
		c.noGrants = true
		c.mu.Unlock()
		pass(20 * time.Second)
		c.claimed(1, next)
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil)
		if from := n.agent.StartOffset(); from != int64(next) { // or it would seem to have missed them again
			t.Errorf("it starts at %d, want %d", from, next)
		}
		stop(c, n)
	})
}

// An agent that works says at once that it lives when another begins, and whom it was told of; it takes
// nothing until it knows that it is alone again, and what runs, runs on.
func TestItHearsThatAnotherBegins(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(20 * time.Second)
		c.unmanaged = true
		me, other := c.speaks().Voice(), compute.Voice{Journal: "another", Started: time.Now().UTC()}
		c.heard(compute.CommandBegun, me) // its own: nothing to it
		pass(time.Millisecond)
		if c.speaks().Asks {
			t.Error("it takes itself for another")
		}
		c.heard(compute.CommandBegun, other)
		pass(time.Millisecond)
		if b := c.speaks(); !b.Asks || !b.Beside.Same(other) || b.State != compute.HostQuarantined {
			t.Errorf("it says %+v", b)
		}
		c.boot(2, "small")
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateQueued)
		c.heard(compute.CommandAlone, other) // that is not this one
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateQueued)
		c.heard(compute.CommandAlone, me)
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateActive)
		if b := c.speaks(); b.Asks || b.Beside != (compute.Voice{}) {
			t.Errorf("it says %+v", b)
		}
		stop(c, n)
	})
}

// The last beacon says that the agent has ended; that of one that never knew whether it was alone says that, too.
func TestTheLastBeacon(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		stop(c, n)
		if b := c.speaks(); !b.Leaves || b.Asks || b.State != compute.HostQuarantined {
			t.Errorf("it says %+v", b)
		}
		c.unmanaged = true
		n = c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		stop(c, n)
		if b := c.speaks(); !b.Leaves || !b.Asks {
			t.Errorf("it says %+v", b)
		}
	})
}

// The agent that began first takes nothing while another one speaks for its host,
// says why, and works again a minute after it has heard of it for the last time.
func TestATwinThatBeganLater(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(20 * time.Second)
		c.unmanaged = true
		other := compute.Voice{Journal: "another", Started: time.Now().Add(-time.Hour).UTC()} // its clock is behind
		c.twins(c.speaks().Voice(), other)
		pass(10 * time.Second)
		b := c.speaks()
		if b.State != compute.HostQuarantined || !strings.Contains(b.Reason, other.String()) {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		c.boot(2, "small")
		pass(30 * time.Second)
		c.want(compute.StateActive, compute.StateQueued) // what runs, runs on
		c.twins(c.speaks().Voice(), other)
		pass(50 * time.Second)
		c.want(compute.StateActive, compute.StateQueued)
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateActive)
		if b := c.speaks(); b.State != compute.HostEnabled {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		stop(c, n)
	})
}

// The one that began last, as the order says, ends, and says what to do. Its machines run on.
func TestATwinThatBeganEarlier(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(20 * time.Second)
		me := c.speaks().Voice()
		c.twins(compute.Voice{Journal: me.Journal, Started: me.Started.Add(time.Hour)}, me) // its disk was copied, its clock is ahead
		err := <-n.done
		n.done <- err
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(
			err.Error(), `host "h1"`,
		) || !strings.Contains(err.Error(), "name of its own") {
			t.Errorf("it ends with %v", err)
		}
		if err := n.end(); err == nil {
			t.Error("it has ended without an error")
		}
		c.want(compute.StateActive)
		stop(c, c.start(dir, fake.Options{}, nil))
	})
}

// Words about other agents, and those that were said before it began, are not for it.
func TestWordsAboutOtherTwins(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		me := c.speaks().Voice()
		old := compute.Voice{Journal: me.Journal, Started: me.Started.Add(-time.Hour)}
		c.twins(old, compute.Voice{Journal: "another", Started: me.Started})
		c.twins(me, me)
		pass(20 * time.Second)
		if b := c.speaks(); b.State != compute.HostEnabled {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		stop(c, n)
	})
}
