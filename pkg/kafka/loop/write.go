// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// What a turn does is waited for together, for a short time. A partition of which
// nothing is known by then is parked: the turns of the others go on.
//
//	decided ─▶ writing ─▶ written: effects are published, and it takes part again
//	             │  ╰─ ParkAfter: parked. No input is taken, no timer fires, no position
//	             │     is committed; what it decides of the world's news is written next
//	             ╰─ refused, or not known after TurnTimeout: undone, it alone

// writing is what is to be written of one partition, and what follows from that.
type writing struct {
	of        *ownedPartition
	rejects   []wire.Record
	changes   []wire.Record
	effects   []wire.Effect
	follows   *span          // the records of the log that the effects follow from, as far as known
	committed func(p int32)  // nil: nobody counts
	next      *writing       // decided since, and written after it
	renewed   *producerEpoch // nothing but a takeover from oneself is written, with this producer epoch
	piecemeal bool           // changes may be written in several batches
	rest      []wire.Record  // changes that are not on their way
}

// wrote is how writing one batch ended.
type wrote struct {
	of    *writing
	entry *entry // nil: rejects were all
	err   error
}

// parts is what a result does to each partition.
func (r *loopRun) parts(res wire.Result, piecemeal bool) (map[int32]*writing, error) {
	all := map[int32]*writing{}
	of := func(p int32, what string) (*writing, error) {
		o := r.owned[p]
		if o == nil || !o.ready {
			return nil, &compute.Error{Op: "write " + what, Kind: compute.KindInternal,
				Message: fmt.Sprintf("the handler decided them for partition %d, which it does not have", p)}
		}
		if all[p] == nil {
			all[p] = &writing{of: o, committed: res.Committed, piecemeal: piecemeal}
		}
		return all[p], nil
	}
	for _, rec := range res.Rejects {
		w, err := of(rec.Partition, "rejects")
		if err != nil {
			return nil, err
		}
		if rec.Topic == "" {
			rec.Topic = r.loop.cfg.Topics.Rejected()
		}
		w.rejects = append(w.rejects, rec)
	}
	for _, c := range res.Changes {
		w, err := of(c.Partition, "changes")
		if err != nil {
			return nil, err
		}
		w.changes = append(w.changes, c)
	}
	for _, e := range res.Effects {
		w, err := of(e.Partition, "effects")
		if err != nil {
			return nil, err
		}
		w.effects = append(w.effects, e)
	}
	return all, nil
}

// write writes what was decided of some partitions, and waits for it for a short
// time. What is decided of a partition that is parked waits for what was before.
func (r *loopRun) write(parts map[int32]*writing) error {
	var now []*writing
	for _, w := range parts {
		if before := w.of.writing; before != nil {
			for before.next != nil {
				before = before.next
			}
			before.next = w
			continue
		}
		now = append(now, w)
	}
	if len(now) == 0 {
		return nil
	}
	began := time.Now()
	r.start(now...)
	enough := time.NewTimer(r.loop.opts.ParkAfter)
	defer enough.Stop()
	for !r.settled(now) {
		select {
		case w := <-r.wrote:
			if err := r.written(w); err != nil {
				return err
			}
		case <-enough.C:
			for _, w := range now {
				r.park(w)
			}
			return nil
		}
	}
	r.loop.metrics.committed(began)
	return nil
}

// settled says that there is nothing to wait for.
func (r *loopRun) settled(all []*writing) bool {
	return !slices.ContainsFunc(all, func(w *writing) bool { return w.of.writing == w && r.owned[w.of.id] == w.of })
}

// start sends what is to be written on its way, all that needs no rejects before
// it together: one request to each leader is enough for it.
func (r *loopRun) start(all ...*writing) {
	together := map[int32]*entry{}
	by := map[int32]*writing{}
	for _, w := range all {
		w.of.writing = w
		e := r.entry(w)
		if len(w.rejects) == 0 {
			together[w.of.id], by[w.of.id] = e, w
			continue
		}
		r.goWrite(func(ctx context.Context) {
			if err := r.reject(ctx, w.rejects); err != nil || e == nil {
				r.tell(wrote{w, nil, err})
				return
			}
			r.writer.writeEach(ctx, map[int32]*entry{w.of.id: e}, func(_ int32, err error) { r.tell(wrote{w, e, err}) })
		})
	}
	if len(together) > 0 {
		r.goWrite(func(ctx context.Context) {
			r.writer.writeEach(ctx, together, func(p int32, err error) { r.tell(wrote{by[p], together[p], err}) })
		})
	}
}

// goWrite does what writes in a goroutine, for TurnTimeout at most.
func (r *loopRun) goWrite(do func(ctx context.Context)) {
	r.gains.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.loop.opts.TurnTimeout)
		defer cancel()
		defer context.AfterFunc(r.hard, cancel)()
		do(ctx)
	})
}

func (r *loopRun) tell(w wrote) {
	select {
	case r.wrote <- w:
	case <-r.ctx.Done():
	}
}

// entry is the next batch of a partition: changes with the position at the last, or
// a proof that the effects are this process's to publish, with the position if all are final, or a takeover.
func (r *loopRun) entry(w *writing) *entry {
	e := &entry{epoch: w.of.epoch}
	switch {
	case w.renewed != nil:
		e.epoch, e.proof = *w.renewed, true
	case len(w.changes) > 0:
		e.records, w.changes = w.changes, nil
		r.position(w.of.id).carry(e.records)
		if w.piecemeal {
			e.records, w.rest = cut(e.records, r.writer.most)
		}
		return e
	case len(w.rest) > 0:
		e.records, w.rest = cut(w.rest, r.writer.most)
		return e
	case len(w.effects) > 0:
		e.proof = true
	default:
		return nil
	}
	e.records = []wire.Record{wire.Takeover(r.writer.name)}
	if r.final(w) {
		r.position(w.of.id).carry(e.records)
	}
	return e
}

// final says whether nothing that led to effects need be decided again if they are lost: those of w, and those of its
// partition that are on their way.
func (r *loopRun) final(w *writing) bool {
	again := func(e wire.Effect) bool { return !e.Final }
	return len(w.effects) > 0 && !slices.ContainsFunc(w.effects, again) && r.outbox.allFinal(w.of.id)
}

// cut parts records so that the first surely fit into a batch of most bytes, one
// at least.
func cut(recs []wire.Record, most int) (first, rest []wire.Record) {
	bytes := 0
	for i, rec := range recs {
		if bytes += rec.Size(); bytes > most && i > 0 {
			return recs[:i], recs[i:]
		}
	}
	return recs, nil
}

// rejectsAtOnce keeps what waits for the brokers small, however much is rejected.
const rejectsAtOnce = 1000

// reject writes what could not be taken; only then it may be passed over.
func (r *loopRun) reject(ctx context.Context, rejects []wire.Record) error {
	for some := range slices.Chunk(rejects, rejectsAtOnce) {
		if err := r.outbox.producer.Send(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}

// written hears how writing a batch ended, and does what follows.
func (r *loopRun) written(x wrote) error {
	w, o := x.of, x.of.of
	if r.owned[o.id] != o || o.writing != w {
		return nil // it was lost since: its owner reads what became of it
	}
	if x.err != nil {
		return r.undo(o, x.err)
	}
	w.rejects = nil
	if e := x.entry; e != nil {
		o.epoch = e.epoch.after(len(e.records))
		if !e.proof {
			w.follows = w.follows.and(span{e.offset, e.offset + int64(len(e.records))})
		}
	}
	if len(w.rest) > 0 {
		r.start(w)
		return nil
	}
	delete(r.undone, o.id)
	o.writing = nil
	r.conclude(w)
	if w.next != nil {
		r.start(w.next)
		return nil
	}
	r.unpark(o)
	return nil
}

// conclude does what was only to be done once all was written.
func (r *loopRun) conclude(w *writing) {
	o := w.of
	if w.renewed != nil {
		o.hold(o.epoch, r.loop.opts.RenewEvery)
	}
	if w.committed != nil {
		w.committed(o.id)
	}
	of := map[int32]span{}
	if w.follows != nil {
		of[o.id] = *w.follows
	}
	r.markDirty(r.outbox.publish(w.effects, of))
}

// park takes a partition out of the turns for as long as nobody knows whether what
// it decided is written.
func (r *loopRun) park(w *writing) {
	o := w.of
	if o.writing != w || r.owned[o.id] != o || o.parked {
		return
	}
	o.parked = true
	r.takeOrLeave(o)
	r.log.Debug("a partition is parked until its changes are written", zap.Int32("partition", o.id))
}

func (r *loopRun) unpark(o *ownedPartition) {
	o.parked = false
	r.takeOrLeave(o)
}

// undo drops what is believed of a partition, because what it decided was not
// written, or may have been: what is true is read from the log again.
func (r *loopRun) undo(o *ownedPartition, why error) error {
	if ends(why) {
		return r.loop.cfg.Classify("write a turn", why)
	}
	if errors.Is(why, errTurnTooLarge) {
		r.width.tooLarge(time.Now())
	}
	r.fails++
	r.undone[o.id]++
	r.loop.metrics.undid()
	if n := r.undone[o.id]; pace.Telling(n) {
		r.log.Warn("a turn was undone; its partition is restored from the log",
			zap.Int32("partition", o.id), zap.Int("in a row", n), zap.Error(why))
	}
	r.lose(o.id)
	r.gain(pace.Backoff(r.undone[o.id]), o.id)
	return nil
}
