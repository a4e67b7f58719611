// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
)

// reserve boots a placeholder.
func (c *cell) reserve(n int) {
	c.boot(n, "small", func(b *compute.Build) { b.Placeholder = true })
}

// take boots an instance into the room of a placeholder.
func (c *cell) take(n, placeholder int, change ...func(*compute.Build)) {
	b := compute.Build{
		Instance: id(n), Project: "p", Attempt: 1, Queue: "small", Resources: c.queues["small"].queue.Resources,
		In: compute.InPlaceholder{ID: id(placeholder), Attempt: 1},
	}
	c.pinBuild(b, func(b *compute.Build) {
		for _, f := range change {
			f(b)
		}
	})
}

// wantFree is how many more small machines have room by the beacon.
func (c *cell) wantFree(n int64) {
	c.t.Helper()
	if got := c.beacon().Free[compute.MemoryMB] / small[compute.MemoryMB]; got != n {
		c.t.Errorf("%d small machines have room, want %d", got, n)
	}
}

// faults are calls of the hypervisor that fail while they are to.
type faults struct {
	off  atomic.Bool
	call func(fake.Call) bool
	err  error
}

func (f *faults) options() fake.Options {
	return fake.Options{Fault: func(c fake.Call) *fake.Fault {
		if f.off.Load() && f.call(c) {
			return &fake.Fault{Err: f.err}
		}
		return nil
	}}
}

// What is booted into held room starts on a full host, and that room is nobody else's until both the placeholder and
// what has it are gone, whichever goes first.
func TestHeldRoomIsNeverOpen(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		c.reserve(1)
		pass(2 * time.Second)
		for n := 2; n <= 9; n++ { // the last has no room
			c.boot(n, "small")
		}
		waits := func(after string) {
			t.Helper()
			pass(time.Minute)
			if c.wantFree(0); c.state(9) != compute.StateQueued {
				t.Fatalf("another has got the room after %s: it is %s", after, c.state(9))
			}
		}
		waits("it was held")
		for n := 10; n <= 11; n++ {
			c.take(n, 1)
			if waits("it was taken"); c.state(n) != compute.StateActive {
				t.Fatalf("what took it is %s", c.state(n))
			}
			if n == 10 {
				c.take(12, 1) // it waits until the one before has left
				waits("it was taken twice")
				if c.reported(compute.ReportClaim, 12)+c.reported(compute.ReportPinned, 12) > 0 {
					t.Error("a second one has the room, or is refused, while the first is there")
				}
				c.delete(12)
				c.delete(10)
				waits("what took it was deleted")
			}
		}
		c.delete(1)
		waits("its placeholder was deleted")
		c.delete(11)
		pass(5 * time.Second)
		if c.state(9) != compute.StateActive {
			t.Errorf("nobody holds the room, and what waits is %s", c.state(9))
		}
		stop(c, c.node)
	})
}

// A host that is drained gives up what is held and free, and what is taken once that has gone.
func TestDrainGivesUpHeldRoom(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		c.reserve(1)
		c.reserve(2)
		pass(2 * time.Second)
		c.take(3, 1)
		pass(5 * time.Second)
		c.drain(5, time.Time{})
		pass(5 * time.Second)
		// as the small conductor has what is gone from a host
		c.want(compute.StateActive, compute.StateError, compute.StateActive)
		if n := c.reported(compute.ReportGone, 2); n != 1 {
			t.Errorf("it says %d times that what was free is gone", n)
		}
		c.delete(3)
		pass(5 * time.Second)
		c.want(compute.StateError, compute.StateError, compute.StateDeleted)
		c.wantLeft(compute.HostDraining, time.Time{}, 0)
		stop(c, c.node)
	})
}

// After a restart what has the room of a placeholder has it still, and it counts once: also where the journal is lost,
// as soon as the conductor has said whose room it is.
func TestTakenRoomAcrossLives(t *testing.T) {
	for name, lost := range map[string]bool{"with its journal": false, "without its journal": true} {
		t.Run(name, func(t *testing.T) {
			other := t.TempDir()
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.start(dir, fake.Options{}, nil)
				c.reserve(1)
				c.reserve(2)
				pass(2 * time.Second)
				c.take(3, 1)
				pass(5 * time.Second)
				c.wantFree(6)
				stop(c, c.node)
				if lost {
					dir = other
				}
				c.start(dir, fake.Options{}, nil)
				pass(20 * time.Second)
				c.want(compute.StateActive, compute.StateActive, compute.StateActive)
				c.wantFree(6)
				c.take(4, 2)
				c.delete(3)
				pass(5 * time.Second)
				c.take(5, 1)
				pass(5 * time.Second)
				c.want(compute.StateActive, compute.StateActive, compute.StateDeleted, compute.StateActive, compute.StateActive)
				c.wantFree(6)
				stop(c, c.node)
			})
		})
	}
}

// A host that has a fault for a while makes what is booted into the room that it holds once that has passed, and
// refuses it not: its placeholder would go, and the room be open to anybody.
func TestTakerOutwaitsAFault(t *testing.T) {
	f := &faults{call: func(c fake.Call) bool { return c.Method == "List" }, err: errors.New("no connection")}
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, f.options(), nil)
		c.reserve(1)
		pass(2 * time.Second)
		c.want(compute.StateActive)
		f.off.Store(true)
		pass(20 * time.Second)
		if b := c.beacon(); b.State != compute.HostQuarantined {
			t.Fatalf("the host is %s", b.State)
		}
		c.take(2, 1)
		pass(20 * time.Second)
		if c.want(compute.StateActive, compute.StateQueued); c.reported(compute.ReportClaim, 2) > 0 {
			t.Error("a host in quarantine begins it")
		}
		f.off.Store(false)
		pass(30 * time.Second)
		c.want(compute.StateActive, compute.StateActive)
		if n := c.reported(compute.ReportPinned, 2); n > 0 {
			t.Errorf("it was refused %d times", n)
		}
		stop(c, c.node)
	})
}

// What the operator wants is no fault that passes: a host that is drained or disabled refuses it.
func TestTakerIsRefused(t *testing.T) {
	for _, state := range []compute.HostState{compute.HostDraining, compute.HostDisabled} {
		t.Run(state.String(), func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.start(dir, fake.Options{}, nil)
				c.reserve(1)
				pass(2 * time.Second)
				c.desire(state, 3)
				pass(2 * time.Second)
				c.take(2, 1)
				pass(2 * time.Second)
				if n := c.reported(compute.ReportPinned, 2); n != 1 {
					t.Errorf("it was refused %d times", n)
				}
				if c.state(2) != compute.StateError { // as the small conductor has what is pinned and refused
					t.Errorf("it is %s", c.state(2))
				}
				stop(c, c.node)
			})
		})
	}
}

// What is booted into a host's room and has user data that the host cannot open fails there, as often as it has
// attempts: it has nowhere else to go. Its placeholder stays, and the host goes on taking other work.
func TestTakerWithoutItsKey(t *testing.T) {
	keys := sealed.New("", hostkey.NewMaster([32]byte{1}))
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.start(dir, fake.Options{}, nil)
		c.reserve(1)
		pass(2 * time.Second)
		c.take(2, 1, sealedFor(t, keys, 2))
		pass(5 * time.Second)
		c.want(compute.StateActive, compute.StateError)
		if n, failed := c.reported(compute.ReportPinned, 2), c.reported(compute.ReportFailed, 2); n > 0 || failed != 3 {
			t.Errorf("it was refused %d times, and failed %d times", n, failed)
		}
		b := c.beacon()
		if b.State != compute.HostEnabled || len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], "sealed under key") {
			t.Errorf("the host is %s, and warns of %q", b.State, b.Warnings)
		}
		c.take(3, 1)
		pass(5 * time.Second)
		if c.state(3) != compute.StateActive {
			t.Errorf("the next one is %s", c.state(3))
		}
		stop(c, c.node)
	})
}

// A placeholder and what has its room hold that once, also where the host looks for machines to take away, and hold it
// until both go. A placeholder is never one of these.
func TestTakenRoomCountsOnce(t *testing.T) {
	room := compute.InPlaceholder{ID: id(1), Attempt: 2}
	for name, c := range map[string]struct {
		in         compute.InPlaceholder
		held, here task.Stage // of the placeholder, and of what has its room
		want       int
	}{
		"both stay":             {room, task.Running, task.Running, 1},
		"the placeholder goes":  {room, task.Ending, task.Running, 1},
		"what took it goes":     {room, task.Running, task.Ending, 1},
		"both go":               {room, task.Ending, task.Ending, 0},
		"it is another attempt": {compute.InPlaceholder{ID: id(1), Attempt: 1}, task.Running, task.Running, 2},
	} {
		ts := tasks{
			id(1): {Instance: id(1), Attempt: 2, Placeholder: true, Stage: c.held, Resources: small, Preemptible: true},
			id(2): {Instance: id(2), Attempt: 1, In: c.in, Stage: c.here, Resources: small},
		}
		if kept, may, wanted := ts.movable(time.Now()); len(kept) != c.want || len(may)+len(wanted) > 0 {
			t.Errorf("%s: %d hold room, want %d; %v may go", name, len(kept), c.want, may)
		}
	}
}

// A host that cannot write placeholders down does not take one after the other: it is quarantined as one on which
// machines do not start. That placeholders are held there says nothing of machines.
func TestPlaceholdersThatFail(t *testing.T) {
	placeholders := &faults{
		call: func(c fake.Call) bool { return c.Method == "Prepare" }, err: errors.New("no space left"),
	}
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.attempts = 1
		c.start(dir, placeholders.options(), nil)
		pass(time.Second)
		for n := 1; n <= 4; n++ {
			placeholders.off.Store(n != 2)
			c.reserve(n)
			pass(time.Second)
		}
		c.want(compute.StateError, compute.StateActive, compute.StateError, compute.StateError)
		if b := c.beacon(); b.State != compute.HostQuarantined || !strings.Contains(b.Reason, "no space left") {
			t.Errorf("after three failures and a placeholder between them the host is %s: %s", b.State, b.Reason)
		}
		stop(c, c.node)
	})
}
