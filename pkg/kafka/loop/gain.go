// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/wire"
)

// A partition is gained in this order, and no other would do:
//
//  1. ask the group whether this process is still in its present generation;
//  2. take the producer epoch, and write down the takeover: from there on nothing of an
//     earlier owner is written, and what it wrote lies before;
//  3. ask for the positions that no change carried;
//  4. ask the group once more: had it gone on before the producer epoch was taken, the producer epoch
//     would be the next owner's by right, which may have taken it before;
//  5. read instances from the beginning to the takeover, and hand that to the
//     handler;
//  6. begin with the inputs at the furthest of the positions, those of the log
//     and those of the group.
//
// Partitions that are taken together are read together, and each goes on once it has been read: one with a leader
// that does not answer keeps no other waiting. The loop goes on with the others meanwhile, one fetched batch of
// records between two turns.

// gain is some partitions on their way to this process.
type gain struct {
	run    *loopRun
	of     []*ownedPartition
	wait   time.Duration // before the first step
	wanted int           // of those, still owned; for the loop's goroutine
	cancel context.CancelFunc
}

// gained is what a gain hands to the loop: records to restore or, at the end,
// where to go on.
type gained struct {
	records []wire.Record // of instances
	of      []*ownedPartition
	done    map[int32]found // nil: more records follow
	err     error           // trying again is no use
	began   time.Time
}

// found is what a partition is gained with.
type found struct {
	epoch producerEpoch
	at    position // as the group knows it
	end   int64    // the offset behind the takeover
}

// restoreWait is how long a broker may hold a fetch of instances that finds nothing.
const restoreWait = 250 * time.Millisecond

// start gains partitions in a goroutine of its own.
func (g *gain) start(ctx context.Context) {
	g.run.gains.Go(func() {
		if pace.Sleep(ctx, g.wait) == nil {
			g.work(ctx)
		}
	})
}

func (g *gain) work(ctx context.Context) {
	began, told := time.Now(), false
	waiting := slices.Clone(g.of)
	for fails := 1; ; fails++ {
		// The owner of these now has taken their producer epochs, and would lose them to this process.
		waiting = slices.DeleteFunc(waiting, func(o *ownedPartition) bool { return o.lost.Load() })
		if len(waiting) == 0 {
			return
		}
		has, err := g.run.takeOver(ctx, ids(waiting))
		if err != nil && ends(err) {
			g.run.hand(ctx, gained{err: g.run.loop.cfg.Classify("take over partitions", err)})
			return
		}
		if !told && err != nil && time.Since(began) >= retry.ToldAfter {
			told = true
			g.run.log.Info("waiting to take over partitions", zap.Error(err))
		}
		var next, of []*ownedPartition
		for _, o := range waiting {
			if _, ok := has[o.id]; ok {
				of = append(of, o)
			} else {
				next = append(next, o)
			}
		}
		if len(of) > 0 {
			g.run.gains.Go(func() { g.run.restore(ctx, of, has, began) })
		}
		if waiting = next; len(waiting) > 0 && pace.Sleep(ctx, pace.Backoff(fails)) != nil {
			return
		}
	}
}

// takeOver takes producer epochs, and answers with those it got.
func (r *loopRun) takeOver(ctx context.Context, partitions []int32) (map[int32]found, error) {
	ctx, cancel := context.WithTimeout(ctx, r.loop.opts.TurnTimeout)
	defer cancel()
	if err := r.group.current(ctx, r.ask); err != nil {
		return nil, err
	}
	taken, some := r.writer.takeOver(ctx, partitions)
	if len(taken) == 0 {
		return nil, some
	}
	at, err := r.positions(ctx, slices.Collect(maps.Keys(taken)))
	if err == nil {
		err = r.group.current(ctx, r.ask)
	}
	if err != nil {
		return nil, errors.Join(some, err)
	}
	has := map[int32]found{}
	for p, pos := range at {
		has[p] = found{taken[p].epoch, pos, taken[p].offset + 1}
	}
	return has, some
}

// restore reads some partitions up to where their takeovers end.
func (r *loopRun) restore(ctx context.Context, of []*ownedPartition, has map[int32]found, began time.Time) {
	if err := r.fillIn(ctx, has); err != nil {
		r.hand(ctx, gained{err: err})
		return
	}
	until := map[int32]int64{}
	for p, f := range has {
		until[p] = f.end
	}
	left := of // for the reader's goroutine, and behind its end
	ready, err := readInstances(ctx, r.loop.cfg, read.Options{
		Partitions: ids(of), Until: until,
		Handle: func(b read.Batch) {
			var whole []*ownedPartition
			whole, left = r.read(ctx, b.Records, left, until)
			if len(whole) > 0 {
				r.hand(ctx, gained{of: whole, done: has, began: began})
			}
		},
	})
	switch {
	case err != nil:
		r.hand(ctx, gained{err: err})
	case ready && len(left) > 0:
		r.hand(ctx, gained{of: left, done: has, began: began})
	}
}

// readInstances reads instances until the reader is ready, from where and for which partitions the options say; false:
// the context, or the reader, ended before.
func readInstances(ctx context.Context, cfg kafka.Config, o read.Options) (ready bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Topic, o.Committed, o.MaxWait, o.Takeovers = cfg.Topics.Instances(), true, restoreWait, true
	reader, ended := read.NewReader(cfg, o), make(chan error, 1)
	go func() { ended <- reader.Run(ctx) }()
	select {
	case <-reader.Ready():
		cancel()
		<-ended // nothing is handed over any more
		return true, nil
	case err := <-ended:
		return false, err
	}
}

// read hands records over of partitions that are not whole yet, and answers which are
// with them: their takeover is among them, which may also be compacted away.
func (r *loopRun) read(
	ctx context.Context, records []wire.Record, of []*ownedPartition, until map[int32]int64,
) (whole, left []*ownedPartition) {
	ends, wanted := map[int32]bool{}, ids(of)
	records = slices.DeleteFunc(records, func(rec wire.Record) bool {
		if rec.Offset >= until[rec.Partition]-1 {
			ends[rec.Partition] = true
		}
		return !slices.Contains(wanted, rec.Partition)
	})
	if len(records) > 0 {
		r.hand(ctx, gained{records: records, of: of})
	}
	for _, o := range of {
		if ends[o.id] {
			whole = append(whole, o)
		} else {
			left = append(left, o)
		}
	}
	return whole, left
}

// fillIn begins at the oldest input where nothing was ever committed.
func (r *loopRun) fillIn(ctx context.Context, has map[int32]found) error {
	for topic, s := range r.inputs.sources {
		var oldest map[int32]int64
		for p, f := range has {
			if f.at.at[topic] >= 0 {
				continue
			}
			if oldest == nil {
				var err error
				if oldest, err = s.Persist(ctx, fetch.Earliest); err != nil {
					return r.loop.cfg.Classify("ask for the oldest inputs", err)
				}
			}
			f.at.at[topic] = oldest[p]
			has[p] = f
		}
	}
	return nil
}

// positions asks for the group's positions. Those of which nothing can be said
// now are not in the answer.
func (r *loopRun) positions(ctx context.Context, partitions []int32) (map[int32]position, error) {
	ctx, cancel := context.WithTimeout(ctx, r.loop.cfg.RequestTimeout)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = r.loop.opts.Group
	for _, topic := range r.topics {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic.name, topic.id, slices.Clone(partitions)
		rg.Topics = append(rg.Topics, rt)
	}
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(ctx, kafka.Prompt(r.ask))
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, kerr.CoordinatorNotAvailable
	}
	g := resp.Groups[0]
	if err := errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(g.ErrorCode)); err != nil {
		return nil, kafka.Lacking(err, r.group.needs())
	}
	return r.positionsIn(g)
}

// positionsIn is such an answer, both topics together.
func (r *loopRun) positionsIn(g kmsg.OffsetFetchResponseGroup) (map[int32]position, error) {
	at, seen := map[int32]position{}, map[int32]int{}
	for _, rt := range g.Topics {
		topic := slices.IndexFunc(
			r.topics[:],
			func(t inputTopic) bool { return t.name == rt.Topic || t.id == rt.TopicID },
		)
		if topic < 0 {
			continue
		}
		for _, rp := range rt.Partitions {
			err := kerr.ErrorForCode(rp.ErrorCode)
			if err != nil && kafka.IsForbidden(err) {
				return nil, kafka.Lacking(err, access.To(access.Read, access.Topic, rt.Topic), r.group.needs())
			}
			if err != nil {
				continue
			}
			pos, ok := at[rp.Partition]
			if !ok {
				pos = nowhere(rp.Partition)
			}
			pos.at[topic], pos.wrote[topic] = rp.Offset, fetch.EpochOf(rp.LeaderEpoch)
			if topic == requests {
				pos.cursor, pos.reset = parseCursor(rp.Metadata), parseReset(rp.Metadata)
			}
			at[rp.Partition] = pos
			seen[rp.Partition]++
		}
	}
	for p, n := range seen {
		if n < inputTopics {
			delete(at, p)
		}
	}
	return at, nil
}

// hand gives the loop what was found, unless it ends or nobody wants it any more.
func (r *loopRun) hand(ctx context.Context, g gained) {
	if ctx.Err() != nil {
		return // why it could not go on is that it was called off
	}
	select {
	case r.found <- g:
	case <-ctx.Done():
	}
}

func ids(of []*ownedPartition) []int32 {
	var out []int32
	for _, o := range of {
		out = append(out, o.id)
	}
	return out
}

// applyGained gives the handler what a gain found.
func (r *loopRun) applyGained(g gained) error {
	if g.err != nil {
		return g.err
	}
	r.loop.metrics.read(len(g.records))
	for _, rec := range g.records {
		if o := r.owned[rec.Partition]; o != nil && slices.Contains(g.of, o) {
			if at, ok := carried(rec); ok {
				o.logged = o.logged.further(at)
			}
			if !rec.IsTakeover() {
				r.loop.handler.Restore(rec.Partition, rec)
				o.behind = rec.Offset + 1
			}
		}
	}
	if g.done == nil {
		return nil
	}
	var restored []int32
	for _, o := range g.of {
		if r.owned[o.id] == o {
			at := g.done[o.id].at.further(o.logged)
			o.restored = &at
			o.end = g.done[o.id].end
			o.hold(g.done[o.id].epoch, r.loop.opts.RenewEvery)
			restored = append(restored, o.id)
			r.loop.metrics.restoredSince(g.began)
			r.log.Debug(
				"partition restored", zap.Int32("partition", o.id), zap.Int64("end", o.behind),
				zap.Int64("cursor", at.cursor),
			)
		}
	}
	r.log.Info("partitions restored", zap.Int32s("partitions", restored), zap.Duration("took", time.Since(g.began)))
	return nil
}

// begin lets a partition that was read from the log take part in turns.
func (r *loopRun) begin(o *ownedPartition) error {
	at := *o.restored
	if at.aside {
		// The note of the owner before may be compacted away behind this one's takeover.
		r.setAside(o, o.epoch, at, nil)
		return nil
	}
	o.restored, o.ready, o.reset = nil, true, at.reset
	o.markDirty(time.Now())
	r.inputs.add(o.id, at)
	// Until its effects are acknowledged the cursor stays where it was found.
	first := max(at.cursor, 0)
	r.outbox.gain(o.id, first)
	res := r.loop.handler.Restored(o.id, at.cursor, time.Now())
	if res.Aside != nil {
		r.giveUp(o, res.Aside)
		return nil
	}
	return r.finish(res, nil, map[int32]span{o.id: {first, max(o.behind, first)}})
}
