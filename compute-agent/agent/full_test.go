// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/compute-agent/fetch"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// disk is full from the nth write on, over all lives, until there is room.
type disk struct {
	nth     int
	arrives bool // what fails is on the disk nevertheless
	hides   bool // it does not tell beforehand that it is full
	soon    bool // the next life has room
	notes   bool // what may wait is written at once, too

	mu     sync.Mutex
	writes int
	room   bool // somebody has made some
}

func (d *disk) full() bool { return d.nth > 0 && d.writes >= d.nth && !d.room }

// met says whether any write failed.
func (d *disk) met() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nth > 0 && d.writes >= d.nth
}

func (d *disk) makeRoom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = true
}

var errFull = fmt.Errorf("write /var/lib/berth/h1.journal: %w", syscall.ENOSPC)

// fullJournal lies on a disk; each life has one.
type fullJournal struct {
	Journal
	*disk
	cell   *cell
	failed bool
}

func (j *fullJournal) Write(c journal.Change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed {
		j.cell.t.Errorf("written again, after it failed: %+v", c)
		return j.Journal.Write(c) // or an agent that tries on would never rest
	}
	if j.writes++; !j.full() {
		return j.Journal.Write(c)
	}
	j.failed = true
	if j.arrives {
		return errors.Join(errFull, j.Journal.Write(c))
	}
	return errFull
}

func (j *fullJournal) Room() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.full() && !j.hides {
		return errFull
	}
	return nil
}

// witness compares everything that an agent does to the world with what is
// written down at that moment.
type witness struct {
	hypervisor.Driver
	fetch.Puller
	Reporter
	cell    *cell
	journal *journal.Journal
}

// written is what the journal has of an instance.
func (w witness) written(id compute.InstanceID) (journal.Entry, bool) {
	s, err := w.journal.Read()
	if err != nil {
		w.cell.t.Error(err)
	}
	e, ok := s.Entries[id]
	return e, ok
}

func (w witness) want(ok bool, what string, id compute.InstanceID, e journal.Entry) {
	if !ok {
		w.cell.t.Errorf("%s of %s, and written down is %+v", what, id, e)
	}
}

func (w witness) Prepare(ctx context.Context, s hypervisor.Spec) error {
	e, _ := w.written(s.Instance)
	w.want(e.Attempt == s.Attempt && e.Claim == s.Claim, "Prepare", s.Instance, e)
	return w.Driver.Prepare(ctx, s)
}

func (w witness) Launch(ctx context.Context, id compute.InstanceID, a compute.Attempt, c compute.ClaimID) error {
	e, _ := w.written(id)
	w.want(e.Attempt == a && e.Claim == c && e.Stage != journal.StageEnding, "Launch", id, e)
	w.cell.mu.Lock()
	if !w.cell.granted[claimKey{id, a, c}] {
		w.cell.t.Errorf("%s attempt %d claim %s is launched without a grant", id, a, c)
	}
	w.cell.mu.Unlock()
	return w.Driver.Launch(ctx, id, a, c)
}

func (w witness) Stop(ctx context.Context, id compute.InstanceID, grace time.Duration) error {
	e, _ := w.written(id)
	w.want(e.Version >= 7, "Stop", id, e)
	return w.Driver.Stop(ctx, id, grace)
}

func (w witness) Start(ctx context.Context, id compute.InstanceID) error {
	e, _ := w.written(id)
	w.want(e.Version >= 9, "Start", id, e)
	return w.Driver.Start(ctx, id)
}

func (w witness) Destroy(ctx context.Context, id compute.InstanceID) error {
	e, _ := w.written(id)
	w.want(e.Stage == journal.StageEnding, "Destroy", id, e)
	return w.Driver.Destroy(ctx, id)
}

func (w witness) Ack(ref wire.WorkRef, how wire.Ack) {
	w.cell.mu.Lock()
	id := w.cell.queues[ref.Queue.Name].items[ref.Offset].build.Instance
	w.cell.mu.Unlock()
	if e, ok := w.written(id); how == wire.AckAccept {
		w.want(ok, "an acknowledgement", id, e)
	}
	w.Puller.Ack(ref, how)
}

func (w witness) Send(ctx context.Context, recs ...wire.Record) error {
	w.see(recs)
	return w.Reporter.Send(ctx, recs...)
}

func (w witness) SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error)) {
	w.see(recs)
	w.Reporter.SendEach(ctx, recs, told)
}

func (w witness) see(recs []wire.Record) {
	for _, rec := range recs {
		r, err := wire.DecodeReport(rec)
		if rec.Topic != "reports" || err != nil || r.Op == compute.ReportHello ||
			r.Class == compute.FailureUnknownHere {
			continue
		}
		e, ok := w.written(r.Instance)
		same := e.Attempt == r.Attempt && e.Claim == r.Claim
		switch r.Op {
		case compute.ReportClaim, compute.ReportStarted, compute.ReportChanged:
			w.want(same, "report "+r.Op.String(), r.Instance, e)
		// of what is not there any more all is told
		case compute.ReportFailed, compute.ReportReturned, compute.ReportGone:
			w.want(!ok || !same || e.Stage == journal.StageEnding, "report "+r.Op.String(), r.Instance, e)
		}
	}
}

// host is a host with an agent that is started again 2 s after it ended, as by systemd.
type host struct {
	*cell
	dir   string
	disk  *disk
	logs  *observer.ObservedLogs
	log   *zap.Logger
	node  *node
	since time.Time // of this life
	ends  []error   // of lives that ended by themselves
}

func (h *host) live() {
	h.since = time.Now()
	d := fake.Options{
		PrepareTime: 300 * time.Millisecond, LaunchTime: 200 * time.Millisecond, DestroyTime: 100 * time.Millisecond,
	}
	h.node = h.start(h.dir, d, func(o *Options) {
		w := witness{o.Driver, o.Puller, o.Reporter, h.cell, o.Puller.(*node).journal}
		o.Journal = &fullJournal{Journal: o.Journal, disk: h.disk, cell: h.cell}
		o.Driver, o.Puller, o.Reporter, o.Log = w, w, w, h.log
		if h.disk.notes {
			o.Timing.Note = -1
		}
	})
}

// pass lets time go by.
func (h *host) pass(d time.Duration) {
	for ; d > 0; d -= 2 * time.Second {
		pass(2 * time.Second)
		select {
		case err := <-h.node.done:
			h.node.done <- err
			if err = h.node.end(); err == nil {
				h.t.Error("the agent ended by itself, and says nothing")
			}
			h.ends = append(h.ends, err)
			if h.disk.soon {
				h.disk.makeRoom()
			}
			h.live()
		default:
		}
	}
}

// fullAt tells the story with a disk that fills at the nth write, and says
// whether there were so many.
func fullAt(t *testing.T, d *disk) (met bool) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		c := newCell(t, queue("small", small), queue("pci", compute.Resources{compute.VCPU: 1, "CUSTOM_PCI": 1}))
		h := &host{cell: c, dir: dir, disk: d, logs: logs, log: zap.New(core)}
		h.live()
		h.boot(1, "small")
		h.boot(2, "pci")
		h.pass(2 * time.Second)
		h.command(1, compute.OpStop, 7)
		h.pass(4 * time.Second)
		h.command(1, compute.OpStart, 9)
		h.pass(4 * time.Second)
		h.delete(1)
		h.boot(3, "small")
		h.pass(4 * time.Second)
		h.delete(2)
		h.pass(time.Minute)
		if met = d.met(); met {
			h.toldOf(d)
		}
		d.makeRoom()
		h.pass(6 * time.Minute)
		h.want(compute.StateDeleted, compute.StateDeleted, compute.StateActive)
		h.check()
		h.tired()
		h.delete(3)
		h.pass(time.Minute)
		h.wantOne(3, compute.StateDeleted)
		if left := h.cell.host.Machines(); len(left) > 0 {
			t.Errorf("left behind: %+v", left)
		}
		if met && len(h.ends) == 0 {
			t.Error("a write failed, and the agent goes on")
		}
		if s, err := h.node.journal.Read(); err != nil || len(s.Entries) > 0 {
			t.Errorf("the journal keeps %+v, %v", s.Entries, err)
		}
		stop(c, h.node)
		close(c.over)
	})
	return met
}

// toldOf wants an operator to know what is the matter, while it is.
func (h *host) toldOf(d *disk) {
	h.t.Helper()
	for _, err := range h.ends {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "h1.journal") {
			h.t.Errorf("a life ends with %v", err)
		}
	}
	if d.room || d.hides {
		return
	}
	if time.Since(h.since) < 10*time.Second { // each life ends over its first write, before it says anything
		if len(h.ends) < 20 {
			h.t.Errorf("%d lives ended, and this one is young", len(h.ends))
		}
		return
	}
	if b := h.beacon(); b.State != compute.HostQuarantined || !strings.Contains(
		b.Reason, errFull.Error(),
	) || len(b.Waiting) > 0 {
		h.t.Errorf("with a full disk it waits on %v and says: %s, %s", b.Waiting, b.State, b.Reason)
	}
	if h.logs.FilterMessage(
		"nothing is offered until the journal has room",
	).FilterField(zap.Error(errFull)).Len() == 0 {
		h.t.Error("the log does not say why nothing is offered")
	}
}

// tired wants no work to have been taken again and again for nothing.
func (h *host) tired() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.queues {
		for _, it := range l.items {
			if it.delivery > 4 && !h.disk.hides { // the third takes what failed here before
				h.t.Errorf("%s attempt %d was delivered %d times", it.build.Instance, it.build.Attempt, it.delivery)
			}
		}
	}
}

// The disk fills at any moment of two machines' lives, and has room again at
// once, or after many starts: nothing is done that is not written down, nothing is
// launched twice, everything ends as it should, and everybody knows why not yet.
func TestDiskFillsAtEveryMoment(t *testing.T) {
	for name, like := range map[string]func(nth int) *disk{
		"for a minute":                    func(nth int) *disk { return &disk{nth: nth} },
		"for a minute, and nothing waits": func(nth int) *disk { return &disk{nth: nth, notes: true} },
		"for a minute, and it arrives":    func(nth int) *disk { return &disk{nth: nth, notes: true, arrives: true} },
		"by surprise":                     func(nth int) *disk { return &disk{nth: nth, notes: true, hides: true} },
		"for a moment":                    func(nth int) *disk { return &disk{nth: nth, soon: true} },
		"for a moment, and nothing waits": func(nth int) *disk { return &disk{nth: nth, notes: true, soon: true} },
	} {
		t.Run(name, func(t *testing.T) {
			for n, met := 1, true; met; n++ {
				ok := t.Run(fmt.Sprint(n), func(t *testing.T) { met = fullAt(t, like(n)) })
				if met = met && ok; !met && n < 10 && ok {
					t.Errorf("the story has %d writes", n-1)
				}
			}
		})
	}
}
