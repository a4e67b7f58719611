// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// loopRun is a loop at work, as one member of the group. One goroutine runs it
// and calls the handler; what waits for brokers has goroutines of its own, which
// answer over channels. Only a turn's own writes are waited for, and not for long.
type loopRun struct {
	loop   *Loop
	log    *zap.Logger
	ctx    context.Context // of the goroutines; ends with the session
	hard   context.Context // of what must be finished; ends a while after the loop is told to stop
	ask    *kgo.Client
	topics [inputTopics]inputTopic

	group  *membership
	inputs *inputs
	timers *timers
	writer *fencedWriter
	outbox *outbox

	owned     map[int32]*ownedPartition
	found     chan gained
	gains     sync.WaitGroup
	tried     chan committed
	trying    bool // positions are on their way to the group
	raised    chan raised
	wrote     chan wrote
	undone    map[int32]int // times in a row, by partition
	aside     map[int32]*asidePartition
	rechecked chan rechecked       // positions that were checked again
	marked    chan *asidePartition // that it is set aside is written down
	freed     chan *asidePartition // set aside, and somebody wrote to instances
	renewing  bool                 // one at a time
	fence     fence                // of the generation in which the partitions are owned
	suspended bool                 // between two generations: nothing may be written
	woken     bool                 // a turn is wanted
	writes    compute.Schema       // what the group lets the handler write
	fails     int                  // turns undone in a row
	plain     time.Time            // when positions were last committed to the group
	width     width                // of turns, in inputs
	gauges    loopGauges
}

// ownedPartition is a partition for as long as this process has it. Gained
// again, it is another one.
//
//	gain ─▶ (reading instances) ─▶ restored ─▶ ready ─▶ turns …
//	  ╰──────────────┴─────────────────┴─────────┴─▶ lost
type ownedPartition struct {
	id        int32
	gain      *gain
	epoch     producerEpoch // once restored
	renewAt   time.Time
	writing   *writing  // on its way to the log
	parked    bool      // it takes no part in turns until that is known
	pressed   bool      // too many of its effects wait: none of its inputs is taken
	reset     int64     // how often its position was
	behind    int64     // the offset behind the last record restored
	end       int64     // the offset behind its takeover
	logged    position  // what the last of them carried
	restored  *position // read from the log, and not begun
	ready     bool
	dirty     time.Time // since when its position or cursor is not committed; zero: it is
	moved     time.Time // when they last moved
	committed time.Time // when it last was
	lost      atomic.Bool
}

// markDirty says that the position or the cursor has to be committed.
func (o *ownedPartition) markDirty(now time.Time) {
	if o.dirty.IsZero() {
		o.dirty = now
	}
	o.moved = now
}

func newLoopRun(
	l *Loop, ask *kgo.Client, sources [inputTopics]*fetch.Source, topics [inputTopics]inputTopic,
	instances *fetch.Source, out *outbox,
) *loopRun {
	in := newInputs(ask, sources, l.cfg.Log, l.opts.TurnRecords)
	in.cfg = l.cfg
	in.patience = l.opts.Patience
	return &loopRun{
		loop: l, log: l.cfg.Log.With(zap.String("group", l.opts.Group)), ask: ask, topics: topics,
		inputs: in, timers: newTimers(in, l.opts.TimerGap), outbox: out,
		writer: &fencedWriter{
			cfg:    l.cfg,
			group:  l.opts.Group,
			name:   l.opts.Name,
			most:   l.opts.TurnBytes,
			client: ask,
			topic:  instances,
		},
		width: newWidth(l.opts.TurnRecords, l.opts.TurnBytes),
		owned: map[int32]*ownedPartition{}, found: make(chan gained), tried: make(chan committed, 1),
		raised: make(chan raised, 1), suspended: true,
		wrote: make(chan wrote), undone: map[int32]int{},
		aside: map[int32]*asidePartition{}, rechecked: make(chan rechecked),
		freed: make(chan *asidePartition), marked: make(chan *asidePartition),
	}
}

// work runs turns until stop is closed.
func (r *loopRun) work(stop <-chan struct{}) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	now := make(chan struct{})
	close(now)
	for {
		if err := r.chores(); err != nil {
			return err
		}
		r.gauges.show(r)
		alarm.Reset(r.pause(time.Now()))
		var turn <-chan struct{}
		if r.turnDue(time.Now()) {
			turn = now
		}
		var err error
		select {
		case <-stop:
			return nil
		case n := <-r.group.news:
			err = r.handleGroupNews(n)
		case err = <-r.group.broken:
		case g := <-r.found:
			err = r.applyGained(g)
		case n := <-r.raised:
			err = r.renewed(n)
		case w := <-r.wrote:
			err = r.written(w)
		case c := <-r.tried:
			r.trying = false
			r.committed(c)
		case a := <-r.inputs.answers:
			err = r.inputs.receive(r.ctx, a)
			r.recheckPositions()
			r.setCorruptAside()
		case l := <-r.inputs.leaders:
			err = r.inputs.setLeaders(r.ctx, l)
		case d := <-r.rechecked:
			r.settle(d)
		case a := <-r.marked:
			r.toldAside(a)
		case a := <-r.freed:
			r.free(a)
		case a := <-r.timers.answers:
			r.timers.answered(a)
		case <-r.outbox.news:
			r.collect()
		case <-r.loop.wake:
			r.woken = true
		case <-alarm.C:
		case <-turn:
			err = r.turn()
		}
		if err != nil {
			return err
		}
	}
}

// chores does what has become due.
func (r *loopRun) chores() error {
	if r.suspended || r.silent(time.Now()) {
		return nil
	}
	for _, o := range r.owned {
		if o.restored == nil {
			continue
		}
		if err := r.begin(o); err != nil {
			return err
		}
		if r.suspended {
			return nil // the group went on without this process: nothing is owned any more
		}
	}
	r.tellReady()
	r.press()
	now := time.Now()
	r.renew(now)
	if due := r.timers.due(); !due.IsZero() && !now.Before(due) {
		r.timers.ask(r.ctx, now, r.owned)
	}
	if due := r.commitDue(now); !due.IsZero() && !now.Before(due) {
		r.commitAside()
	}
	r.inputs.dispatch(r.ctx)
	return nil
}

// mostPause is how long the loop sleeps at most.
const mostPause = time.Minute

// pause is how long nothing will become due.
func (r *loopRun) pause(now time.Time) time.Duration {
	d := mostPause
	switch {
	case r.suspended:
		return d
	case r.silent(now):
		return min(d, r.loop.opts.Heartbeat) // nothing tells when the group is heard again
	}
	due := []time.Time{r.timers.due(), r.commitDue(now)}
	if r.anyReady() {
		due = append(due, r.inputs.due)
	}
	for _, at := range due {
		if !at.IsZero() {
			d = min(d, max(at.Sub(now), 0))
		}
	}
	return d
}

// tellReady says that all partitions there are take part in turns.
func (r *loopRun) tellReady() {
	for _, o := range r.owned {
		if !o.ready {
			return
		}
	}
	r.loop.once.Do(func() { close(r.loop.ready) })
}

// wrapUp ends in order: what is on its way written, effects acknowledged as far as that is quick, so that
// the next owner has none to repeat, then the positions.
func (r *loopRun) wrapUp() {
	enough := time.NewTimer(r.loop.opts.StopTimeout / 2)
	defer enough.Stop()
	for (r.outbox.unsent > 0 || r.anyWriting()) && !r.suspended {
		select {
		case w := <-r.wrote:
			if r.written(w) == nil {
				continue
			}
		case <-r.outbox.news:
			r.collect()
			continue
		case n := <-r.group.news:
			if r.handleGroupNews(n) == nil {
				continue
			}
		case <-enough.C:
		}
		break
	}
	if r.suspended {
		return
	}
	r.commitPositions()
}

func (r *loopRun) anyWriting() bool {
	for _, o := range r.owned {
		if o.writing != nil {
			return true
		}
	}
	return false
}

// close ends the session, whatever state it is in.
func (r *loopRun) close(cancel context.CancelFunc) {
	cancel()
	r.lose(r.all()...)
	r.forget(slices.Collect(maps.Keys(r.aside))...)
	if r.group != nil {
		r.group.leave(r.hard, r.ask)
	}
	r.inputs.drain()
	r.timers.drain()
	r.gains.Wait()
	r.ask.Close()
}
