// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/wire"
)

// press takes no inputs of the partitions that have more than their share of the effects that wait to be acknowledged,
// while those are too many in all. The others go on; as each has less than its share, twice as many wait at most.
func (r *loopRun) press() {
	most := r.loop.opts.MaxUnsent
	for p, o := range r.owned {
		o.pressed = r.outbox.unsent > most && r.outbox.unsentOf(p) > most/len(r.owned)
		r.takeOrLeave(o)
	}
}

// takeOrLeave has inputs of a partition taken, or left where they are.
func (r *loopRun) takeOrLeave(o *ownedPartition) {
	if o.parked || o.pressed {
		r.inputs.park(o.id)
	} else {
		r.inputs.unpark(o.id)
	}
}

func (r *loopRun) turnDue(now time.Time) bool {
	if r.suspended || r.silent(now) || !r.anyReady() {
		return false
	}
	if len(r.outbox.sent) > 0 || r.woken {
		return true
	}
	return r.inputsDue(now)
}

// inputsDue says that inputs should be taken, for themselves or for the timers
// that wait behind them.
func (r *loopRun) inputsDue(now time.Time) bool {
	return r.inputs.dueBy(now) || len(r.timers.reached()) > 0
}

func (r *loopRun) anyReady() bool {
	for _, o := range r.owned {
		if o.ready {
			return true
		}
	}
	return false
}

// turn lets the handler decide on everything there is, and writes what it does.
func (r *loopRun) turn() error {
	select {
	case n := <-r.group.news:
		return r.handleGroupNews(n) // a partition that is lost goes before anything is decided
	default:
	}
	in := wire.Turn{Now: time.Now(), Sent: r.outbox.takeSent()}
	var touched map[int32]bool
	r.woken = false
	if r.inputsDue(in.Now) {
		in.Records, touched = r.inputs.next(r.width.most)
		in.TimersUntil = r.timers.reached()
		r.timers.fired(in.TimersUntil)
	}
	before := r.fails
	r.width.took = len(in.Records)
	err := r.finish(r.loop.handler.Turn(in), touched, nil)
	if r.fails == before {
		r.width.fitted(in.Now)
		r.loop.metrics.turned(in.Now, len(in.Records))
	}
	return err
}

// finish writes what the handler decided: of each partition rejects, then changes
// and positions at once, then effects. No effect leaves before something was
// acknowledged in its partition that was written after it was decided: the leader
// would have refused it, had another process taken the partition over. of is the
// records of the log that effects without changes follow from.
func (r *loopRun) finish(res wire.Result, touched map[int32]bool, of map[int32]span) error {
	r.timers.wake = res.Wake
	r.markDirty(slices.Collect(maps.Keys(touched)))
	parts, err := r.parts(res, len(touched) == 0 || r.width.most == 1)
	if err != nil {
		return err
	}
	for p, s := range of {
		if w := parts[p]; w != nil {
			w.follows = &s
		} else {
			r.markDirty(r.outbox.publish(nil, map[int32]span{p: s}))
		}
	}
	if len(parts) > 0 && r.group.lost.Load() {
		r.lostGeneration()
		return nil
	}
	return r.write(parts)
}

func (r *loopRun) position(p int32) position {
	return position{
		partition: p, at: r.inputs.at(p), wrote: r.inputs.wrote(p), cursor: r.outbox.cursor(p), reset: r.owned[p].reset,
	}
}

// dirty is the positions that are not committed, and may be: what was decided of
// the inputs before them is written.
func (r *loopRun) dirty() (at []position, of []*ownedPartition) {
	for p, o := range r.owned {
		if o.ready && !o.dirty.IsZero() && o.writing == nil {
			at = append(at, r.position(p))
			of = append(of, o)
		}
	}
	return at, of
}

// clean says that what was dirty when a commit began is committed.
func (r *loopRun) clean(c committed) {
	for _, o := range c.of {
		o.committed = c.began
		if o.dirty = c.began; o.moved.Before(c.began) {
			o.dirty = time.Time{}
		}
	}
}

// commitDue is when positions should be committed to the group; zero
// if there are none. One that has not moved for long is, lest the group forgets it.
func (r *loopRun) commitDue(now time.Time) time.Time {
	var oldest time.Time
	for _, o := range r.owned {
		if o.writing != nil {
			continue
		}
		if o.ready && now.Sub(o.committed) >= r.loop.opts.IdleCommit {
			o.markDirty(now)
		}
		if o.ready && !o.dirty.IsZero() && (oldest.IsZero() || o.dirty.Before(oldest)) {
			oldest = o.dirty
		}
	}
	if oldest.IsZero() || r.trying {
		return time.Time{}
	}
	if oldest.Before(r.plain) {
		oldest = r.plain // it was tried since
	}
	return oldest.Add(r.loop.opts.CommitEvery)
}

// committed is how a commit of positions ended.
type committed struct {
	of    []*ownedPartition
	began time.Time
	err   error
}

// commitPositions commits positions to the group and waits for the answer. A
// failure is no harm: why will be heard from the group, and the log says what
// was decided.
func (r *loopRun) commitPositions() {
	if r.trying { // what was sent before must not arrive after
		r.trying = false
		r.committed(<-r.tried)
	}
	began := time.Now()
	if at, of := r.dirty(); len(at) > 0 {
		r.committed(committed{of, began, r.commit(r.hard, r.fence, at)})
	}
}

// commitAside does so while turns go on.
func (r *loopRun) commitAside() {
	at, of := r.dirty()
	if len(at) == 0 || r.trying {
		return
	}
	began := time.Now()
	r.trying, r.plain = true, began
	f := r.fence
	r.gains.Go(func() {
		r.tried <- committed{of, began, r.commit(r.ctx, f, at)}
	})
}

func (r *loopRun) commit(ctx context.Context, f fence, at []position) error {
	ctx, cancel := context.WithTimeout(ctx, r.loop.cfg.RequestTimeout)
	defer cancel()
	return commitPositions(ctx, r.ask, r.loop.opts.Group, f, r.topics, at)
}

// committed hears how a commit of positions ended.
func (r *loopRun) committed(c committed) {
	if c.err == nil {
		r.clean(c)
	} else {
		r.log.Debug("positions were not committed", zap.Error(c.err))
	}
}

// collect hears how effects fared.
func (r *loopRun) collect() {
	r.markDirty(r.outbox.collect())
}

// markDirty says that positions or cursors have to be committed.
func (r *loopRun) markDirty(partitions []int32) {
	now := time.Now()
	for _, p := range partitions {
		r.owned[p].markDirty(now)
	}
}
