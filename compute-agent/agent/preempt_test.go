// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// makeRoom has the host save room for a queue, and have machines taken away for it.
func (c *cell) makeRoom(q string) { c.save(q, time.Hour) }

func (c *cell) save(q string, long time.Duration) {
	c.mu.Lock()
	look := compute.Look{Queue: compute.QueueName(q), Save: long, Preempt: true}
	c.say(compute.Command{Op: compute.CommandLook, Look: &look, At: time.Now()})
	c.mu.Unlock()
	pass(time.Second)
}

// confirmAll has the conductor ask the host about all that it has.
func (c *cell) confirmAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.insts {
		x.confirm = true
		c.effects(x)
	}
}

// asked are the machines whose places were asked for, in all, and how often.
func (c *cell) asked() (ids []compute.InstanceID, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	once := map[compute.InstanceID]bool{}
	for _, r := range c.reports {
		if r.Op == compute.ReportPreempt && r.Queue == "large" {
			once[r.Instance] = true
			times++
		}
	}
	return slices.Sorted(maps.Keys(once)), times
}

// fullOfPreemptible starts a host on which eight machines leave no room, all of which may be taken away.
func (c *cell) fullOfPreemptible(dir string) {
	c.start(dir, fake.Options{}, nil)
	pass(20 * time.Second)
	for n := 1; n <= 8; n++ {
		c.boot(n, "small", func(b *compute.Build) { b.Preemptible = true })
	}
	pass(time.Minute)
}

// A host that is told again to make room, and one that was started again meanwhile, asks for the same places and no others; once
// it has taken the work it asks for none, and its claim says how many went.
func TestAskedForOnce(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 8; n++ { // of 2 GiB each: the host is full
			c.boot(n, "small", func(b *compute.Build) { b.Preemptible = n > 1 && n < 8 })
		}
		pass(time.Minute)
		if b := c.beacon(); !b.Preempts || b.Preemptible[compute.MemoryMB] != 6*2048 {
			t.Errorf("the beacon says that %v may be taken away", b.Preemptible)
		}
		c.makeRoom("large")
		first, _ := c.asked()
		if len(first) != 4 || slices.Contains(first, id(1)) || slices.Contains(first, id(8)) {
			t.Fatalf("asked for were %v", first)
		}
		c.makeRoom("large")
		stop(c, c.node)
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		c.makeRoom("large")
		if again, times := c.asked(); !slices.Equal(again, first) || times != 12 {
			t.Errorf("asked for were %v, %d times in all", again, times)
		}
		pass(20 * time.Second)
		if b := c.beacon(); b.Preemptible[compute.MemoryMB] != 2*2048 || b.Saving == nil || !b.Saving.Preempt {
			t.Errorf("the beacon says that %v may be taken away, for %+v", b.Preemptible, b.Saving)
		}
		for n := 1; n <= 8; n++ {
			if slices.Contains(first, id(n)) {
				c.delete(n)
			}
		}
		pass(5 * time.Second)
		c.makeRoom("large") // there is room
		c.boot(9, "large")
		pass(5 * time.Second)
		c.boot(10, "large")
		c.makeRoom("large") // said before the queue manager knew that the first was taken
		if again, times := c.asked(); !slices.Equal(again, first) || times != 12 || c.state(9) != compute.StateActive {
			t.Errorf("asked for were %v, %d times in all", again, times)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// What was asked for and has not gone after the longest grace may be asked for again: the conductor may not have
// believed the report, as it had just taken the partition over, and the work that it was for may be somewhere else.
func TestAskedForInVain(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.fullOfPreemptible(dir)
		c.save("large", 2*time.Minute)
		first, _ := c.asked()
		wantPreemptible := func(machines int64) {
			t.Helper()
			if b := c.beacon(); b.Preemptible[compute.MemoryMB] != machines*2048 {
				t.Errorf("the beacon says that %v may be taken away, want that of %d", b.Preemptible, machines)
			}
		}
		pass(5 * time.Minute)
		wantPreemptible(4)
		stop(c, c.node) // nobody knows how long ago it was asked for
		c.start(dir, fake.Options{}, nil)
		pass(compute.MaxGrace + 2*time.Minute)
		wantPreemptible(4)
		pass(2 * time.Minute)
		wantPreemptible(8)
		c.makeRoom("large")
		if again, times := c.asked(); len(first) != 4 || len(again) != 4 || times != 8 {
			t.Errorf("asked for were %v, and then %v, %d times in all", first, again, times)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// A host that was cut off and hears late that it should make room has no machine taken away: the work may have found a host
// since then. Told again, it does.
func TestToldLateToMakeRoom(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.fullOfPreemptible(dir)
		c.mu.Lock()
		c.hold = true
		heard := len(c.stream)
		c.mu.Unlock()
		c.makeRoom("large")
		pass(2 * lateLook)
		c.mu.Lock()
		c.hold = false
		c.node.agent.Commands(slices.Clone(c.stream[heard:]), true)
		c.mu.Unlock()
		pass(time.Second)
		if ids, _ := c.asked(); len(ids) > 0 {
			t.Errorf("told a minute late, it asked for %v", ids)
		}
		c.makeRoom("large")
		if ids, _ := c.asked(); len(ids) != 4 {
			t.Errorf("told again, it asked for %v", ids)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// A host that has lost its journal learns what may be taken away, and what goes already: no other machine goes in its stead.
func TestAskedForByALostJournal(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 8; n++ {
			c.boot(n, "small", func(b *compute.Build) { b.Preemptible = true })
			pass(time.Second) // the youngest go; later all are as old, for all that the host knows
		}
		pass(time.Minute)
		c.makeRoom("large")
		first, _ := c.asked()
		stop(c, c.node)
		c.start(c.t.TempDir(), fake.Options{}, nil)
		pass(20 * time.Second)
		c.confirmAll()
		pass(20 * time.Second)
		c.makeRoom("large")
		if again, times := c.asked(); len(first) != 2 || !slices.Equal(again, first) || times != 4 {
			t.Errorf("asked for were %v, and then %v, %d times", first, again, times)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", compute.Resources{compute.VCPU: 4, compute.MemoryMB: 4096}))
}

// What was taken away before stays where others do as well, though it came last: also after a restart, and by the
// word of the conductor where the journal was lost.
func TestTakenBeforeStays(t *testing.T) {
	for name, restart := range map[string]func(c *cell, dir string){
		"at once": func(*cell, string) {},
		"after a restart": func(c *cell, dir string) {
			stop(c, c.node)
			c.start(dir, fake.Options{}, nil)
		},
		"by a lost journal": func(c *cell, _ string) {
			stop(c, c.node)
			c.start(c.t.TempDir(), fake.Options{}, nil)
			pass(20 * time.Second)
			c.confirmAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.start(dir, fake.Options{}, nil)
				pass(20 * time.Second)
				for n := 1; n <= 8; n++ {
					c.boot(n, "small", func(b *compute.Build) {
						if b.Preemptible = true; n != 3 && n != 6 {
							b.TimesTaken = uint32(n)
						}
					})
					pass(time.Second)
				}
				pass(time.Minute)
				restart(c, dir)
				pass(20 * time.Second)
				c.makeRoom("large")
				if got, _ := c.asked(); !slices.Equal(got, []compute.InstanceID{id(3), id(6)}) {
					t.Errorf("asked for were %v", got)
				}
				stop(c, c.node)
			}, queue("small", small), queue("large", compute.Resources{compute.VCPU: 4, compute.MemoryMB: 4096}))
		})
	}
}

// What was asked for and did not go is not asked for again where there is room without it, and of several only those are
// without which there is none.
func TestAskedForAndThereIsRoom(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 8; n++ {
			c.boot(n, "small", func(b *compute.Build) { b.Preemptible = n <= 4 })
		}
		pass(time.Minute)
		c.makeRoom("large")
		saving := c.beacon().Saving
		if saving == nil || !saving.Preempt {
			t.Errorf("it has asked for all that it needs, and says %+v", saving)
		}
		again := func(after ...int) int {
			for _, n := range after {
				c.delete(n)
			}
			pass(time.Minute)
			_, before := c.asked()
			c.makeRoom("large")
			_, times := c.asked()
			return times - before
		}
		if one, none := again(5, 6, 7), again(8); one != 1 || none != 0 {
			t.Errorf("of 4 that it needs 3 are free, and it asks for %d; then all are, and it asks for %d", one, none)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// A host that cannot make the room says so: it keeps what is free from others, and that lies idle.
func TestCannotMakeRoom(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 8; n++ {
			c.boot(n, "small", func(b *compute.Build) { b.Preemptible = n <= 3 })
		}
		pass(time.Minute)
		c.makeRoom("large")
		pass(20 * time.Second)
		if ids, _ := c.asked(); len(ids) > 0 || c.beacon().Saving.For() != "large" || c.beacon().Saving.Preempt {
			t.Errorf("asked for are %v, and it says %+v", ids, c.beacon().Saving)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// The beacon says what is prepared here and not yet granted, until it is, and of a set that is offered whole that one record of
// its queue is.
func TestBeaconSaysWhatIsTaken(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{PrepareTime: 25 * time.Second}, nil)
		pass(20 * time.Second)
		c.boot(1, "small")
		c.whole("large", 3, 4, 5)
		pass(20 * time.Second)
		want := map[compute.QueueName]uint32{"small": 1, "large": 1}
		if got := c.beacon().Taking; !maps.Equal(got, want) {
			t.Errorf("the beacon says that %v are taken, want %v", got, want)
		}
		pass(5 * time.Minute)
		if got := c.beacon().Taking; len(got) > 0 || c.state(5) != compute.StateActive {
			t.Errorf("the beacon says that %v are taken", got)
		}
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// Machines go so that work of a queue finds room. One that would have to go for it, and waits for this host alone, does
// not start in that room; it starts once the work was taken and there is room for both.
func TestWhatGoesDoesNotComeBackFirst(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 8; n++ { // the host is full
			c.boot(n, "small", func(b *compute.Build) { b.Preemptible = n > 4 })
		}
		pass(time.Minute)
		c.makeRoom("large")
		gone, _ := c.asked()
		for n := 5; n <= 8; n++ {
			if slices.Contains(gone, id(n)) {
				c.delete(n)
			}
		}
		again := compute.Build{
			Instance: id(9), Project: "p", Attempt: 1, Queue: "small", Resources: small, Preemptible: true,
		}
		c.pinBuild(again, func(b *compute.Build) { b.WaitUntil = time.Now().Add(time.Hour) })
		pass(10 * time.Second)
		c.wantOne(9, compute.StateQueued)
		c.boot(10, "large")
		c.makeRoom("large") // there is
		pass(10 * time.Second)
		c.wantOne(10, compute.StateActive)
		c.delete(1)
		pass(10 * time.Second)
		c.wantOne(9, compute.StateActive)
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}

// Once the host saves no longer, what waited for that starts at once.
func TestWhatWaitsForASavingToEnd(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		for n := 1; n <= 7; n++ { // there is room for one more
			c.boot(n, "small")
		}
		pass(time.Minute)
		c.save("large", 20*time.Second)
		b := compute.Build{Instance: id(8), Project: "p", Attempt: 1, Queue: "small", Resources: small, Preemptible: true}
		c.pinBuild(b, func(b *compute.Build) { b.WaitUntil = time.Now().Add(time.Hour) })
		pass(18 * time.Second)
		c.wantOne(8, compute.StateQueued)
		pass(3 * time.Second)
		c.wantOne(8, compute.StateActive)
		stop(c, c.node)
	}, queue("small", small), queue("large", large))
}
