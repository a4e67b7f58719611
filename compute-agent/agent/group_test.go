// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// apart is work of a member of group web, of which a host may have so many.
func apart(most uint32, full ...compute.HostID) func(*compute.Build) {
	return func(b *compute.Build) { b.Group = &compute.BuildGroup{Name: "web", Most: most, Full: full} }
}

// Work is left to others where as many members are as the host may have, by what it knows itself; by what the work says
// only where machines are of which it does not know the groups.
func TestFullOfGroup(t *testing.T) {
	soft := func(most uint32) func(*compute.Build) {
		return func(b *compute.Build) {
			apart(most)(b)
			b.Group.Until = time.Unix(1, 0)
		}
	}
	for name, c := range map[string]struct {
		work        func(*compute.Build)
		members     uint32
		adopted     bool
		over        bool
		full, never bool
	}{
		"no group":                       {func(*compute.Build) {}, 3, true, false, false, false},
		"another rule":                   {apart(0, "h"), 3, true, false, false, false},
		"none here":                      {apart(1), 0, false, false, false, false},
		"one of one":                     {apart(1), 1, false, false, true, true},
		"one of two":                     {apart(2), 1, false, false, false, false},
		"three of two":                   {apart(2), 3, false, false, true, true},
		"named, and knows better":        {apart(1, "g", "h"), 0, false, false, false, false},
		"named, and does not know":       {apart(1, "g", "h"), 0, true, false, true, true},
		"others named":                   {apart(1, "g"), 0, true, false, false, false},
		"rather not":                     {soft(1), 1, false, false, true, true},
		"rather not, for a time gone by": {soft(1), 1, false, true, false, false},
	} {
		a := arrival{
			host: "h", delivery: 3, offers: true, fits: true, slots: 1, members: c.members,
			adopted: c.adopted, groupOver: c.over,
		}
		c.work(&a.build)
		want := wire.Ack(0)
		if c.full {
			want = wire.AckRelease
		}
		how, why := a.verdict()
		if a.fullOfGroup() != c.full || how != want || strings.Contains(why, "group") != c.full || a.never(false) != c.never {
			t.Errorf("%s: full %t, %v (%s), never %t", name, a.fullOfGroup(), how, why, a.never(false))
		}
	}
}

// A member counts until it is destroyed, and what the journal knew nothing of may be one.
func TestMembersHere(t *testing.T) {
	ts := tasks{
		"1": {Project: "p", Group: "web", Queue: "q", Stage: task.Running},
		"2": {Project: "p", Group: "web", Queue: "q", Stage: task.Ending},
		"3": {Project: "p", Group: "web", Queue: "q", Stage: task.Ending, Destroyed: true},
		"4": {Project: "p", Group: "db", Queue: "q"},
		"5": {Project: "q", Group: "web", Queue: "q"},
		"6": {Project: "p", Queue: "q"},
	}
	if n, adopted := ts.members("p", "web"); n != 2 || adopted {
		t.Errorf("%d members, adopted %t", n, adopted)
	}
	ts["7"] = &task.Task{Project: "p"}
	if n, adopted := ts.members("p", "web"); n != 2 || !adopted {
		t.Errorf("%d members, adopted %t", n, adopted)
	}
}

// A host takes as many members as it may have, whatever comes of other groups and projects and whatever happens to the
// agent, and the next one once one of them is gone.
func TestAHostTakesAsManyMembersAsItMayHave(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(1, "small", apart(2))
		c.boot(2, "small", apart(2, "h1")) // it knows better: it has but one
		pass(10 * time.Second)
		c.boot(3, "small", apart(2))
		c.boot(4, "small", func(b *compute.Build) { b.Group = &compute.BuildGroup{Name: "db", Most: 1} })
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateActive, compute.StateQueued, compute.StateActive)
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.wantOne(3, compute.StateQueued) // the journal has them
		if claims := c.reported(compute.ReportClaim, 3); claims > 0 {
			c.t.Errorf("it was claimed %d times", claims)
		}
		c.delete(1)
		pass(10 * time.Second)
		c.wantOne(3, compute.StateActive)
		stop(c, n)
	})
}

// A host that has lost its journal goes by the hosts that the work names as full, where its conductor does not say what
// its machines are of.
func TestMembersOfALostJournal(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(1, "small", apart(1))
		pass(10 * time.Second)
		stop(c, n)
		c.older = true
		n = c.start(c.t.TempDir(), fake.Options{}, nil)
		pass(10 * time.Second)
		c.boot(2, "small", apart(1, "h1"))
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateQueued)
		c.boot(3, "small", apart(1, "h2")) // it is claimed, and its conductor would deny it
		pass(10 * time.Second)
		c.wantOne(3, compute.StateActive)
		stop(c, n)
	})
}

// A host that has lost its journal is told by its conductor what its machines are of: it leaves a member to others
// though that names no host as full, and takes one that names it still once its own is gone. It has written that down.
func TestMembersAreToldToAHostThatHasForgottenThem(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(1, "small", apart(1))
		c.boot(2, "small")
		pass(10 * time.Second)
		stop(c, n)
		dir = c.t.TempDir()
		n = c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.boot(3, "small", apart(1))
		c.boot(4, "small", apart(1, "h1"))
		pass(10 * time.Second)
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateActive, compute.StateQueued, compute.StateQueued)
		if claims := c.reported(compute.ReportClaim, 3); claims > 0 {
			c.t.Errorf("it was claimed %d times", claims)
		}
		c.delete(3)
		c.delete(1)
		pass(10 * time.Second)
		c.wantOne(4, compute.StateActive)
		stop(c, n)
	})
}

// What a host would rather not have it takes once the time of the preference is over, by the time of the log.
func TestMembersThatRatherRunElsewhere(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		story(t, fake.Options{}, func(c *cell, dir string) {
			c.off = off
			n := c.start(dir, fake.Options{}, nil)
			pass(time.Second)
			c.boot(1, "small", apart(1))
			pass(5 * time.Second)
			c.boot(2, "small", apart(1), func(b *compute.Build) { b.Group.Until = c.broker().Add(20 * time.Second) })
			pass(15 * time.Second)
			c.want(compute.StateActive, compute.StateQueued)
			pass(15 * time.Second)
			c.want(compute.StateActive, compute.StateActive)
			stop(c, n)
		})
	}
}

// Pinned work that may wait does so until a machine has ended, and no longer than it may; what is in queues goes on.
// What would not fit an empty host is refused at once.
func TestPinnedWorkWaitsForRoom(t *testing.T) {
	needs := func(n int, processors int64) compute.Build {
		return compute.Build{
			Instance: id(n), Project: "p", Attempt: 1, Queue: "small", Resources: compute.Resources{compute.VCPU: processors},
		}
	}
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		waits := func(b *compute.Build) { b.WaitUntil = time.Now().Add(time.Minute) }
		c.pinBuild(needs(1, 10), waits)
		pass(5 * time.Second)
		c.pinBuild(needs(2, 10), waits)
		c.pinBuild(needs(3, 17), waits)
		c.pinBuild(needs(4, 10), func(*compute.Build) {})
		c.boot(5, "small")
		pass(5 * time.Second)
		c.want(compute.StateActive, compute.StateQueued, compute.StateError, compute.StateError, compute.StateActive)
		c.delete(1)
		pass(5 * time.Second)
		c.wantOne(2, compute.StateActive)
		c.pinBuild(needs(6, 10), waits)
		pass(50 * time.Second)
		c.wantOne(6, compute.StateQueued)
		pass(20 * time.Second)
		c.wantOne(6, compute.StateError)
		c.mu.Lock()
		said := c.reports[len(c.reports)-1].Message
		c.mu.Unlock()
		if !strings.Contains(said, "VCPU=10") {
			c.t.Errorf("it says %q", said)
		}
		stop(c, n)
	})
}

// A member that may be nowhere else waits for a host that is disabled, and starts when that is enabled; what is for one
// host by its request is refused.
func TestAMemberWaitsForItsDisabledHost(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.desire(compute.HostDisabled, 1)
		pass(time.Second)
		one := func(n int) compute.Build {
			return compute.Build{
				Instance: id(n), Project: "p", Attempt: 1, Queue: "small", Resources: compute.Resources{compute.VCPU: 1},
			}
		}
		c.pinBuild(one(1), func(b *compute.Build) {
			b.Group, b.WaitUntil = &compute.BuildGroup{Name: "near"}, time.Now().Add(time.Minute)
		})
		c.pinBuild(one(2), func(*compute.Build) {})
		pass(30 * time.Second)
		c.want(compute.StateQueued, compute.StateError)
		c.desire(compute.HostEnabled, 2)
		pass(5 * time.Second)
		c.wantOne(1, compute.StateActive)
		stop(c, n)
	})
}

// Only what was given back is undone: what failed, or ran and is gone, is over.
func TestUndone(t *testing.T) {
	for how, want := range map[task.Outcome]bool{
		task.EndReturned: true, task.EndQuiet: true, task.EndFailed: false, task.EndGone: false,
	} {
		end := &task.End{How: how}
		if got := undone(task.Task{Stage: task.Ending, End: end}); got != want {
			t.Errorf("%s is undone: %t", how, got)
		}
		if undone(task.Task{Stage: task.Claiming, End: end}) {
			t.Errorf("%s: what is claimed is undone", how)
		}
	}
}

// Pinned work whose claim was denied is begun anew when it is offered again, once nothing of the first time is left. It
// is not refused for the room that it has itself until then.
func TestPinnedWorkThatWasDeniedIsOfferedAgain(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{DestroyTime: 20 * time.Second}, nil)
		pass(time.Second)
		c.noGrants = true
		c.pin(1, "small", compute.Resources{compute.VCPU: 10})
		pass(4 * time.Second)
		c.mu.Lock()
		c.noGrants = false
		for _, r := range c.reports {
			if r.Op == compute.ReportClaim {
				c.say(compute.Command{
					Op: compute.CommandDeny, Project: "p", Instance: r.Instance, Attempt: r.Attempt, Claim: r.Claim,
				})
			}
		}
		c.mu.Unlock()
		pass(12 * time.Second) // it was offered again, and what was prepared is being destroyed
		c.want(compute.StateQueued)
		pass(10 * time.Second)
		c.want(compute.StateActive)
		stop(c, n)
	})
}

// Work that only hosts with a member have seen is taken out of its queue before that drops it, and its conductor is
// told.
func TestPassedOn(t *testing.T) {
	for delivery, want := range map[int16]wire.Ack{
		fetch.LastDelivery - 1: wire.AckRelease, fetch.LastDelivery: wire.AckAccept, fetch.LastDelivery + 3: wire.AckAccept,
	} {
		a := arrival{host: "h", delivery: delivery, offers: true, fits: true, slots: 1, members: 1}
		apart(1)(&a.build)
		if how, _ := a.verdict(); how != want || a.passedOn() != (want == wire.AckAccept) {
			t.Errorf("delivery %d: %v, told %t", delivery, how, a.passedOn())
		}
	}
	a := arrival{host: "h", delivery: fetch.LastDelivery, offers: true, fits: true, slots: 1, members: 1}
	if how, _ := a.verdict(); how != 0 {
		t.Errorf("work of no group: %v", how)
	}
}
