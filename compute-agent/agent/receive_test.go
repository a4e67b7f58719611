// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Work for an instance that is here already is over, being built, or somebody
// else's: another project's instance of the same id is another instance, and
// only this host cannot have it.
func TestWorkForWhatIsHere(t *testing.T) {
	running := task.Task{Instance: id(1), Project: "p", Attempt: 2, Answered: true, Stage: task.Running}
	preparing := task.Task{Instance: id(1), Project: "p", Attempt: 2, Stage: task.Preparing}
	for _, c := range []struct {
		here    task.Task
		project compute.Project
		attempt compute.Attempt
		want    wire.Ack
	}{
		{running, "p", 2, wire.AckAccept}, {running, "p", 1, wire.AckAccept}, {running, "p", 3, wire.AckRelease},
		{preparing, "p", 2, wire.AckRenew},
		{running, "q", 1, wire.AckRelease}, {running, "q", 2, wire.AckRelease}, {preparing, "q", 2, wire.AckRelease},
	} {
		if got, why := known(
			c.here, compute.Build{Instance: id(1), Project: c.project, Attempt: c.attempt},
		); got != c.want || why == "" {
			t.Errorf(
				"attempt %d of %s, while %s of p's attempt 2: %v (%s), want %v", c.attempt, c.project, c.here.Stage,
				got, why, c.want,
			)
		}
	}
}

// A conductor that denies a claim may publish the work again, and that may be here before the denial is. It is left in
// the queue until the claim is answered: taken out as known it would be with nobody.
func TestWorkWithAClaimThatIsNotAnswered(t *testing.T) {
	for _, answered := range []bool{false, true} {
		here := task.Task{Instance: id(1), Project: "p", Attempt: 2, Stage: task.Claiming, Answered: answered}
		for attempt, want := range map[compute.Attempt]wire.Ack{1: wire.AckAccept, 2: wire.AckRelease, 3: wire.AckRelease} {
			a := arrival{build: compute.Build{Instance: id(1), Project: "p", Attempt: attempt}, here: &here, offers: true}
			if how, why := a.verdict(); how != want {
				t.Errorf("attempt %d, while attempt 2 is claimed: %v (%s), want %v", attempt, how, why, want)
			}
			if never := a.never(false); never != (attempt == 2) { // others may be behind it for as long as its set waits
				t.Errorf("attempt %d, while attempt 2 is claimed: it is looked behind: %t", attempt, never)
			}
		}
	}
}

// Work that is not its queue's would be given back for ever.
func TestWorkOfAnotherQueue(t *testing.T) {
	for queue, ok := range map[compute.QueueName]bool{"q": true, "other": false} {
		err := checkPlace(compute.Build{Queue: queue, Resources: compute.Resources{compute.VCPU: 1}}, "q")
		if (err == nil) != ok || err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%s: %v", queue, err)
		}
	}
}

// A flavor is made smaller while work of it waits, or runs on a host that dies: the work
// keeps what it was given. It runs where there is room for that, and where there is not it
// is given back and keeps nothing behind it from the host.
func TestWorkOfASmallerFlavor(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(
			1, "small",
			func(b *compute.Build) { b.Resources = compute.Resources{compute.VCPU: 3, compute.MemoryMB: 2048} },
		)
		pass(8 * time.Second)
		c.wantOne(1, compute.StateActive)
		const larger = 12
		for i := 2; i < 2+larger; i++ {
			c.boot(
				i, "small",
				func(b *compute.Build) { b.Resources = compute.Resources{compute.VCPU: 17, compute.MemoryMB: 2048} },
			)
		}
		c.boot(2+larger, "small")
		pass(8 * time.Second)
		c.wantOne(2+larger, compute.StateActive)
		stop(c, n)
		for _, it := range c.queues["small"].items[1 : 1+larger] {
			if it.holder != nil || it.done {
				c.t.Errorf("what has no room here is not given back: held %t, done %t", it.holder != nil, it.done)
			}
		}
		if len(c.rejected) > 0 {
			c.t.Errorf("rejected: %+v", c.rejected)
		}
	})
}

// Whether work is too late is judged by the time of the log, whatever the host's clock shows.
func TestAHostWithAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		story(t, fake.Options{}, func(c *cell, dir string) {
			c.off = off
			n := c.start(dir, fake.Options{}, nil)
			pass(time.Second)
			until := func(left time.Duration) func(*compute.Build) {
				return func(b *compute.Build) { b.Deadline = c.broker().Add(left) }
			}
			c.boot(1, "small", until(time.Minute))
			pass(8 * time.Second)
			c.wantOne(1, compute.StateActive)
			c.boot(2, "small", until(-time.Second))
			pass(8 * time.Second)
			c.wantOne(2, compute.StateQueued)
			c.delete(2)
			stop(c, n)
			for i, deliveries := range []int16{1, 2} {
				if it := c.queues["small"].items[i]; it.delivery != deliveries || !it.done {
					t.Errorf("off by %s: %d was delivered %d times, done %t", off, i+1, it.delivery, it.done)
				}
			}
		})
	}
}
