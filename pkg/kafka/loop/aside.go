// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// A position that lies behind the end of its topic is of records that are gone:
// the tail of requests or reports was lost, or one of them was made again. Going
// on from there would pass over what is written next, and beginning anew would
// hear all again: a person must choose. Until then the partition is set aside,
// that one alone, and its inputs wait.
//
//	ready ─▶ rechecked ─▶ aside ─▶ gained again
//	  ▲          │          ╰ somebody wrote to its partition of instances: ResetPosition,
//	  ╰──────────╯            or another owner
//	    it does not lie there: a leader had only not caught up
//
// That a partition is aside for its position is written to instances: the topic may grow beyond the position
// meanwhile, and a later owner would see nothing wrong. A partition that the handler cannot decide about is set
// aside, too, but by this process alone: another may be able to. So is one with a next input that is not what was
// written, by its checksum: that is tried again now and then.

const (
	// recheckAfter is for how many heartbeats a position is left alone before it is
	// checked again.
	recheckAfter = 6
	// asideCheck is after how many heartbeats it is checked whether something was
	// written to the partition of instances.
	asideCheck = 10
	// asideTold is how often the log says that a partition is set aside.
	asideTold = 10 * time.Minute
	// corruptRetry is after how long a partition with an input that could not be read is taken over again.
	corruptRetry = 5 * time.Minute
)

// Aside is a partition that no conductor decides about until its position is reset,
// or that this one cannot decide about.
type Aside struct {
	Partition int32
	Why       string // which position lies behind which end, or what the handler says
	Remedy    string // a command of berth, or what to do
}

// asidePartition is a partition for as long as it is set aside.
type asidePartition struct {
	Aside
	told   bool          // Options.SetAside may be told: what has to be written down is
	end    int64         // of its partition of instances then; below 0: as it is seen first
	again  time.Duration // after which it is taken over again though nothing is written; 0: never
	cancel context.CancelFunc
}

// rechecked is what came of checking a position again.
type rechecked struct {
	of     *ownedPartition
	topic  int
	beyond *fetch.BeyondEnd
	end    int64
	err    error
}

// setCorruptAside sets partitions aside if their next input cannot be read.
func (r *loopRun) setCorruptAside() {
	bad := r.inputs.corrupt
	r.inputs.corrupt = nil
	for _, s := range bad {
		if o := r.owned[s.Partition]; o != nil {
			r.leave(o, &asidePartition{end: -1, again: corruptRetry, told: true, Aside: Aside{
				Partition: o.id, Why: s.Error(),
				Remedy: fmt.Sprintf(
					"have another replica lead the partition, or restore its log: it is tried again every %s",
					corruptRetry,
				),
			}}, nil)
		}
	}
}

// recheckPositions has positions checked again that seem to lie behind the end of a topic.
func (r *loopRun) recheckPositions() {
	beyondEnds := r.inputs.beyondEnds
	r.inputs.beyondEnds = nil
	for _, s := range beyondEnds {
		d := rechecked{of: r.owned[s.Partition], beyond: s}
		for topic := range r.inputs.sources {
			if f := r.inputs.feeds[inputKey{topic, s.Partition}]; f != nil && f.beyond == s {
				d.topic = topic
			}
		}
		r.gains.Go(func() {
			if d.err = pace.Sleep(r.ctx, recheckAfter*r.loop.opts.Heartbeat); d.err == nil {
				d.end, d.err = r.inputs.sources[d.topic].End(r.ctx, s.Partition)
			}
			select {
			case r.rechecked <- d:
			case <-r.ctx.Done():
			}
		})
	}
}

// settle sets a partition aside, or lets it go on.
func (r *loopRun) settle(d rechecked) {
	p := d.beyond.Partition
	f := r.inputs.feeds[inputKey{d.topic, p}]
	if r.owned[p] != d.of || f == nil || f.beyond != d.beyond {
		return // it was lost since
	}
	if d.beyond.Parted && d.err == nil {
		d.end = min(d.end, d.beyond.End) // what has been written since is of another log
	}
	if d.err != nil || d.end >= d.beyond.At || d.of.writing != nil {
		f.beyond = nil // it is fetched again, and so found out again
		return
	}
	at := r.position(p)
	at.at[d.topic], at.wrote[d.topic] = d.end, fetch.Epoch{}
	at.reset++
	at.aside = true
	d.beyond.End = d.end
	r.setAside(d.of, d.of.epoch, at, d.beyond)
}

// setAside sets a partition aside for its position. at is what is written down:
// where the topics ended when that was noticed.
func (r *loopRun) setAside(o *ownedPartition, with producerEpoch, at position, why *fetch.BeyondEnd) {
	a := &asidePartition{Aside: Aside{
		Partition: o.id,
		Why: fmt.Sprintf("an earlier conductor found its position behind the end of %s or %s",
			r.topics[requests].name, r.topics[reports].name),
		Remedy: fmt.Sprintf("berth conductor reset-position --partition %d", o.id),
	}}
	var fields []zap.Field
	if why != nil {
		a.Why = fmt.Sprintf("its position in %s is %d, behind the end %d", why.Topic, why.At, why.End)
		if why.Parted {
			const anew = "its position in %s is %d, of a log that ended at %d and has grown anew"
			a.Why = fmt.Sprintf(anew, why.Topic, why.At, why.End)
		}
		fields = append(
			fields, zap.String("topic", why.Topic), zap.Int64("position", why.At), zap.Int64("end", why.End),
		)
	}
	r.leave(o, a, func(ctx context.Context) (int64, bool) { return r.markAside(ctx, o.id, with, at) }, fields...)
}

// giveUp sets a partition aside that the handler cannot decide about. Another
// process may be able to, so it is not written down.
func (r *loopRun) giveUp(o *ownedPartition, why *compute.Error) {
	about := Aside{Partition: o.id, Why: why.Message, Remedy: why.Remedy}
	r.leave(o, &asidePartition{end: o.end, told: true, Aside: about}, nil)
}

// leave gives a partition up until something more is written to it. note, if there
// is one, writes down why, and answers where instances ends then: nobody is told before.
func (r *loopRun) leave(
	o *ownedPartition, a *asidePartition, note func(context.Context) (end int64, ok bool), fields ...zap.Field,
) {
	ctx, cancel := context.WithCancel(r.ctx)
	a.cancel = cancel
	fields = append(fields, zap.Int32("partition", o.id), zap.String("remedy", a.Remedy))
	r.lose(o.id)
	r.aside[o.id] = a
	r.tellAside()
	r.gains.Go(func() {
		defer cancel()
		if note != nil {
			var ok bool
			if a.end, ok = note(ctx); !ok {
				return
			}
			select {
			case r.marked <- a:
			case <-ctx.Done():
				return
			}
		}
		r.watchAside(ctx, a, fields)
	})
}

// markAside writes down that a partition is set aside, and answers where instances
// ends then. It tries until it has, under a new producer epoch if need be and the
// group still says that the partition is this process's; false: ctx has ended.
func (r *loopRun) markAside(ctx context.Context, p int32, with producerEpoch, at position) (end int64, ok bool) {
	for fails := 1; ; fails++ {
		e := &entry{epoch: with, records: []wire.Record{wire.Takeover(r.writer.name)}}
		at.carry(e.records)
		err := r.writer.write(ctx, map[int32]*entry{p: e})
		if err == nil {
			return e.offset + int64(len(e.records)), true
		}
		if pace.Sleep(ctx, pace.Backoff(fails)) != nil {
			return 0, false
		}
		r.log.Warn(
			"that a partition is set aside could not be written down yet",
			zap.Int32("partition", p), zap.Error(err),
		)
		if r.group.current(ctx, r.ask) != nil {
			continue
		}
		if next, err := r.writer.raise(ctx, p, noEpoch); err == nil {
			with = next
		}
	}
}

// watchAside waits until somebody writes to a partition of instances, and says now
// and then that it does.
func (r *loopRun) watchAside(ctx context.Context, a *asidePartition, fields []zap.Field) {
	told, began := time.Time{}, time.Now()
	for {
		if now := time.Now(); now.Sub(told) >= asideTold {
			told = now
			r.log.Error("a partition is set aside: "+a.Why, fields...)
		}
		if pace.Sleep(ctx, asideCheck*r.loop.opts.Heartbeat) != nil {
			return
		}
		ends, err := r.writer.topic.Offsets(ctx, r.writer.topic.Current(), []int32{a.Partition}, fetch.Latest)
		if err != nil {
			_, _ = r.writer.topic.Refresh(ctx) // it is asked again
			continue
		}
		if a.end < 0 {
			a.end = ends[a.Partition]
		}
		if ends[a.Partition] == a.end && (a.again == 0 || time.Since(began) < a.again) {
			continue
		}
		select {
		case r.freed <- a:
		case <-ctx.Done():
		}
		return
	}
}

// toldAside says that a partition is set aside once that is written down: Options.SetAside may rely on that.
func (r *loopRun) toldAside(a *asidePartition) {
	if r.aside[a.Partition] == a {
		a.told = true
		r.tellAside()
	}
}

// free gains a partition again that was set aside.
func (r *loopRun) free(a *asidePartition) {
	if r.aside[a.Partition] != a {
		return
	}
	r.log.Info("a partition that was set aside is taken over again", zap.Int32("partition", a.Partition))
	r.forget(a.Partition)
	r.gain(0, a.Partition)
}

// forget drops partitions that are set aside: another process has them, or this
// one gains them again.
func (r *loopRun) forget(partitions ...int32) {
	for _, p := range partitions {
		r.aside[p].cancel()
		delete(r.aside, p)
	}
	r.tellAside()
}

// tellAside says which partitions are set aside.
func (r *loopRun) tellAside() {
	if r.loop.opts.SetAside == nil {
		return
	}
	all := []Aside{}
	for _, a := range r.aside {
		if a.told {
			all = append(all, a.Aside)
		}
	}
	slices.SortFunc(all, func(a, b Aside) int { return cmp.Compare(a.Partition, b.Partition) })
	r.loop.opts.SetAside(all)
}
