// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// ringing says that there is a queue manager that rings hosts.
func (c *cell) ringing(rings bool) {
	c.node.agent.Advice([]wire.Record{wire.EncodeAdvice(compute.Advice{At: time.Now(), Rings: rings})}, true)
}

// rest lets time go by while advice comes as it should.
func (c *cell) rest(d time.Duration) {
	for ; d > compute.AdviceBeat; d -= compute.AdviceBeat {
		c.ringing(true)
		pass(compute.AdviceBeat)
	}
	c.ringing(true)
	pass(d)
}

// ring has the host look at a queue, or wait on it for a while.
func (c *cell) ring(q string, hold time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	look := compute.Look{Queue: compute.QueueName(q), Hold: hold}
	c.say(compute.Command{Op: compute.CommandLook, Look: &look, At: time.Now()})
}

// opened expects these fetches since the last time asked: the queues of each, with
// "beside" before those in the secondary session, and their time behind them if it is not the usual one.
func (c *cell) opened(want ...string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for _, o := range c.opens {
		var words []string
		if o.secondary {
			words = append(words, "beside")
		}
		for _, q := range o.queues {
			words = append(words, string(q.Name))
		}
		if o.wait > 0 {
			words = append(words, o.wait.String())
		}
		got = append(got, strings.Join(words, " "))
	}
	c.opens = nil
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("fetches that were opened (-want +got): %s", diff)
	}
}

// rungStory tells of a host that is rung, and has nothing to do.
func rungStory(t *testing.T, tell func(c *cell, dir string)) {
	t.Helper()
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		c.rest(20 * time.Second) // what it sampled before it knew of the queue manager is over
		c.mu.Lock()
		c.opens = nil
		c.mu.Unlock()
		tell(c, dir)
		stop(c, c.node)
	}, queue("small", small), queue("other", small), queue("huge", compute.Resources{compute.VCPU: 99}))
}

func TestARungHostWaitsOnNothing(t *testing.T) {
	rungStory(t, func(c *cell, _ string) {
		c.rest(5 * time.Minute)
		c.opened()
	})
}

// A host that is rung looks at that queue alone, for a moment, and again as long as work
// comes.
func TestARungHostLooks(t *testing.T) {
	rungStory(t, func(c *cell, _ string) {
		c.ring("small", 0)
		pass(fetch.RungPoll / 2)
		if diff := cmp.Diff([]compute.QueueName{"small"}, c.waits()); diff != "" {
			t.Error(diff)
		}
		c.rest(time.Minute)
		c.opened("small 100ms") // in vain: once

		c.ring("small", 0)
		for i := range 3 {
			pass(fetch.RungPoll / 2)
			c.boot(i+1, "small")
		}
		c.rest(time.Minute)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		c.opened("small 100ms", "small 100ms", "small 100ms", "small 100ms")

		for i := range 3 {
			c.boot(i+4, "small") // it lies there already
		}
		c.ring("small", 0)
		pass(fetch.RungPoll)
		for i := range 3 {
			c.wantOne(i+4, compute.StateActive)
		}
		c.boot(7, "small") // too late, and it is not rung again
		c.rest(time.Minute)
		c.wantOne(7, compute.StateQueued)
		c.opened("small 100ms", "small 100ms", "small 100ms", "small 100ms")
	})
}

// A host that is held waits on the queue as long as it was told to, and a ring asks it
// for nothing more.
func TestAHeldHostWaits(t *testing.T) {
	rungStory(t, func(c *cell, _ string) {
		c.ring("small", 12*time.Second)
		c.rest(time.Second)
		c.ring("small", 0)
		c.rest(6 * time.Second)
		c.boot(1, "small")
		pass(100 * time.Millisecond)
		c.want(compute.StateActive)
		c.rest(time.Minute)
		c.opened("small", "small", "small") // two, and a third after the build
	})
}

// A host that waits on a queue looks beside that at the queue that it is rung for.
func TestARungHostLooksBesideAnOpenFetch(t *testing.T) {
	rungStory(t, func(c *cell, _ string) {
		c.ring("other", 5*time.Second)
		pass(time.Second)
		c.boot(1, "small")
		c.ring("small", 0)
		pass(50 * time.Millisecond)
		c.want(compute.StateActive)
		pass(time.Second)
		c.opened("other", "beside small 100ms", "beside small 100ms")
		c.boot(2, "other")
		pass(time.Second)
		c.want(compute.StateActive, compute.StateActive)
	})
}

// A host that left the queue it was rung for to others, and has no room for its work beside
// what it waits for meanwhile, waits for no longer than that.
func TestARungHostWaitsElsewhereForAMoment(t *testing.T) {
	rungStory(t, func(c *cell, _ string) {
		c.add(queue("whole", big.Totals))
		c.list()
		c.ring("small", time.Minute)
		pass(time.Second)
		c.boot(1, "whole", func(b *compute.Build) { b.Avoid = []compute.HostID{"h1"} })
		c.boot(2, "whole")
		c.ring("whole", 0)
		pass(10 * time.Second)
		c.wantOne(2, compute.StateActive)
		c.opened(
			"small", "small whole 100ms", "small 2s", "small whole 100ms", "small 2s", "small whole 100ms",
			"small whole 100ms",
		)
	})
}

// A ring that cannot be followed leads to nothing, and to a look if it can be soon.
func TestRingsThatCannotBeFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		queue  string
		before func(c *cell) // the ring
		after  func(c *cell)
		looks  []string // then
	}{
		"no such queue": {"none", func(*cell) {}, func(*cell) {}, nil},
		"listed a moment later": {"late", func(*cell) {}, func(c *cell) {
			c.add(queue("late", small))
			c.list()
		}, []string{"late 100ms"}},
		"too big": {"huge", func(*cell) {}, func(*cell) {}, nil},
		"disabled": {"small", func(c *cell) { c.desire(compute.HostDisabled, 1) },
			func(c *cell) { c.desire(compute.HostEnabled, 2) }, []string{"small 100ms"}},
		"draining": {"small", func(c *cell) { c.desire(compute.HostDraining, 1) },
			func(c *cell) { c.desire(compute.HostEnabled, 2) }, []string{"small 100ms"}},
		"enabled too late": {"small", func(c *cell) { c.desire(compute.HostDisabled, 1) }, func(c *cell) {
			c.rest(time.Minute)
			c.desire(compute.HostEnabled, 2)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rungStory(t, func(cell *cell, _ string) {
				c.before(cell)
				cell.ring(c.queue, 0)
				cell.rest(20 * time.Second)
				cell.opened()
				c.after(cell)
				cell.rest(20 * time.Second)
				cell.opened(c.looks...)
			})
		})
	}
}

// What was said before the agent had caught up is old.
func TestARingOfBeforeIsNotFollowed(t *testing.T) {
	rungStory(t, func(c *cell, dir string) {
		n := c.node
		c.hold = true
		stop(c, n)
		for range 3 {
			c.ring("small", 0)
		}
		said := slices.Clone(c.stream) // the agent's beacons are answered in it, from its start on
		from := len(said)
		n = c.start(dir, fake.Options{}, nil)
		c.ringing(true)
		n.agent.Commands(said[n.agent.StartOffset():from-1], false)
		pass(time.Second)
		n.agent.Commands(slices.Clone(c.stream[from-1:]), true)
		c.rest(20 * time.Second)
		if !n.agent.Stats().Offering {
			t.Fatal("it has not caught up")
		}
		c.opened()
		c.ring("small", 0)
		n.agent.Commands(slices.Clone(c.stream[from:]), true)
		c.rest(20 * time.Second)
		c.opened("small 100ms")
	})
}

// Rings are not written down: the position behind them is, once in a thousand.
func TestRingsAreNotWrittenDown(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		written := 0
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Journal = writes{o.Journal, &written} })
		c.rest(20 * time.Second)
		before := written
		for i := range 900 {
			c.ring(fmt.Sprint("none", i), 0)
		}
		c.ring("small", 0)
		c.ring("small", time.Second)
		c.rest(20 * time.Second)
		if written != before {
			t.Errorf("900 rings led to %d writes of the journal", written-before)
		}
		for range 1000 {
			c.ring("small", 0)
		}
		c.rest(20 * time.Second)
		if written != before+1 {
			t.Errorf("1900 rings led to %d writes of the journal", written-before)
		}
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil)
		c.mu.Lock()
		left := len(c.stream) - int(n.agent.StartOffset())
		c.mu.Unlock()
		if left > 1000 {
			t.Errorf("%d rings are read again", left)
		}
		stop(c, n)
	})
}

// Without advice for long the host is not counted on to be rung: it waits by lot. It does
// so too when the queue manager says that it does not ring.
func TestWithoutAQueueManagerTheHostSamples(t *testing.T) {
	rungStory(t, func(c *cell, _ string) {
		pass(compute.RingsLast - 6*time.Second)
		c.opened()
		pass(compute.SampleHolds + 6*time.Second)
		both := []compute.QueueName{"other", "small"}
		if diff := cmp.Diff(both, c.waits()); diff != "" {
			t.Error(diff)
		}
		c.boot(1, "small")
		pass(time.Second)
		c.want(compute.StateActive)
		c.rest(10 * time.Second)
		if got := c.waits(); got != nil {
			t.Errorf("the host is rung, and waits on %v", got)
		}
		c.ringing(false)
		pass(time.Second)
		if diff := cmp.Diff(both, c.waits()); diff != "" {
			t.Error(diff)
		}
	})
}

// A host that has just started waits by lot only once it knows whether it will be rung:
// when it has read advice to its end, or could not for a while.
func TestAHostThatStartsReadsAdviceFirst(t *testing.T) {
	for _, rings := range []bool{true, false} {
		t.Run(fmt.Sprint("rings ", rings), func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.silent = true
				c.start(dir, fake.Options{}, nil)
				pass(fetch.AdviceWithin - time.Second)
				c.opened()
				if rings {
					c.ringing(true)
				}
				pass(2 * time.Second)
				if got := c.waits(); rings != (got == nil) {
					t.Errorf("the host waits on %v", got)
				}
				stop(c, c.node)
			}, queue("small", small))
		})
	}
}
