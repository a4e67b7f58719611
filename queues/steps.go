// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/plan"
)

// maxFailedInARow failed requests in a row say that it is not this or that queue that
// cannot be served: the rest is left for later.
const maxFailedInARow = 3

// do carries out steps, in their order, many in one request where it can be.
// A queue whose step failed has no further step done. An error says that it gave
// up for now.
func (t *term) do(ctx context.Context, steps []plan.Step) error {
	failed, inARow := map[compute.QueueName]bool{}, 0
	for batch := range t.batches(steps) {
		batch = slices.DeleteFunc(batch, func(s plan.Step) bool { return failed[s.Queue.Name] })
		if len(batch) == 0 {
			continue
		}
		if ctx.Err() != nil {
			return nil // no longer the active one
		}
		err := t.within(ctx, func(ctx context.Context) error { return t.step(ctx, batch) })
		if ctx.Err() != nil {
			return nil
		}
		for _, s := range batch {
			t.outcome(s, err)
			failed[s.Queue.Name] = err != nil
		}
		t.logStep(batch, err)
		if inARow++; err == nil {
			inARow = 0
		}
		if inARow == maxFailedInARow {
			return err
		}
	}
	return nil
}

// batches cuts steps into requests: of one kind, for one share group. Queues
// that failed before go into smaller and smaller ones, down to one each, after
// the others: so one that cannot be done is soon alone and keeps nobody from
// being done.
func (t *term) batches(steps []plan.Step) func(yield func([]plan.Step) bool) {
	same := func(a, b plan.Step) int {
		group := 0
		if a.Op == plan.InitShare && b.Op == plan.InitShare {
			group = cmp.Compare(a.Queue.Group, b.Queue.Group)
		}
		return cmp.Or(cmp.Compare(a.Op, b.Op),
			cmp.Compare(t.failures[a.Queue.Name].times, t.failures[b.Queue.Name].times), group)
	}
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, same)
	return func(yield func([]plan.Step) bool) {
		for len(steps) > 0 {
			most := max(1, t.opts.Batch>>min(5*t.failures[steps[0].Queue.Name].times, 30))
			if steps[0].Op == plan.DeleteTopic {
				most = 1
			}
			n := 1
			for n < len(steps) && n < most && same(steps[0], steps[n]) == 0 {
				n++
			}
			batch := slices.Clone(steps[:n])
			steps = steps[n:]
			if !yield(batch) {
				return
			}
		}
	}
}

// step does one batch.
func (t *term) step(ctx context.Context, batch []plan.Step) error {
	var names []compute.QueueName
	var recs []wire.Record
	for _, s := range batch {
		names = append(names, s.Queue.Name)
		rec := wire.EncodeQueue(s.Queue)
		if s.Op == plan.Unlist {
			rec = wire.Tombstone(wire.KeyQueue(s.Queue.Name))
		}
		recs = append(recs, rec.To(t.opts.Topics.Queues(), 0))
	}
	first := batch[0]
	switch first.Op {
	case plan.CreateTopic:
		return t.opts.Far.Topics.MakeQueueTopics(ctx, names)
	case plan.InitShare:
		return t.opts.Far.Shares.InitShares(ctx, first.Queue.Group, names)
	case plan.DeleteTopic:
		return t.opts.Far.Topics.DeleteQueueTopic(ctx, first.Queue.Name, first.Queue.TopicID)
	}
	return t.opts.Log.Send(ctx, recs...)
}

// outcome remembers how a step ended.
func (t *term) outcome(s plan.Step, err error) {
	switch {
	case err != nil && s.Op == plan.InitShare:
		t.fail(s.Queue.Name, err, t.opts.Settle) // it may still be at work
	case err != nil:
		t.fail(s.Queue.Name, err, 0)
	default:
		delete(t.failures, s.Queue.Name)
		if s.Op == plan.InitShare {
			t.inited[s.Queue.TopicID] = s.Queue.Group
		}
	}
}

func (t *term) logStep(batch []plan.Step, err error) {
	t.opts.Metrics.did(batch[0].Op, len(batch), err)
	fields := []zap.Field{
		zap.Stringer("step", batch[0].Op), zap.Int("queues", len(batch)),
		zap.String("first", string(batch[0].Queue.Name)), zap.String("why", batch[0].Why),
	}
	if err != nil {
		t.opts.Logger.Warn("step failed", append(fields, zap.Error(err))...)
		return
	}
	t.opts.Logger.Info("step done", fields...)
}

// report writes into a queue's record why it cannot be made, once that has
// failed a few times. A queue that was never listed gets a record that is
// closed and has no topic: nobody is sent there, and everybody can see it.
func (t *term) report(ctx context.Context, wanted []compute.Queue, seen plan.Seen) {
	var recs []wire.Record
	for _, q := range wanted {
		f := t.failures[q.Name]
		if f.times < t.opts.ReportAfter || ctx.Err() != nil {
			continue
		}
		rec, listed := seen.Listed[q.Name]
		if !listed {
			rec = q
			rec.State = compute.QueueClosed
		}
		if text := f.err.Error(); rec.Error != text {
			rec.Error = text
			recs = append(recs, wire.EncodeQueue(rec).To(t.opts.Topics.Queues(), 0))
		}
	}
	for batch := range slices.Chunk(recs, t.opts.Batch) {
		if err := t.within(ctx, func(ctx context.Context) error { return t.opts.Log.Send(ctx, batch...) }); err != nil {
			t.opts.Logger.Warn("cannot report what failed", zap.Error(err))
			return // the next pass tries again
		}
	}
}
