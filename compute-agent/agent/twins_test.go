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

// An agent with a new journal under a name that was used before takes nothing for a minute, by
// when it would know of a twin: what it took until then would run where nobody expects it.
// What is pinned to the host waits, and what runs there is adopted.
func TestANewJournalUnderAUsedName(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(10 * time.Second)
		stop(c, n)
		n = c.start(t.TempDir(), fake.Options{}, nil)
		pass(time.Second)
		c.boot(2, "small")
		c.pin(3, "small", small)
		pass(50 * time.Second)
		c.want(compute.StateActive, compute.StateQueued, compute.StateQueued)
		if b := c.speaks(); b.State != compute.HostQuarantined || !strings.Contains(b.Reason, "its journal is new") {
			t.Errorf("it is %s: %s", b.State, b.Reason)
		}
		pass(20 * time.Second)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		stop(c, n)
	})
}

// The agent that began first takes nothing while another one speaks for its host,
// says why, and works again a minute after it has heard of it for the last time.
func TestATwinThatBeganLater(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(20 * time.Second)
		other := compute.Voice{Journal: "another", Started: time.Now().UTC()}
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

// The one that began last ends, and says what to do. Its machines run on.
func TestATwinThatBeganEarlier(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(20 * time.Second)
		me := c.speaks().Voice()
		c.twins(me, compute.Voice{Journal: me.Journal, Started: me.Started.Add(-time.Hour)}) // its disk was copied
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
