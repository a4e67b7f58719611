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
		if got, why := known(c.here, compute.Build{Instance: id(1), Project: c.project, Attempt: c.attempt}); got != c.want || why == "" {
			t.Errorf("attempt %d of %s, while %s of p's attempt 2: %v (%s), want %v", c.attempt, c.project, c.here.Stage, got, why, c.want)
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
		c.boot(1, "small", func(b *compute.Build) { b.Resources = compute.Resources{compute.VCPU: 3, compute.MemoryMB: 2048} })
		pass(8 * time.Second)
		c.wantOne(1, compute.StateActive)
		const larger = 12
		for i := 2; i < 2+larger; i++ {
			c.boot(i, "small", func(b *compute.Build) { b.Resources = compute.Resources{compute.VCPU: 17, compute.MemoryMB: 2048} })
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
