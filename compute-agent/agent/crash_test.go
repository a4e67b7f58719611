// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
)

// trip kills an agent at one of the moments between what it does: the nth of
// its kind.
type trip struct { // nil: never
	kind string
	nth  int
	mu   sync.Mutex
	seen int
	died bool
	kill func()
}

func (p *trip) dead() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.died
}

// cross says whether the agent is dead, and maybe kills it here.
func (p *trip) cross(kind string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.died {
		return true
	}
	if kind == p.kind {
		if p.seen++; p.seen == p.nth {
			p.died = true
			p.kill()
		}
	}
	return p.died
}

// tripJournal dies before or after a write.
type tripJournal struct {
	Journal
	*trip
}

func (j tripJournal) Write(c journal.Change) error {
	if j.cross("write") {
		return errDead
	}
	err := j.Journal.Write(c)
	if j.cross("written") {
		return errDead
	}
	return err
}

// tripDriver dies before or after a call, and sees to it that nothing is
// launched that was not granted.
type tripDriver struct {
	hypervisor.Driver
	*trip
	cell *cell
}

func (d tripDriver) around(what string, f func() error) error {
	if d.cross(what) {
		return errDead
	}
	err := f()
	if d.cross(what + " done") {
		return errDead
	}
	return err
}

func (d tripDriver) Prepare(ctx context.Context, s hypervisor.Spec) error {
	return d.around("prepare", func() error { return d.Driver.Prepare(ctx, s) })
}

func (d tripDriver) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	return d.around("launch", func() error {
		d.cell.mu.Lock()
		if !d.cell.granted[claimKey{id, a, c}] {
			d.cell.t.Errorf("%s attempt %d claim %s is launched without a grant", id, a, c)
		}
		d.cell.mu.Unlock()
		return d.Driver.Launch(ctx, id, a, c)
	})
}

func (d tripDriver) Destroy(ctx context.Context, id compute.InstanceID) error {
	return d.around("destroy", func() error { return d.Driver.Destroy(ctx, id) })
}

func (d tripDriver) Stop(ctx context.Context, id compute.InstanceID, g time.Duration) error {
	return d.around("stop", func() error { return d.Driver.Stop(ctx, id, g) })
}

func (d tripDriver) Reboot(ctx context.Context, id compute.InstanceID, g time.Duration) error {
	return d.around("reboot", func() error { return d.Driver.Reboot(ctx, id, g) })
}

// faulty fails in each way once.
func faulty() fake.Options {
	return fake.Options{
		PrepareTime: 100 * time.Millisecond, LaunchTime: 50 * time.Millisecond, DestroyTime: 20 * time.Millisecond,
		Fault: func(c fake.Call) *fake.Fault {
			switch {
			case c.Method == "Prepare" && c.Instance == id(4) && c.Attempt == 1:
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureHost, Message: "no space"}}
			case c.Method == "Launch" && c.Instance == id(5) && c.Attempt == 1:
				return &fake.Fault{Err: errors.New("lost"), After: true}
			}
			return nil
		},
	}
}

// crashAt kills the agent at the nth moment of a kind, starts it again, and says
// whether there was such a moment.
func crashAt(t *testing.T, kind string, nth int) (died bool) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queue("small", small), queue("pci", compute.Resources{compute.VCPU: 1, "CUSTOM_PCI": 1}))
		p := &trip{kind: kind, nth: nth, kill: func() {}}
		var node *node
		life := func(p *trip) {
			node = c.start(dir, faulty(), func(o *Options) {
				o.Journal, o.Driver = tripJournal{o.Journal, p}, tripDriver{o.Driver, p, c}
				o.Reporter.(interface{ set(*trip) }).set(p)
			})
		}
		life(p)
		p.mu.Lock()
		p.kill = node.cancel
		p.mu.Unlock()
		c.boot(1, "small")
		c.boot(2, "pci")
		c.boot(4, "small")
		pass(2 * time.Second)
		c.boot(5, "small")
		c.delete(2)
		c.command(1, compute.OpReboot, 7)
		c.boot(6, "small")
		c.delete(6) // denied, on whichever host
		pass(3 * time.Second)
		c.boot(3, "pci")
		c.command(1, compute.OpStop, 9)
		pass(10 * time.Second)
		died = p.dead()
		if err := node.end(); !died && err != nil {
			t.Error(err)
		}
		pass(20 * time.Second)
		life(nil)
		pass(6 * time.Minute)
		c.want(
			compute.StateActive, compute.StateDeleted, compute.StateActive, compute.StateActive, compute.StateActive,
			compute.StateDeleted,
		)
		c.check()
		if n := c.counts(fake.Rebooted)[id(1)]; n > 1 {
			t.Errorf("rebooted %d times", n)
		}
		if power := c.insts[id(1)].power; power != compute.PowerStopped {
			t.Errorf("the last word was stop, and it is %s", power)
		}
		if err := node.end(); err != nil {
			t.Error(err)
		}
		s, err := journal.Open(dir+"/journal", journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		kept, err := s.Read()
		if err != nil || len(kept.Entries) != 4 {
			t.Errorf(
				"the journal keeps %d entries (%v), want those of 4 machines: %+v", len(kept.Entries), err,
				kept.Entries,
			)
		}
		close(c.over)
	})
	return died
}

// Whenever the agent dies, nothing is launched twice or without a grant, and
// everything ends as it should.
func TestDeathAtEveryMoment(t *testing.T) {
	for _, kind := range []string{
		"write", "written", "prepare", "prepare done", "launch", "launch done", "destroy", "destroy done", "send",
		"sent", "stop", "stop done", "reboot", "reboot done",
	} {
		for nth := 1; ; nth++ {
			died := false
			ok := t.Run(fmt.Sprint(kind, " ", nth), func(t *testing.T) { died = crashAt(t, kind, nth) })
			if !died && nth == 1 && ok {
				t.Errorf("the agent never died at %q", kind)
			}
			if !ok || !died {
				break
			}
		}
	}
}

func (n *node) set(p *trip) { n.trip = p }
