package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/wire"
)

// A partition is gained in this order, and no other would do:
//
//  1. wait until the group's positions for it are stable: no transaction of an
//     earlier owner is open or half written down, and none can follow, because
//     the group's generation is another one now;
//  2. ask where instances ends, whether or not it is committed;
//  3. read what is committed from the beginning until the last stable offset
//     has passed that end: the mark of a transaction may reach the positions
//     before it reaches instances, and its changes would be missed;
//  4. hand that to the handler, and begin with the inputs at the positions.
//
// Partitions that become stable together are read together. The loop goes on
// with the others meanwhile, one fetched batch of records between two turns.

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
	done    map[int32]position // nil: more records follow
	err     error              // trying again is no use
	began   time.Time
}

// restoreWait is how long a broker may hold a fetch of instances while a
// transaction there is open.
const restoreWait = 250 * time.Millisecond

// start gains partitions in a goroutine of its own.
func (g *gain) start(ctx context.Context) {
	g.run.gains.Add(1)
	go func() {
		defer g.run.gains.Done()
		if sleep(ctx, g.wait) == nil {
			g.work(ctx)
		}
	}()
}

func (g *gain) work(ctx context.Context) {
	began := time.Now()
	waiting, mend := g.of, began.Add(mendAfter)
	for fails := 1; len(waiting) > 0; fails++ {
		if now := time.Now(); now.After(mend) {
			g.run.mend(ctx)
			mend = now.Add(mendEvery)
		}
		stable, err := g.run.committed(ctx, ids(waiting))
		if err != nil && isForbidden(err) {
			g.run.hand(ctx, gained{err: classify("ask for committed positions", err)})
			return
		}
		var next, found []*ownedPartition
		for _, o := range waiting {
			if _, ok := stable[o.id]; ok {
				found = append(found, o)
			} else {
				next = append(next, o)
			}
		}
		if len(found) > 0 {
			g.run.gains.Add(1)
			go func() {
				defer g.run.gains.Done()
				g.run.restore(ctx, found, stable, began)
			}()
		}
		if waiting = next; len(waiting) > 0 && sleep(ctx, min(stableWait<<min(fails, 5), time.Second)) != nil {
			return
		}
	}
}

// stableWait is how soon positions that are not stable are asked for again, at first.
const stableWait = 5 * time.Millisecond

// restore reads what is committed of some partitions, to the end.
func (r *loopRun) restore(ctx context.Context, of []*ownedPartition, at map[int32]position, began time.Time) {
	if err := r.fillIn(ctx, at); err != nil {
		r.hand(ctx, gained{err: err})
		return
	}
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader := NewReader(r.loop.cfg, ReaderOptions{
		Topic: r.loop.cfg.Topics.Instances(), Partitions: ids(of), Committed: true, MaxWait: restoreWait,
		Handle: func(b Batch) { r.hand(ctx, gained{records: b.Records, of: of}) },
	})
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(ctx) }()
	mend := time.NewTimer(mendAfter)
	defer mend.Stop()
	for {
		select {
		case <-reader.Ready():
			cancel()
			<-ended // nothing is handed over any more
			r.hand(parent, gained{of: of, done: at, began: began})
			return
		case err := <-ended:
			if err != nil {
				r.hand(ctx, gained{err: err})
			}
			return
		case <-mend.C:
			r.mend(ctx)
			mend.Reset(mendEvery)
		}
	}
}

// mend ends what keeps a gain waiting and Kafka has forgotten to end. A process
// that may not do so waits for one that may.
func (r *loopRun) mend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.loop.cfg.RequestTimeout)
	defer cancel()
	m, err := newMender(ctx, r.ask, r.log, r.loop.cfg.Topics.Instances(), r.loop.opts.Group)
	if err == nil {
		err = m.mend(ctx)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("a partition is not readable to its end, and whether Kafka has forgotten the end of a transaction could not be found out", zap.Error(err))
	}
}

// fillIn begins at the oldest input where nothing was ever committed.
func (r *loopRun) fillIn(ctx context.Context, at map[int32]position) error {
	for topic, s := range r.inputs.sources {
		var oldest map[int32]int64
		for p, pos := range at {
			if pos.at[topic] >= 0 {
				continue
			}
			if oldest == nil {
				var err error
				if oldest, err = s.persist(ctx, earliest); err != nil {
					return classify("ask for the oldest inputs", err)
				}
			}
			pos.at[topic] = oldest[p]
			at[p] = pos
		}
	}
	return nil
}

// committed asks for the group's positions. Those that are not stable, or of
// which nothing can be said now, are not in the answer. Each partition is named,
// because what is about to be committed for the first time is not listed.
func (r *loopRun) committed(ctx context.Context, partitions []int32) (map[int32]position, error) {
	ctx, cancel := context.WithTimeout(ctx, r.loop.cfg.RequestTimeout)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = r.loop.opts.Group
	for _, topic := range r.topics {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic.name, topic.id, partitions
		rg.Topics = append(rg.Topics, rt)
	}
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(ctx, r.ask)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, kerr.CoordinatorNotAvailable
	}
	g := resp.Groups[0]
	if err := errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(g.ErrorCode)); err != nil {
		return nil, err
	}
	return r.positions(g)
}

// positions is the answer of committed, both topics together.
func (r *loopRun) positions(g kmsg.OffsetFetchResponseGroup) (map[int32]position, error) {
	at, seen := map[int32]position{}, map[int32]int{}
	for _, rt := range g.Topics {
		topic := slices.IndexFunc(r.topics[:], func(t inputTopic) bool { return t.name == rt.Topic || t.id == rt.TopicID })
		if topic < 0 {
			continue
		}
		for _, rp := range rt.Partitions {
			err := kerr.ErrorForCode(rp.ErrorCode)
			if err != nil && isForbidden(err) {
				return nil, err
			}
			if err != nil {
				continue
			}
			pos, ok := at[rp.Partition]
			if !ok {
				pos = position{partition: rp.Partition, cursor: -1}
			}
			pos.at[topic] = rp.Offset
			if topic == requests {
				pos.cursor = parseCursor(rp.Metadata)
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

// hand gives the loop what was found, unless it ends.
func (r *loopRun) hand(ctx context.Context, g gained) {
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

// take gives the handler what a gain found.
func (r *loopRun) take(g gained) error {
	if g.err != nil {
		return g.err
	}
	r.loop.cfg.Metrics.read(len(g.records))
	for _, rec := range g.records {
		if o := r.owned[rec.Partition]; o != nil && slices.Contains(g.of, o) {
			r.loop.handler.Restore(rec.Partition, rec)
			o.behind = rec.Offset + 1
		}
	}
	if g.done == nil {
		return nil
	}
	var restored []int32
	for _, o := range g.of {
		if r.owned[o.id] == o {
			at := g.done[o.id]
			o.restored = &at
			restored = append(restored, o.id)
			r.loop.cfg.Metrics.restored(g.began)
			r.log.Debug("partition restored", zap.Int32("partition", o.id), zap.Int64("end", o.behind), zap.Int64("cursor", at.cursor))
		}
	}
	r.log.Info("partitions restored", zap.Int32s("partitions", restored), zap.Duration("took", time.Since(g.began)))
	return nil
}

// begin lets a partition that was read from the log take part in turns.
func (r *loopRun) begin(o *ownedPartition) error {
	at := *o.restored
	o.restored, o.ready = nil, true
	o.soil(time.Now())
	r.inputs.add(o.id, at.at)
	// Until its effects are acknowledged the cursor stays where it was found.
	first := max(at.cursor, 0)
	r.outbox.gain(o.id, first)
	res := r.loop.handler.Restored(o.id, at.cursor, time.Now())
	return r.finish(res, nil, map[int32]span{o.id: {first, max(o.behind, first)}})
}
