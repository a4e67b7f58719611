// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// waits is what the open fetches list now.
func (c *cell) waits() []compute.QueueName {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []compute.QueueName
	for _, f := range c.node.open {
		for _, q := range f.queues {
			out = append(out, q.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (c *cell) beacon() compute.Beacon {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.beacons) == 0 {
		return compute.Beacon{}
	}
	return c.beacons[len(c.beacons)-1]
}

// reported counts the reports of a kind about an instance; 0 is about the host.
func (c *cell) reported(op compute.ReportOp, n int) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.reports {
		if r.Op == op && (n == 0 || r.Instance == id(n)) {
			count++
		}
	}
	return count
}

func (c *cell) desire(s compute.HostState, v compute.Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(compute.Command{
		Op: compute.CommandHost, Desired: &compute.HostDesired{State: s, Reason: "because", Version: v},
	})
}

// The example the design comes from.
func TestTheExample(t *testing.T) {
	var queues []compute.Queue
	for name, gib := range map[string]int64{"tiny": 1, "medium": 4, "large": 8} {
		r := compute.Resources{compute.MemoryMB: gib << 10}
		queues = append(queues, queue(name, r), queue(name+".pci-yes", r.Plus(compute.Resources{"CUSTOM_PCI": 1})))
	}
	all := []compute.QueueName{"large", "large.pci-yes", "medium", "medium.pci-yes", "tiny", "tiny.pci-yes"}
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{PrepareTime: time.Second, DestroyTime: time.Second}, nil)
		expect := func(when string, want ...compute.QueueName) {
			c.t.Helper()
			pass(6 * time.Second)
			if diff := cmp.Diff(want, c.waits()); diff != "" {
				c.t.Errorf("%s: %s", when, diff)
			}
		}
		expect("empty", all...)
		c.boot(1, "tiny.pci-yes")
		expect("tiny with the device runs", "large", "medium", "tiny")
		c.delete(1)
		expect("deleted", all...)
		pass(20 * time.Second) // which queues it waits on is no news: the next beacon says it
		if b := c.beacon(); len(b.Waiting) != 6 || b.State != compute.HostEnabled ||
			b.Free[compute.MemoryMB] != 16<<10 {
			c.t.Errorf("the beacon says %+v", b)
		}
		stop(c, n)
	}, queues...)
}

func stop(c *cell, n *node) {
	c.t.Helper()
	if err := n.end(); err != nil {
		c.t.Error(err)
	}
}

// Three brokers, one device, more work than fits: never more than there is, and
// in the end everything was there.
func TestManySessions(t *testing.T) {
	queues := []compute.Queue{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		queues = append(
			queues, queue(name, compute.Resources{compute.MemoryMB: 6144}),
			queue(name+"-pci", compute.Resources{compute.MemoryMB: 6144, "CUSTOM_PCI": 1}),
		)
	}
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.brokers = 3
		n := c.start(dir, fake.Options{PrepareTime: time.Second}, nil)
		for i, q := range queues {
			c.boot(i+1, string(q.Name))
		}
		for range 200 {
			pass(time.Second)
			for i := range queues {
				if c.state(i+1) == compute.StateActive {
					c.delete(i + 1)
				}
			}
		}
		for i := range queues {
			c.wantOne(i+1, compute.StateDeleted)
		}
		stop(c, n)
	}, queues...)
}

func (c *cell) wantOne(n int, want compute.State) {
	c.t.Helper()
	if got := c.state(n); got != want {
		c.t.Errorf("instance %d is %s, want %s", n, got, want)
	}
}

// The agent's weigher is the host's own affair, and it says which it has.
func TestBeaconSaysTheWeigher(t *testing.T) {
	for _, w := range []compute.Weigher{compute.Spread, compute.Pack} {
		story(t, fake.Options{}, func(c *cell, dir string) {
			n := c.start(dir, fake.Options{}, func(o *Options) { o.Weigher = w })
			pass(time.Second)
			if b := c.beacon(); b.Weigher != w {
				t.Errorf("it has %s, and the beacon says %s", w, b.Weigher)
			}
			stop(c, n)
		})
	}
}

// The operator's word: the later one counts, also where the clock of the node that took it was behind, and restarts do
// not forget it.
func TestDesiredState(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(time.Second)
		c.desire(compute.HostEnabled, 5)
		c.desire(compute.HostDraining, 4)
		pass(10 * time.Second)
		c.boot(2, "small")
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateQueued)
		if b := c.beacon(); b.State != compute.HostDraining || b.Reason != "because" || b.DesiredSeen != 6 ||
			b.Machines != 1 ||
			len(b.Waiting) != 0 {
			c.t.Errorf("the beacon says %+v", b)
		}
		stop(c, n)
		n = c.start(dir, fake.Options{}, nil)
		c.delete(1)
		pass(time.Minute)
		c.want(compute.StateDeleted, compute.StateQueued)
		if b := c.beacon(); b.State != compute.HostDraining || b.Machines+b.Building != 0 {
			c.t.Errorf("empty, and the beacon says %+v", b)
		}
		if n.agent.Stats().Offering {
			c.t.Error("it offers")
		}
		c.desire(compute.HostEnabled, 6) // the draining one's
		pass(10 * time.Second)
		c.want(compute.StateDeleted, compute.StateActive)
		if b := c.beacon(); b.DesiredSeen != 7 {
			c.t.Errorf("the beacon says %+v", b)
		}
		stop(c, n)
	})
}

func TestBlackHole(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.attempts = 1
		var healed atomic.Bool
		d := fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" && !healed.Load() {
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureHost, Message: "no disk"}}
			}
			return nil
		}}
		n := c.start(dir, d, func(o *Options) { o.Slots = 1 })
		for i := 1; i <= 6; i++ {
			c.boot(i, "small")
		}
		pass(20 * time.Second)
		c.want(
			compute.StateError, compute.StateError, compute.StateError, compute.StateQueued, compute.StateQueued,
			compute.StateQueued,
		)
		if b := c.beacon(); b.State != compute.HostQuarantined || !strings.Contains(b.Reason, "no disk") {
			c.t.Errorf("the beacon says %s: %s", b.State, b.Reason)
		}
		stop(c, n)
		n = c.start(dir, d, func(o *Options) { o.Slots = 1 })
		pass(5 * time.Second)
		c.wantOne(4, compute.StateQueued)
		pass(10 * time.Second) // 30 s are over: one more failure
		c.wantOne(4, compute.StateError)
		c.wantOne(5, compute.StateQueued)
		healed.Store(true)
		pass(time.Minute + 5*time.Second)
		c.wantOne(5, compute.StateActive)
		c.wantOne(6, compute.StateActive)
		if b := c.beacon(); b.State != compute.HostEnabled {
			c.t.Errorf("the beacon says %s: %s", b.State, b.Reason)
		}
		stop(c, n)
	})
}

// When the operator enables a host that is in quarantine, that ends, and the next one is as short as the first.
func TestEnableEndsQuarantine(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.attempts = 1
		var healed atomic.Bool
		logged, logs := observer.New(zap.InfoLevel)
		n := c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" && !healed.Load() {
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureHost, Message: "no disk"}}
			}
			return nil
		}}, func(o *Options) { o.Slots, o.Log = 1, zap.New(logged) })
		for i := 1; i <= 4; i++ {
			c.boot(i, "small")
		}
		pass(20 * time.Second)
		c.wantOne(4, compute.StateQueued)
		c.desire(compute.HostDraining, 1) // is no word about it
		c.desire(compute.HostDisabled, 2)
		pass(time.Second)
		healed.Store(true)
		c.desire(compute.HostEnabled, 3)
		pass(5 * time.Second)
		c.wantOne(4, compute.StateActive)
		if b := c.beacon(); b.State != compute.HostEnabled || b.DesiredSeen != 3 {
			c.t.Errorf("the beacon says %+v", b)
		}
		if said := logs.FilterMessageSnippet("ends the quarantine").All(); len(said) != 1 ||
			said[0].ContextMap()["it was for"] != "no disk" {
			c.t.Errorf("the log has %+v", said)
		}
		stop(c, n)
	})
}

// An image that is broken here is no fault of the host: other work goes on. It
// is left to others for a while, and if nobody wants it, it fails with its reason.
func TestBadImage(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.attempts = 1
		var healed atomic.Bool
		var tried atomic.Int32
		n := c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" && c.image(call.Instance) == "bad" && !healed.Load() {
				tried.Add(1)
				return &fake.Fault{Err: hypervisor.RefuseImage("image bad is broken")}
			}
			return nil
		}}, func(o *Options) { o.Slots = 1 })
		bad := func(b *compute.Build) { b.Image = "bad" }
		good := func(b *compute.Build) { b.Image = "good" }
		for i := 1; i <= 3; i++ {
			c.boot(i, "small", bad)
		}
		pass(20 * time.Second)
		c.want(compute.StateError, compute.StateError, compute.StateError)
		c.boot(4, "small", good)
		pass(5 * time.Second)
		c.wantOne(4, compute.StateActive)
		if b := c.beacon(); b.State != compute.HostEnabled || !slices.Equal(b.Mistrusts, []string{"bad"}) {
			c.t.Errorf("the beacon says %s: %s, and it mistrusts %q", b.State, b.Reason, b.Mistrusts)
		}
		c.boot(5, "small", bad)
		pass(time.Second)
		c.wantOne(5, compute.StateQueued) // left to others
		if n := tried.Load(); n != 3 {
			c.t.Errorf("the image was tried %d times", n)
		}
		pass(time.Minute)
		c.wantOne(5, compute.StateError) // nobody wants it
		// before it is booted: the host may try the image again now that it was left for a while
		healed.Store(true)
		c.boot(6, "small", bad)
		c.desire(compute.HostEnabled, 1)
		pass(5 * time.Second)
		c.wantOne(6, compute.StateActive)
		if b := c.beacon(); len(b.Mistrusts) > 0 {
			c.t.Errorf("healed, it mistrusts %q", b.Mistrusts)
		}
		stop(c, n)
	})
}

// image is that of an instance that was booted.
func (c *cell) image(id compute.InstanceID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.insts[id].build.Image
}

func TestPinned(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{PrepareTime: time.Second}, func(o *Options) { o.Slots = 1 })
		pass(time.Second)
		c.pin(1, "small", small)
		c.pin(2, "small", compute.Resources{compute.VCPU: 99})
		c.pin(3, "small", small) // one slot: it waits for it
		pass(20 * time.Second)
		c.want(compute.StateActive, compute.StateError, compute.StateActive)
		c.mu.Lock()
		said := c.reports[slices.IndexFunc(
			c.reports, func(r compute.Report) bool { return r.Op == compute.ReportPinned },
		)].Message
		c.mu.Unlock()
		if !strings.Contains(said, "VCPU=99") {
			c.t.Errorf("it says %q", said)
		}
		c.desire(compute.HostDisabled, 1)
		c.pin(4, "small", small)
		pass(time.Second)
		c.wantOne(4, compute.StateError)
		stop(c, n)
	})
}

func TestAvoid(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(1, "small", func(b *compute.Build) { b.Avoid = []compute.HostID{"h0", "h1"} })
		pass(time.Second)
		if got := c.waits(); got != nil {
			c.t.Errorf("it waits on %v, and should leave it to others for 2 s", got)
		}
		pass(time.Minute)
		c.wantOne(1, compute.StateQueued)
		c.delete(1)
		c.mu.Lock()
		deliveries := c.queues["small"].items[0].delivery
		c.queues["small"].items[0].done = true
		c.mu.Unlock()
		if deliveries < 20 || deliveries > 32 {
			c.t.Errorf("delivered %d times in a minute", deliveries)
		}
		c.boot(2, "small", func(b *compute.Build) { b.Failed = []compute.HostID{"h1"} })
		c.boot(3, "small", func(b *compute.Build) { b.Deadline = time.Now().Add(-time.Second) })
		pass(20 * time.Second)
		c.wantOne(2, compute.StateActive)
		c.mu.Lock()
		if it := c.queues["small"].items[1]; it.delivery != 3 {
			c.t.Errorf("what failed here before was taken at delivery %d", it.delivery)
		}
		if it := c.queues["small"].items[2]; it.delivery != 2 || !it.done {
			c.t.Errorf("void work: delivery %d, done %t", it.delivery, it.done)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// Work that must not run here, and that nobody else takes, keeps the host from
// nothing that lies behind it, and is given back.
func TestWorkBehindWhatAvoidsTheHost(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		const avoiders = 12
		n := c.start(dir, fake.Options{}, nil)
		for i := range avoiders {
			c.boot(i+1, "small", func(b *compute.Build) { b.Avoid = []compute.HostID{"h1"} })
		}
		for i := avoiders + 1; i < avoiders+4; i++ {
			c.boot(i, "small")
			pass(8 * time.Second)
			c.wantOne(i, compute.StateActive)
		}
		stop(c, n)
		for _, it := range c.queues["small"].items[:avoiders] {
			if it.holder != nil || it.done {
				c.t.Errorf("what avoids this host is not given back: held %t, done %t", it.holder != nil, it.done)
			}
		}
	})
}

// A stop undoes what was not claimed and gives it to others at once; what runs,
// runs on.
func TestGracefulStop(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		slow := fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" && call.Instance == id(2) {
				return &fake.Fault{Slow: time.Hour}
			}
			return nil
		}}
		n := c.start(dir, slow, nil)
		c.boot(1, "small")
		c.boot(2, "small")
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateQueued)
		began := time.Now()
		stop(c, n)
		if took := time.Since(began); took > time.Second {
			c.t.Errorf("stopping took %s", took)
		}
		c.mu.Lock()
		if it := c.queues["small"].items[1]; it.done || it.holder != nil {
			c.t.Errorf("the work is not given back: %+v", it)
		}
		c.mu.Unlock()
		c.check() // nothing of 2 is left
		n = c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateActive)
		if got := c.counts(fake.Launched); got[id(1)] != 1 || got[id(2)] != 1 {
			c.t.Errorf("launched %v", got)
		}
		stop(c, n)
	})
}

// What was claimed is answered while the agent stops, and so is finished, if the
// answer comes soon enough; otherwise it is given back. Either way the stop ends.
func TestGracefulStopOfClaims(t *testing.T) {
	for name, answered := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.noGrants = true
				n := c.start(dir, fake.Options{}, nil)
				c.boot(1, "small")
				pass(4 * time.Second)
				began, ended := time.Now(), make(chan error, 1)
				go func() { ended <- n.end() }()
				pass(time.Second / 2)
				if answered {
					c.mu.Lock()
					c.noGrants = false
					c.mu.Unlock() // the claim is repeated after 5 s
				}
				if err := <-ended; err != nil {
					c.t.Error(err)
				}
				if took := time.Since(began); took > 10*time.Second {
					c.t.Errorf("stopping took %s", took)
				}
				if answered {
					c.want(compute.StateActive)
					c.check()
				} else if got := c.reported(compute.ReportReturned, 1); got != 1 || len(c.host.Machines()) != 0 {
					c.t.Errorf("given back %d times, and on the host is %v", got, c.host.Machines())
				}
			})
		})
	}
}

// A journal is lost: machines stay and are adopted, what was never there is
// said to be unknown.
func TestNewJournal(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		c.boot(2, "small")
		pass(time.Second)
		first := n.agent.begin.ID
		stop(c, n)
		if err := fake.NewDriver(c.host, fake.Options{}).Destroy(c.t.Context(), id(2)); err != nil {
			c.t.Fatal(err)
		}
		n = c.start(c.t.TempDir(), fake.Options{}, nil)
		pass(10 * time.Second)
		if b := c.beacon(); b.Journal == first || b.Journal == "" {
			c.t.Errorf("the beacon carries journal %q, the old one was %q", b.Journal, first)
		}
		if got := c.reported(compute.ReportHello, 0); got != 4 {
			c.t.Errorf("%d hellos in two lives with two partitions", got)
		}
		c.want(compute.StateActive, compute.StateError)
		if c.insts[id(1)].confirm {
			c.t.Error("the question is not answered")
		}
		stop(c, n)
	})
}

// A wish of the operator that was said before the agent first read its stream,
// or that only a lost journal knew, holds; an old fence says nothing about the
// machines of now.
func TestNewJournalKnowsWhatTheOperatorWants(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, _ string) {
		c.desire(compute.HostDisabled, 3)
		n := c.start(c.t.TempDir(), fake.Options{}, nil)
		pass(10 * time.Second)
		if b := c.beacon(); b.State != compute.HostDisabled || b.DesiredSeen != 3 {
			c.t.Errorf("the beacon says %+v", b)
		}
		c.desire(compute.HostEnabled, 4)
		c.mu.Lock()
		c.say(compute.Command{Op: compute.CommandFenced})
		c.mu.Unlock()
		c.boot(1, "small")
		pass(70 * time.Second) // the host was known before
		c.want(compute.StateActive)
		stop(c, n)
		n = c.start(c.t.TempDir(), fake.Options{}, nil)
		pass(time.Minute)
		c.want(compute.StateActive)
		if got := c.counts(fake.Destroyed); len(got) != 0 {
			c.t.Errorf("an old fence destroyed %v", got)
		}
		stop(c, n)
	})
}

// What lies behind a grant in the stream wins over it, also after a restart;
// and nothing is done before the end was seen.
func TestTheEndOfTheStreamFirst(t *testing.T) {
	for name, op := range map[string]compute.CommandOp{
		"delete": compute.CommandDelete, "fenced": compute.CommandFenced,
	} {
		t.Run(name, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				c.noGrants = true
				n := c.start(dir, fake.Options{}, nil)
				c.boot(1, "small")
				pass(time.Second)
				x := c.insts[id(1)]
				var claim compute.ClaimID
				for _, r := range c.reports {
					if r.Op == compute.ReportClaim {
						claim = r.Claim
					}
				}
				cmd := compute.Command{Project: "p", Instance: id(1), Attempt: 1, Claim: claim}
				n.cancel()
				if err := n.end(); err != nil {
					t.Error(err)
				}
				c.mu.Lock()
				x.state, x.claim = compute.StateDeleting, claim
				for _, op := range []compute.CommandOp{compute.CommandGrant, op} {
					cmd.Op = op
					c.say(cmd)
				}
				records := c.stream
				c.hold = true
				c.mu.Unlock()
				var calls atomic.Int32
				n = c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
					switch call.Method {
					case "Launch":
						calls.Add(1)
					case "List": // it answers when both of the following have come
						return &fake.Fault{Slow: time.Second}
					}
					return nil
				}}, nil)
				n.agent.Commands(nil, true)
				n.agent.Commands(records[:1], false)
				pass(30 * time.Second) // the claim is not given back yet
				if got := c.counts(fake.Launched); len(got) != 0 || n.agent.Stats().Offering {
					t.Errorf("before the end was read it launched %v", got)
				}
				n.agent.Commands(records[1:], true)
				pass(time.Minute)
				if calls.Load() != 0 {
					t.Error("Launch was called")
				}
				c.want(compute.StateDeleted)
				stop(c, n)
			})
		})
	}
}

// A grant was written down, or was about to be; the agent died before it
// launched, and a delete lies in the stream: the launch waits for the end of the
// stream, and is not done.
func TestGrantFromBeforeTheCrash(t *testing.T) {
	for name, note := range map[string]time.Duration{"written down": -1, "not written down yet": time.Minute} {
		t.Run(name, func(t *testing.T) { grantFromBeforeTheCrash(t, note) })
	}
}

// A grant that is read long after the agent was started again, as after a power cut of the whole cell, is in time: the
// agent could not read it before.
func TestGrantIsReadLate(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		p := &trip{kind: "sent", nth: 1000, kill: func() {}}
		n := c.start(dir, fake.Options{}, func(o *Options) {
			o.Journal, o.Driver = tripJournal{o.Journal, p}, tripDriver{o.Driver, p, c}
			o.Reporter.(*node).set(p)
			o.Timing.Note = -1
		})
		pass(20 * time.Second)
		p.mu.Lock()
		p.kill, p.nth = n.cancel, p.seen+1 // when it has claimed
		p.mu.Unlock()
		c.mu.Lock()
		c.hold = true // nothing is read any more
		begin := len(c.stream)
		c.mu.Unlock()
		c.boot(1, "small")
		pass(5 * time.Second)
		_ = n.end()
		c.want(compute.StateStarting)
		n = c.start(dir, fake.Options{}, nil)
		pass(3 * time.Minute)
		c.mu.Lock()
		n.agent.Commands(c.stream[begin:], true)
		c.hold = false
		c.mu.Unlock()
		pass(2 * time.Minute)
		c.want(compute.StateActive)
		c.mu.Lock()
		if i := c.insts[id(1)]; i.attempt != 1 {
			t.Errorf("it is active at its attempt %d", i.attempt)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

func grantFromBeforeTheCrash(t *testing.T, note time.Duration) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		p := &trip{kind: "launch", nth: 1, kill: func() {}}
		n := c.start(dir, fake.Options{PrepareTime: time.Second}, func(o *Options) {
			o.Journal, o.Driver = tripJournal{o.Journal, p}, tripDriver{o.Driver, p, c}
			o.Reporter.(*node).set(p)
			o.Timing.Note = note
		})
		p.mu.Lock()
		p.kill = n.cancel
		p.mu.Unlock()
		pass(time.Second) // until it has read that it is alone
		c.boot(1, "small")
		pass(5 * time.Second)
		_ = n.end()
		c.want(compute.StateStarting)
		c.mu.Lock()
		begin := len(c.stream)
		if note > 0 {
			begin-- // the grant
		}
		c.hold = true
		c.mu.Unlock()
		c.delete(1)
		n = c.start(dir, fake.Options{}, nil)
		if from := n.agent.StartOffset(); from != int64(begin) {
			c.t.Errorf("it starts at %d, and has acted upon %d", from, begin)
		}
		pass(time.Minute)
		if got := c.counts(fake.Launched); len(got) != 0 {
			c.t.Errorf("launched %v before the stream was read", got)
		}
		c.mu.Lock()
		n.agent.Commands(c.stream[begin:], true)
		c.hold = false
		c.mu.Unlock()
		pass(time.Minute)
		if got := c.counts(fake.Launched); len(got) != 0 {
			c.t.Errorf("launched %v", got)
		}
		c.want(compute.StateDeleted)
		stop(c, n)
	})
}
