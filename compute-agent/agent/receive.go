// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"encoding/hex"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// pulled takes in how a fetch ended, and what it brought.
func (l *loop) pulled(p wire.Pulled) {
	reserved := l.fetches.Ended(p, time.Now())
	if p.Err != nil {
		l.log.Debug("a fetch failed", zap.Int32("broker", p.Session.Broker), zap.Error(p.Err))
	}
	if p.Record == nil {
		return
	}
	l.clock.Observe([]wire.Record{*p.Record}, l.o.Now())
	if wire.LaterThan(*p.Record, l.o.Reads) {
		// Some other host reads it: this one's agent is older, and was not known when it was written.
		l.log.Warn("work of a later schema is left to others: upgrade this agent",
			zap.String("queue", string(p.Ref.Queue.Name)))
		l.release(p.Ref, true, time.Now())
		return
	}
	b, err := wire.DecodeBuild(p.Record.ReadUpTo(l.o.Reads))
	if err == nil {
		err = checkBuild(b)
	}
	if err == nil {
		err = checkPlace(b, p.Ref.Queue.Name)
	}
	if err != nil {
		l.reports.reject(*p.Record, err)
		l.o.Puller.Ack(p.Ref, wire.AckReject)
		return
	}
	l.receive(b, p.Ref, reserved)
}

// checkBuild refuses work that nobody could report about.
func checkBuild(b compute.Build) error {
	if err := b.Instance.Check(); err != nil {
		return err
	}
	if err := b.Project.Check(); err != nil {
		return err
	}
	if b.Attempt == 0 {
		return compute.Invalid("attempt", "0", "attempts count from 1")
	}
	if err := b.Resources.Check(); err != nil {
		return err
	}
	return checkParts(b)
}

// checkPlace refuses work that is not its queue's. A host would give it back
// again and again, and keep from the queue each time.
func checkPlace(b compute.Build, name compute.QueueName) error {
	if b.Queue != name {
		return compute.Invalid("queue", string(b.Queue), "it lies in queue "+string(name))
	}
	return nil
}

// release leaves work to other hosts.
func (l *loop) release(ref wire.WorkRef, never bool, now time.Time) {
	l.a.counts.released.Add(1)
	l.fetches.Release(ref, never, l.offers(now), now)
}

// receive decides what becomes of a record that came from a queue, by a fetch that
// had this place for it.
func (l *loop) receive(b compute.Build, ref wire.WorkRef, reserved compute.Place) {
	if len(b.Parts) > 0 {
		l.receiveWhole(b, ref, reserved)
		return
	}
	place, _, fits := l.fetches.Beside(l.room()).Allocate(b.Resources, reserved)
	if l.taken(b, ref, fits, time.Now()) {
		made := l.tookFor(b.Queue)
		l.beginTask(b, false, place)
		l.tasks.stands(b.Instance, b.Queue, made)
		l.refs.add(ref, b.Instance)
	}
}

// taken says whether the host takes work. If not, its record is answered.
func (l *loop) taken(b compute.Build, ref wire.WorkRef, fits bool, now time.Time) bool {
	a := arrival{
		build: b, delivery: ref.Delivery, host: l.o.Host, traits: l.view.traits, offers: l.offers(now), late: l.late(b),
		fits: fits, slots: l.tasks.free(l.o.Slots),
	}
	if len(b.Parts) == 0 {
		a.here = l.tasks[b.Instance]
	}
	for _, one := range b.Each() {
		a.mistrusts = a.mistrusts || l.starts.mistrusts(one.Image, now)
		a.closed = cmp.Or(a.closed, l.closed(one, now))
	}
	if g := b.Group; g != nil {
		a.members, a.adopted = l.tasks.members(b.Project, g.Name)
		a.groupOver = !g.Until.IsZero() && !l.clock.At(l.o.Now()).Before(g.Until)
	}
	switch how, why := a.verdict(); how {
	case wire.AckAccept:
		l.debug("work is void", b, why)
		if a.passedOn() {
			l.tellNotTaken(b, why)
		}
		l.o.Puller.Ack(ref, wire.AckAccept)
	case wire.AckRelease:
		l.debug("work is left to others", b, why)
		l.release(ref, a.never(l.fetches.Outgrown(b)), now)
	case wire.AckRenew:
		l.refs.add(ref, b.Instance) // another delivery of what is being built here
	default:
		return true
	}
	return false
}

// late says whether work is void: its conductor ends it, or has.
func (l *loop) late(b compute.Build) bool {
	return !b.Deadline.IsZero() && l.clock.At(l.o.Now()).After(b.Deadline)
}

// beginTask begins a task at a place that is free. It is in the journal before anything
// is done for it.
func (l *loop) beginTask(b compute.Build, pinned bool, place compute.Place) {
	var id [16]byte
	if _, err := io.ReadFull(l.o.Random, id[:]); err != nil {
		l.fail(&compute.Error{Op: "make a claim id", Message: "the source of randomness failed", Cause: err})
		return
	}
	t := task.New(b, place, compute.ClaimID(hex.EncodeToString(id[:])), l.host.Fence, pinned)
	l.tasks[b.Instance], l.builds[b.Instance] = &t, b
	l.free = nil
	l.a.counts.taken.Add(1)
	l.traceTaken(&t, b)
	l.step(b.Instance, task.Taken{})
}

func (l *loop) readQueues(recs []wire.Record, end bool) {
	l.clock.Observe(recs, l.o.Now())
	for _, rec := range recs {
		name := compute.QueueName(rec.Key)
		if rec.Value == nil {
			l.fetches.RemoveQueue(name)
			continue
		}
		q, err := wire.DecodeQueue(rec)
		if err != nil {
			l.reports.unreadable(rec, err)
			continue
		}
		l.fetches.SetQueue(q, time.Now())
	}
	if end {
		l.fetches.QueuesRead()
	}
}

func (l *loop) readAdvice(recs []wire.Record, end bool) {
	now := time.Now()
	l.clock.Observe(recs, l.o.Now())
	if end {
		l.fetches.AdviceRead()
	}
	for _, rec := range recs {
		a, err := wire.DecodeAdvice(rec)
		if err != nil {
			l.reports.unreadable(rec, err)
			continue
		}
		l.fetches.Advise(a, now)
	}
}

// debug says what became of work that is not built here. The trace is looked for only where that is wanted.
func (l *loop) debug(what string, b compute.Build, why string) {
	if line := l.log.Check(zap.DebugLevel, what); line != nil {
		line.Write(zap.String("instance", string(b.Instance)), tracing.Field(b.Trace), zap.String("why", why))
	}
}
