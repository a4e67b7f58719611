// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// watch counts how many preparations run at once.
type watch struct {
	hypervisor.Driver
	cell      *cell
	most, now *int
}

func (w *watch) Prepare(ctx context.Context, s hypervisor.Spec) error {
	w.cell.mu.Lock()
	*w.now++
	*w.most = max(*w.most, *w.now)
	w.cell.mu.Unlock()
	err := w.Driver.Prepare(ctx, s)
	w.cell.mu.Lock()
	*w.now--
	w.cell.mu.Unlock()
	return err
}

// A hypervisor that cannot list is no answer: nothing is offered, nothing said.
func TestHypervisorThatCannotList(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(time.Second)
		stop(c, n)
		var answers atomic.Bool
		n = c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "List" && !answers.Load() {
				return &fake.Fault{Err: errors.New("no connection")}
			}
			return nil
		}}, nil)
		c.mu.Lock()
		c.insts[id(1)].confirm = true
		c.say(compute.Command{Op: compute.CommandConfirm, Project: "p", Instance: id(9), Attempt: 1, Claim: "c"})
		before := len(c.reports)
		c.mu.Unlock()
		pass(time.Minute)
		c.mu.Lock()
		if got := c.reports[before:]; len(got) != 0 {
			c.t.Errorf("it says %+v", got)
		}
		c.mu.Unlock()
		if b := c.beacon(); b.State != compute.HostQuarantined || !strings.Contains(b.Reason, "no connection") {
			c.t.Errorf("the beacon says %s: %s", b.State, b.Reason)
		}
		answers.Store(true)
		pass(time.Minute)
		c.want(compute.StateActive)
		if c.reported(compute.ReportFailed, 9) != 1 || c.insts[id(1)].confirm {
			c.t.Error("it does not answer, though the hypervisor does")
		}
		answers.Store(false)
		c.mu.Lock()
		c.say(compute.Command{Op: compute.CommandDelete, Project: "p", Instance: id(8), Attempt: 1, Claim: "c"})
		c.mu.Unlock()
		pass(5 * time.Second)
		if c.reported(compute.ReportGone, 8) != 0 {
			c.t.Error("it speaks for a hypervisor that does not answer")
		}
		answers.Store(true)
		stop(c, n)
	})
}

// A driver that hangs in a call of the system hears of no timeout: the host says so and takes no work, and what it was to
// build is offered to others.
func TestCallsThatHang(t *testing.T) {
	for method, says := range map[string]string{
		"List": "the hypervisor does not answer: it was asked 30s ago", "Prepare": "preparing instance " + string(id(2)),
		"Launch": "launching instance " + string(id(2)),
	} {
		t.Run(method, func(t *testing.T) {
			story(t, fake.Options{}, func(c *cell, dir string) {
				var hangs atomic.Bool
				release := make(chan struct{})
				n := c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
					if call.Method == method && hangs.Load() {
						<-release
					}
					return nil
				}}, func(o *Options) { o.Timing.Prepare, o.Timing.Launch = 20*time.Second, 20*time.Second })
				pass(20 * time.Second)
				c.boot(1, "small")
				pass(5 * time.Second)
				hangs.Store(true)
				if method != "List" {
					c.boot(2, "small")
				}
				pass(20*time.Second + stuckAfter + time.Minute)
				if b := c.beacon(); b.State != compute.HostQuarantined || !strings.Contains(b.Reason, says) {
					c.t.Errorf("the beacon says %s: %s", b.State, b.Reason)
				}
				if method == "List" {
					c.boot(2, "small")
					pass(time.Minute)
				}
				c.mu.Lock()
				it := c.queues["small"].items[1]
				free := it.holder == nil && !it.done
				c.mu.Unlock()
				if free != (method != "Launch") { // what was granted stays with its host
					c.t.Errorf("its work is free for others: %v", free)
				}
				hangs.Store(false)
				close(release)
				pass(time.Minute)
				if b := c.beacon(); b.State != compute.HostEnabled {
					c.t.Errorf("the beacon says %s: %s", b.State, b.Reason)
				}
				c.want(compute.StateActive, compute.StateActive)
				stop(c, n)
			})
		})
	}
}

// Of a set that was taken whole the others wait for slots that calls hold which hang: the set is offered to others,
// too.
func TestASetBehindACallThatHangs(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		hangs := make(chan struct{})
		n := c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" {
				<-hangs
			}
			return nil
		}}, func(o *Options) { o.Timing.Prepare, o.Slots = 20*time.Second, 1 })
		pass(20 * time.Second)
		c.whole("small", 1, 2, 3)
		pass(20*time.Second + stuckAfter + time.Minute)
		c.mu.Lock()
		if it := c.queues["small"].items[0]; it.holder != nil || it.done {
			c.t.Error("its work is not free for others")
		}
		c.mu.Unlock()
		close(hangs)
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateActive, compute.StateActive)
		stop(c, n)
	})
}

// slowList answers with what was there before it took its time.
type slowList struct{ hypervisor.Driver }

func (d slowList) List(ctx context.Context) ([]hypervisor.Machine, error) {
	list, err := d.Driver.List(ctx)
	if service.Sleep(ctx, 5*time.Second) {
		return list, err
	}
	return nil, ctx.Err()
}

// What began to run while the hypervisor listed is not taken for lost.
func TestSlowList(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Driver = slowList{o.Driver} })
		pass(22 * time.Second) // 15 s after it was first answered it is asked again
		c.boot(1, "small")
		pass(time.Minute)
		c.want(compute.StateActive)
		if got := c.reported(compute.ReportFailed, 1); got != 0 {
			c.t.Errorf("%d reports say that it is lost", got)
		}
		stop(c, n)
	})
}

func TestUnreadableRecords(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		pass(time.Second)
		c.boot(1, "small", func(b *compute.Build) { b.Resources = nil; b.Attempt = 0 })
		n.agent.Commands([]wire.Record{{Topic: "host.h1", Value: []byte("{"), Offset: 7}}, true)
		tooMuch := wire.Record{
			Topic: "host.h1", Offset: 8, Value: []byte{}, Unread: errors.New("it unpacks to too much"),
		}
		n.agent.Commands([]wire.Record{tooMuch}, true)
		n.agent.Advice([]wire.Record{{Topic: "advice", Value: []byte("{")}}, true)
		n.agent.Queues([]wire.Record{{Topic: "queues", Key: []byte("x"), Value: []byte("{")}}, true)
		pass(time.Second)
		c.mu.Lock()
		if len(c.rejected) != 3 { // its work and its commands; the rest everybody reads
			c.t.Errorf("rejected: %+v", c.rejected)
		}
		if !c.queues["small"].items[0].done {
			c.t.Error("the unreadable work is still in its queue")
		}
		delete(c.insts, id(1))
		c.mu.Unlock()
		stop(c, n)
	})
}

// Reports that may have arrived are said again; nothing happens twice.
func TestReportsWithoutAnswer(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.lost = 12
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		c.boot(2, "small")
		pass(5 * time.Minute)
		c.delete(2)
		pass(time.Minute)
		c.want(compute.StateActive, compute.StateDeleted)
		if got := c.counts(fake.Launched); got[id(1)] != 1 || got[id(2)] != 1 {
			c.t.Errorf("launched %v", got)
		}
		stop(c, n)
	})
}

// inTwoPartitions are two projects of which the reports are in different partitions.
func inTwoPartitions() (at, elsewhere compute.Project) {
	at, elsewhere = "p", "p0"
	for i := 0; wire.Partition(elsewhere, 2) == wire.Partition(at, 2); i++ {
		elsewhere = compute.Project(fmt.Sprint("p", i))
	}
	return at, elsewhere
}

// reportsOf says which records are reports of a project.
func reportsOf(p compute.Project) func(wire.Record) bool {
	return func(rec wire.Record) bool { return rec.Topic == "reports" && string(rec.Key) == string(p) }
}

// setAway has nobody take such records; nil: all are taken.
func (c *cell) setAway(away func(wire.Record) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// While one partition of reports has no leader, the instances of other projects start and end, and once it has one
// again, so do those of its own.
func TestAPartitionOfReportsWithoutALeader(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		at, elsewhere := inTwoPartitions()
		n := c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.setAway(reportsOf(at))
		c.boot(1, "small", func(b *compute.Build) { b.Project = at })
		pass(10 * time.Second)
		c.boot(2, "small", func(b *compute.Build) { b.Project = elsewhere })
		c.boot(3, "small", func(b *compute.Build) { b.Project = elsewhere })
		pass(10 * time.Second)
		c.want(compute.StateQueued, compute.StateActive, compute.StateActive)
		c.delete(2)
		pass(10 * time.Second)
		c.want(compute.StateQueued, compute.StateDeleted, compute.StateActive)
		c.setAway(nil)
		pass(3 * time.Minute)
		c.want(compute.StateActive, compute.StateDeleted, compute.StateActive)
		stop(c, n)
	})
}

// An agent that is started while one partition of reports has no leader takes work of other projects, though it has
// something to say about a machine of a project in that one.
func TestStartedBesideAPartitionWithoutALeader(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		at, elsewhere := inTwoPartitions()
		n := c.start(dir, fake.Options{}, nil)
		pass(10 * time.Second)
		c.boot(1, "small", func(b *compute.Build) { b.Project = at })
		pass(10 * time.Second)
		c.want(compute.StateActive)
		stop(c, n)
		c.setAway(reportsOf(at))
		n = c.start(dir, fake.Options{}, nil)
		pass(20 * time.Second)
		c.boot(2, "small", func(b *compute.Build) { b.Project = elsewhere })
		pass(20 * time.Second)
		c.want(compute.StateActive, compute.StateActive)
		c.setAway(nil)
		pass(3 * time.Minute)
		stop(c, n)
	})
}

// Nobody answers the claim: after a minute it is given back, and a grant that
// comes then launches nothing.
func TestGivenBack(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.noGrants = true
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(59 * time.Second)
		// at 0, 5, 10, 20 and 40 s
		if c.reported(compute.ReportReturned, 1) != 0 || c.reported(compute.ReportClaim, 1) != 5 {
			c.t.Errorf(
				"%d claims, %d returned", c.reported(compute.ReportClaim, 1), c.reported(compute.ReportReturned, 1),
			)
		}
		pass(10 * time.Second)
		c.mu.Lock()
		r := c.reports[len(c.reports)-1]
		x := c.insts[id(1)]
		x.state, x.claim = compute.StateStarting, r.Claim
		c.effects(x) // the grant, too late
		c.noGrants = false
		c.mu.Unlock()
		if r.Op != compute.ReportReturned {
			c.t.Errorf("the last report is %s", r.Op)
		}
		pass(20 * time.Second)
		c.want(compute.StateActive)
		c.mu.Lock()
		if x.attempt != 2 {
			c.t.Errorf("attempt %d runs", x.attempt)
		}
		c.mu.Unlock()
		stop(c, n)
	})
}

// An agent repeats why a claim failed when a conductor asks: an earlier conductor may have heard it too early to count
// it. So does the agent's next process, after a kill too. A claim that it never had is unknown.
func TestWhyAClaimFailedIsSaidAgain(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.attempts = 1
		broken := fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Launch" {
				return &fake.Fault{Err: &hypervisor.Error{
					Class: compute.FailureRequest, Message: "no kernel " + strings.Repeat("x", 9000) + " in the image",
				}}
			}
			return nil
		}}
		n := c.start(dir, broken, nil)
		c.boot(1, "small")
		pass(2 * time.Second)
		c.want(compute.StateError)
		c.mu.Lock()
		said := c.reports[len(c.reports)-1]
		c.mu.Unlock()
		ask := func(op compute.CommandOp, claim compute.ClaimID) compute.Report {
			c.mu.Lock()
			c.say(compute.Command{Op: op, Project: "p", Instance: id(1), Attempt: 1, Claim: claim})
			c.mu.Unlock()
			pass(2 * time.Second)
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.reports[len(c.reports)-1]
		}
		same := func(when string, again compute.Report) {
			if again.At == said.At || again.Op != compute.ReportFailed || again.Class != compute.FailureRequest ||
				!strings.HasPrefix(again.Message, "no kernel") || !strings.HasSuffix(again.Message, "in the image") ||
				len(again.Message) > mostRemembered {
				c.t.Errorf("%s it says %s: %s, %s; first %+v", when, again.Op, again.Class, again.Message, said)
			}
		}
		same("asked again", ask(compute.CommandGrant, said.Claim))
		if err := n.end(); err != nil { // killed
			c.t.Error(err)
		}
		n = c.start(dir, broken, nil)
		pass(30 * time.Second)
		same("in another life", ask(compute.CommandConfirm, said.Claim))
		if r := ask(compute.CommandGrant, "another"); r.Class != compute.FailureUnknownHere {
			c.t.Errorf("of a claim that it never had it says %+v", r)
		}
		stop(c, n)
	})
}

// A launch that hangs is undone after its time, and tried again.
func TestLaunchHangs(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Launch" && call.Attempt == 1 {
				return &fake.Fault{Hang: true}
			}
			return nil
		}}, nil)
		c.boot(1, "small")
		pass(9 * time.Minute)
		c.want(compute.StateStarting)
		pass(2 * time.Minute)
		c.want(compute.StateActive)
		c.mu.Lock()
		var f compute.Report
		for _, r := range c.reports {
			if r.Op == compute.ReportFailed {
				f = r
			}
		}
		c.mu.Unlock()
		if f.Class != compute.FailureTimeout || f.Attempt != 1 {
			c.t.Errorf("reported %+v", f)
		}
		stop(c, n)
	})
}

// Machines change without us: a guest ends, a machine is taken away by hand,
// others use the host.
func TestWhatTheHypervisorSees(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		c.boot(2, "small")
		pass(time.Second)
		byHand := fake.NewDriver(c.host, fake.Options{})
		if err := errors.Join(
			byHand.Stop(c.t.Context(), id(1), 0), byHand.Destroy(c.t.Context(), id(2)),
		); err != nil {
			c.t.Fatal(err)
		}
		c.host.SetUnmanaged(compute.Resources{compute.MemoryMB: 13000})
		pass(20 * time.Second)
		c.want(compute.StateActive, compute.StateError)
		if p := c.insts[id(1)].power; p != compute.PowerStopped {
			c.t.Errorf("the stopped guest is shown %s", p)
		}
		if got := c.waits(); got != nil {
			c.t.Errorf("with the rest used by others it waits on %v", got)
		}
		if b := c.beacon(); b.Free[compute.MemoryMB] != 16384-13000-2048 {
			c.t.Errorf("the beacon says %s are free", b.Free)
		}
		stop(c, n)
	})
}

// badJournal cannot be written any more.
type badJournal struct{ Journal }

func (badJournal) Write(journal.Change) error { return errors.New("disk full") }

func TestNothingWithoutTheJournal(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Journal = badJournal{o.Journal} })
		c.boot(1, "small")
		pass(time.Second)
		if err := n.end(); err == nil || !strings.Contains(err.Error(), "disk full") {
			c.t.Errorf("the agent ends with %v", err)
		}
		c.want(compute.StateQueued)
		for _, r := range c.reports {
			if r.Op != compute.ReportHello {
				c.t.Errorf("it said %+v", r)
			}
		}
	})
}

// A driver that says very much does not fill journal, topics and log with it.
func TestMuchIsSaid(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		c.attempts = 1
		const much = 10 << 20
		var list atomic.Bool
		logged, logs := observer.New(zap.DebugLevel)
		n := c.start(dir, fake.Options{Fault: func(call fake.Call) *fake.Fault {
			if call.Method == "Prepare" || call.Method == "List" && list.Load() {
				return &fake.Fault{Err: &hypervisor.Error{Class: compute.FailureHost,
					Message: "first " + strings.Repeat("x", much) + " last"}}
			}
			return nil
		}}, func(o *Options) { o.Log = zap.New(logged) })
		c.boot(1, "small")
		pass(20 * time.Second)
		c.want(compute.StateError)
		list.Store(true)
		pass(time.Minute)
		stop(c, n)
		said := 0
		for _, r := range c.reports {
			if said = max(said, len(r.Message)); r.Op == compute.ReportFailed &&
				(!strings.HasPrefix(r.Message, "first x") || !strings.HasSuffix(r.Message, "x last")) {
				c.t.Errorf("it reports %.40q", r.Message)
			}
		}
		for _, b := range c.beacons {
			said = max(said, len(b.Reason))
		}
		for _, e := range logs.All() {
			for _, v := range e.ContextMap() {
				said = max(said, len(fmt.Sprint(v)))
			}
		}
		if said < 1000 || said > 5000 {
			c.t.Errorf("%d bytes are passed on", said)
		}
		info, err := os.Stat(filepath.Join(dir, "journal"))
		if err != nil || info.Size() > 1<<20 {
			c.t.Errorf("the journal has %+v, %v", info, err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{Host: "Not A Host"}); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("a bad host: %v", err)
	}
	if _, err := New(Options{Host: "h", Partitions: 1}); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("no journal: %v", err)
	}
}

// The word that a machine is not to be there may be lost with the conductor that said it. Its host says again that the
// machine is there, and is told again.
func TestWhatIsThereIsSaidAgain(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, func(o *Options) { o.Timing.SayAgain = time.Hour })
		c.boot(1, "small")
		c.boot(2, "small")
		pass(10 * time.Second)
		c.want(compute.StateActive, compute.StateActive)
		c.mu.Lock()
		c.insts[id(1)].state = compute.StateDeleted
		c.mu.Unlock()
		pass(30 * time.Minute)
		if got := c.counts(fake.Destroyed); len(got) != 0 {
			t.Errorf("destroyed %v, and nobody has told the host to", got)
		}
		pass(time.Hour)
		if got := c.counts(fake.Destroyed); got[id(1)] != 1 || len(got) != 1 {
			t.Errorf("destroyed %v, want instance 1 once", got)
		}
		c.want(compute.StateDeleted, compute.StateActive)
		stop(c, n)
	})
}
