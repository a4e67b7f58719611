// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire"
)

var large = compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8192}

// whole is a set of small machines that is offered whole in a queue.
func (c *cell) whole(q string, ns ...int) { c.wholeWith(q, func(*compute.Build) {}, ns...) }

// wholeWith is whole, of a set that is changed before anybody sees it.
func (c *cell) wholeWith(q string, change func(*compute.Build), ns ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	whole := compute.Build{
		Instance: id(ns[0]), Project: "p", Attempt: 1, Queue: compute.QueueName(q), At: time.Now(), Hold: compute.SetHold,
	}
	for _, n := range ns {
		part := compute.Build{
			Instance: id(n), Project: "p", Name: fmt.Sprint("i", n), Attempt: 1, Queue: "small",
			Resources: small, At: time.Now(),
			Hold: compute.SetHold, Group: &compute.BuildGroup{Name: "near"},
		}
		whole.Parts, whole.Resources = append(whole.Parts, part), whole.Resources.Plus(part.Resources)
		c.insts[part.Instance] = &inst{build: part, state: compute.StateQueued, attempt: 1}
	}
	change(&whole)
	l := c.queues[whole.Queue]
	l.items = append(l.items, &item{build: whole})
	c.serve()
}

// records is what has become of the records of a queue: how many left it, and how often each was handed out.
func (c *cell) records(q compute.QueueName) (done int, deliveries []int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range c.queues[q].items {
		if deliveries = append(deliveries, it.delivery); it.done {
			done++
		}
	}
	return done, deliveries
}

// TestWholeIsTaken: a host takes all of a set that is offered whole, prepares as many of it at once as it has slots,
// beside what else there is, claims each, and takes the record out of its queue once.
func TestWholeIsTaken(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		most, now := 0, 0
		n := c.start(dir, fake.Options{PrepareTime: 25 * time.Second}, func(o *Options) {
			o.Slots, o.Driver = 2, &watch{Driver: o.Driver, most: &most, now: &now, cell: c}
		})
		c.whole("large", 1, 2, 3, 4)
		c.boot(5, "small")
		pass(30 * time.Second)
		if done, _ := c.records("large"); done != 0 {
			t.Error("it left its queue before each part was claimed")
		}
		if got := c.waits(); got != nil {
			t.Errorf("with more taken than there are slots it waits on %v", got)
		}
		pass(4 * time.Minute)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive, compute.StateActive, compute.StateActive)
		if done, deliveries := c.records("large"); done != 1 || deliveries[0] != 1 || most != 2 {
			t.Errorf("%d of records delivered %v times are done, %d machines were prepared at once", done, deliveries, most)
		}
		for i := range 4 {
			if n := c.reported(compute.ReportClaim, i+1); n != 1 {
				t.Errorf("part %d was claimed %d times", i+1, n)
			}
		}
		stop(c, n)
	}, queue("small", small), queue("large", large))
}

// TestWholeIsLeft: a host leaves all of a set to others of which it must not have one part, or cannot.
func TestWholeIsLeft(t *testing.T) {
	var one compute.Build
	sealedFor(t, sealed.New("", hostkey.NewMaster([32]byte{1})), 2)(&one)
	secret := one.Sealed // of a key that the host has not
	for name, change := range map[string]func(*compute.Build){
		"avoids the host":   func(b *compute.Build) { b.Avoid = []compute.HostID{"h1"} },
		"lacks a trait":     func(b *compute.Build) { b.Required = []compute.Trait{"NOT_HERE"} },
		"sealed part":       func(b *compute.Build) { b.Parts[1].Sealed = secret },
		"more than is free": func(b *compute.Build) { b.Resources, b.Parts[1].Resources = huge(), huge().Minus(small) },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				n := c.start(dir, fake.Options{}, nil)
				c.wholeWith("large", change, 1, 2)
				pass(20 * time.Second)
				c.want(compute.StateQueued, compute.StateQueued)
				if done, deliveries := c.records("large"); done != 0 || deliveries[0] < 2 {
					t.Errorf("%d are done, delivered %v times", done, deliveries)
				}
				stop(c, n)
			}, queue("small", small), queue("large", large))
		})
	}
}

func huge() compute.Resources { return compute.Resources{compute.VCPU: 99, compute.MemoryMB: 8192} }

// TestWholeThatLies: a set that is not what it says is refused, and its record leaves the queue.
func TestWholeThatLies(t *testing.T) {
	for name, change := range map[string]func(*compute.Build){
		"the sum is less":   func(b *compute.Build) { b.Resources = small },
		"one of it twice":   func(b *compute.Build) { b.Parts[1].Instance = b.Parts[0].Instance },
		"another project's": func(b *compute.Build) { b.Parts[1].Project = "q" },
		"no attempt":        func(b *compute.Build) { b.Parts[1].Attempt = 0 },
	} {
		b := compute.Build{Instance: id(1), Project: "p", Attempt: 1, Resources: small.Plus(small)}
		part := compute.Build{Instance: id(1), Project: "p", Attempt: 1, Resources: small}
		second := part
		second.Instance = id(2)
		b.Parts = []compute.Build{part, second}
		if err := checkBuild(b); err != nil {
			t.Fatal(err)
		}
		change(&b)
		var e *compute.Error
		if err := checkBuild(b); !errors.As(err, &e) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWholeComesAgain: what of a set is here already is not taken twice, and what is not here is.
func TestWholeComesAgain(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{PrepareTime: 5 * time.Second}, nil)
		c.boot(2, "small")
		pass(20 * time.Second)
		again := c.insts[id(2)]
		c.whole("large", 1, 2, 3)
		c.mu.Lock()
		c.insts[id(2)] = again
		c.mu.Unlock()
		pass(time.Second)
		c.whole("large", 1, 2, 3)
		c.mu.Lock()
		c.insts[id(2)] = again
		c.mu.Unlock()
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		if done, deliveries := c.records("large"); done != 2 {
			t.Errorf("%d records left the queue, delivered %v times", done, deliveries)
		}
		for i := range 3 {
			if got := c.reported(compute.ReportClaim, i+1); got != 1 {
				t.Errorf("part %d was claimed %d times", i+1, got)
			}
		}
		stop(c, n)
	}, queue("small", small), queue("large", large))
}

// TestAnswersOfAWhole: the record of a set is answered once, when each of it has an answer, and its lock is renewed
// once for all.
func TestAnswersOfAWhole(t *testing.T) {
	ref := wire.WorkRef{Offset: 7}
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		said []wire.Ack
		want wire.Ack
	}{
		{[]wire.Ack{wire.AckAccept, wire.AckAccept, wire.AckAccept}, wire.AckAccept},
		{[]wire.Ack{wire.AckAccept, wire.AckRelease, wire.AckAccept}, wire.AckRelease},
		{[]wire.Ack{wire.AckRelease, wire.AckRelease, wire.AckRelease}, wire.AckRelease},
	} {
		d := deliveries{}
		d.add(ref, id(1), id(2), id(3))
		for i := range 3 {
			want := wire.AckRenew
			if i > 0 {
				want = 0
			}
			if _, how := d.answer(id(i+1), wire.AckRenew, now); how != want {
				t.Errorf("renewal %d is sent as %v", i+1, how)
			}
		}
		if _, how := d.answer(id(2), wire.AckRenew, now.Add(10*time.Second)); how != wire.AckRenew {
			t.Error("it is not renewed again")
		}
		for i, how := range c.said {
			got, how := d.answer(id(i+1), how, now)
			if last := i == 2; last != (how == c.want) || !last && how != 0 || got != ref {
				t.Errorf("%v: answer %d is %v", c.said, i+1, how)
			}
		}
		if _, how := d.answer(id(1), wire.AckAccept, now); how != 0 || len(d) > 0 {
			t.Errorf("it is answered twice, and %d are kept", len(d))
		}
	}
}

// TestWholeAndDeathAtEveryMoment: whenever the agent dies while it takes a set, each of the set runs in the end, once.
func TestWholeAndDeathAtEveryMoment(t *testing.T) {
	for _, kind := range []string{"write", "written", "prepare", "prepare done", "send", "sent", "launch", "launch done"} {
		for nth := 1; ; nth++ {
			died := false
			ok := t.Run(fmt.Sprint(kind, " ", nth), func(t *testing.T) { died = crashInWhole(t, kind, nth) })
			if !died && nth == 1 && ok {
				t.Errorf("the agent never died at %q", kind)
			}
			if !ok || !died {
				break
			}
		}
	}
}

func crashInWhole(t *testing.T, kind string, nth int) (died bool) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queue("small", small), queue("large", large))
		p := &trip{kind: kind, nth: nth, kill: func() {}}
		var node *node
		life := func(p *trip) {
			node = c.start(dir, fake.Options{PrepareTime: time.Second, LaunchTime: time.Second}, func(o *Options) {
				o.Slots = 2
				o.Journal, o.Driver = tripJournal{o.Journal, p}, tripDriver{o.Driver, p, c}
				o.Reporter.(interface{ set(*trip) }).set(p)
			})
		}
		life(p)
		p.mu.Lock()
		p.kill = node.cancel
		p.mu.Unlock()
		c.whole("large", 1, 2, 3)
		pass(20 * time.Second)
		died = p.dead()
		if err := node.end(); !died && err != nil {
			t.Error(err)
		}
		pass(20 * time.Second)
		life(nil)
		pass(6 * time.Minute)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		if done, _ := c.records("large"); done != 1 {
			t.Error("its record is still in the queue")
		}
		c.check()
		if err := node.end(); err != nil {
			t.Error(err)
		}
		close(c.over)
	})
	return died
}
