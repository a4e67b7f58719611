// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// readLoop is a reader at work. One goroutine runs it and calls Handle; each open fetch and the question for the
// leaders have one of their own, and answer over channels.
type readLoop struct {
	r          *Reader
	src        *fetch.Source
	at         fetch.Cursors
	targets    []target            // where callers wait for the reader to get
	questions  map[int32]*question // for the ends, by partition; every for all
	asking     int                 // how many are under way, each in a goroutine
	lateEnds   *time.Timer         // when the question for all is late
	view       fetch.View          // what fetches go by
	busy       map[int32]bool      // brokers with an open fetch
	refreshing bool                // a goroutine asks for the leaders
	fails      int                 // fetches that failed, while any partition has not been fetched since it failed
	failing    map[int32]bool      // those partitions
	sawEnd     bool                // the last batch that was handed over said End
	began      time.Time           // when the last fetch was
	told       bool                // some batch has said End: before, nobody is told of any

	answers      chan fetch.Fetched
	views        chan leaderView
	answeredEnds chan ends
}

// target is where some wait for the reader to get to.
type target struct {
	ends map[int32]int64
	done []chan struct{}
}

// leaderView is the answer to a question for the leaders.
type leaderView struct {
	view fetch.View
	err  error
}

func newReadLoop(r *Reader, src *fetch.Source, at fetch.Cursors) *readLoop {
	return &readLoop{
		r: r, src: src, at: at, view: src.Current(), busy: map[int32]bool{},
		failing: map[int32]bool{}, questions: map[int32]*question{}, lateEnds: time.NewTimer(lateEnds),
		answers: make(chan fetch.Fetched), views: make(chan leaderView), answeredEnds: make(chan ends),
	}
}

func (l *readLoop) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.drain()
	defer cancel()
	pace := time.NewTimer(0)
	defer pace.Stop()
	defer l.lateEnds.Stop()
	for {
		if wait := l.early(time.Now()); wait > 0 {
			pace.Reset(wait)
		} else {
			l.dispatch(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		case c := <-l.r.syncs:
			l.wantEnd(ctx, c)
		case <-l.lateEnds.C:
			l.splitEnds(ctx)
		case e := <-l.answeredEnds:
			if err := l.takeEnds(ctx, e); err != nil {
				return err
			}
		case f := <-l.answers:
			delete(l.busy, f.Fetch.Broker)
			if err := l.deliver(ctx, f); err != nil {
				return err
			}
		case v := <-l.views:
			if err := l.setLeaders(ctx, v); err != nil {
				return err
			}
		}
	}
}

// drain waits for the goroutines of the loop, which end because ctx has.
func (l *readLoop) drain() {
	for len(l.busy) > 0 || l.refreshing || l.asking > 0 {
		select {
		case f := <-l.answers:
			delete(l.busy, f.Fetch.Broker)
		case <-l.views:
			l.refreshing = false
		case <-l.answeredEnds:
			l.asking--
		}
	}
}

// early is how long the next fetch should wait for more to come.
func (l *readLoop) early(now time.Time) time.Duration {
	if !l.told || len(l.targets) > 0 || !l.at.AtEnd() {
		return 0 // somebody waits for what there is, or there is more than one fetch brought
	}
	return l.began.Add(l.r.opts.Pace).Sub(now)
}

// dispatch begins a fetch at every broker that has none open.
func (l *readLoop) dispatch(ctx context.Context) {
	fetches := map[int32]fetch.Request{}
	for p, c := range l.at {
		broker := l.view.Leaders[p].Broker
		if c.Lost || l.busy[broker] {
			continue
		}
		f, ok := fetches[broker]
		if ok && l.aloneIn(f) {
			continue
		}
		if !ok || c.Alone {
			f = l.r.opts.fetch(broker, l.view)
		}
		f.Add(p, c)
		if c.End < 0 || c.Next < c.End {
			f.Wait = 0 // there is something to know at once
		}
		fetches[broker] = f
	}
	for broker, f := range fetches {
		l.busy[broker], l.began = true, time.Now()
		f.Asked = l.began
		go func() { l.answers <- l.src.Fetch(ctx, f, l.r.opts.Committed) }()
	}
}

// fetch is a patient one of nothing yet.
func (o Options) fetch(broker int32, v fetch.View) fetch.Request {
	f := fetch.At(broker, v)
	f.Wait, f.Least = o.MaxWait, 1
	if o.Gather > 0 {
		f.Wait, f.Least = o.Gather, fetch.GatherBytes
	}
	return f
}

// aloneIn says whether a fetch is for a partition that must be asked for alone.
func (l *readLoop) aloneIn(f fetch.Request) bool {
	for p := range f.From {
		if l.at[p].Alone {
			return true
		}
	}
	return false
}

// deliver hands over what a fetch brought.
func (l *readLoop) deliver(ctx context.Context, f fetch.Fetched) error {
	if f.Err != nil {
		for p := range f.Fetch.From {
			l.at[p].Lost, l.failing[p] = true, true
		}
		return l.refreshLeaders(ctx, f.Err)
	}
	var records []wire.Record
	var trouble error
	slices.SortFunc(f.Parts, func(a, b fetch.Part) int { return int(a.Partition - b.Partition) })
	for _, part := range f.Parts {
		if part.Err != nil {
			l.at[part.Partition].MarkLost(part)
			l.failing[part.Partition] = true
			if trouble == nil || kafka.IsFatal(part.Err) {
				trouble = part.Err
			}
			continue
		}
		delete(l.failing, part.Partition)
		if l.at[part.Partition].Next != part.From {
			continue // asked of the leader before this one too, and that answer has come
		}
		if part.Skipped {
			l.r.reads.gap()
			l.r.cfg.Log.Warn("records were removed before they were read", zap.String("topic", l.src.Topic),
				zap.Int32("partition", part.Partition), zap.Int64("from", part.From), zap.Int64("to", part.Next))
			l.r.missed(part.Partition, part.Next)
		}
		c := l.at[part.Partition]
		if c.Advance(part); c.End == c.Next && !part.Skipped {
			c.CaughtUpAt = f.Said()
		}
		records = append(records, part.Records...)
	}
	l.handle(records)
	if trouble != nil {
		return l.refreshLeaders(ctx, trouble)
	}
	if len(l.failing) == 0 {
		l.fails = 0
		l.src.Outage.Fine()
	}
	l.verifyLeaders(ctx)
	return nil
}

// verifyLeaders asks now and then whether the brokers that answer still lead.
func (l *readLoop) verifyLeaders(ctx context.Context) {
	if l.refreshing || !l.src.VerifyDue(time.Now()) {
		return
	}
	l.refreshing = true
	go func() {
		err := l.src.VerifyLeaders(ctx)
		if !kafka.IsFatal(err) {
			err = nil // nobody says otherwise
		}
		l.views <- leaderView{l.src.Current(), err}
	}()
}

func (l *readLoop) handle(records []wire.Record) {
	end := l.at.AtEnd()
	if len(records) > 0 || end && !l.sawEnd {
		l.r.opts.Handle(Batch{Records: records, End: end})
	}
	l.sawEnd = end
	if at := l.at.CaughtUpAt(); !at.IsZero() {
		l.r.caughtUpAt.Store(int64(at.Sub(l.r.made)))
	}
	l.r.reads.took(len(records), end)
	l.told = l.told || end
	l.settle()
}

// settle answers the callers that waited for what has been handled by now. One that waits for an empty topic is
// answered once the receiver was told that it is empty.
func (l *readLoop) settle() {
	l.targets = slices.DeleteFunc(l.targets, func(t target) bool {
		if !l.told || !l.at.Reached(t.ends) {
			return false
		}
		for _, done := range t.done {
			close(done)
		}
		return true
	})
}

// refreshLeaders asks for the leaders, because of an error that will pass; other errors it returns.
func (l *readLoop) refreshLeaders(ctx context.Context, why error) error {
	if kafka.IsFatal(why) {
		return l.r.classified(why)
	}
	l.fails++
	l.r.reads.failed()
	if l.fails >= pace.LogAfter {
		l.src.Outage.Failed(why)
	}
	if l.refreshing {
		return nil
	}
	l.refreshing = true
	wait := min(pace.MostWait, pace.Backoff(l.fails))
	go func() {
		if err := pace.Sleep(ctx, wait); err != nil {
			l.views <- leaderView{err: err}
			return
		}
		v, err := l.src.RefreshKnown(ctx) // one without a leader hides no other
		l.views <- leaderView{v, err}
	}()
	return nil
}

// setLeaders takes the leaders as they are now, and asks again if there is no answer.
func (l *readLoop) setLeaders(ctx context.Context, v leaderView) error {
	l.refreshing = false
	if v.err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return l.refreshLeaders(ctx, v.err)
	}
	l.view = v.view
	for _, c := range l.at {
		c.Lost = false
	}
	return nil
}
