// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// lane runs one share session. One goroutine sends its requests, one after the
// other; the methods that others call only leave word for it.
type lane struct {
	p  *Puller
	id wire.Lane

	wait, idle, sessionIdle time.Duration

	orders chan order    // what to fetch; holds one
	acked  chan struct{} // some acks wait

	mu    sync.Mutex // guards what follows, up to the blank line
	state *sessionState
	busy  bool // an Open is not answered yet
	over  bool // the goroutine has ended

	client  *kgo.Client // nil: not connected
	address string      // where client connects
	queues  []wire.QueueRef
	used    time.Time           // when the broker last answered
	fails   int                 // errors in a row
	refused map[topicUUID]int16 // why the broker refuses queues
	outage  *kafka.OutageReporter
}

func newLane(p *Puller, id wire.Lane) *lane {
	l := &lane{
		p: p, id: id, wait: p.opts.MaxWait, idle: laneIdleTimeout, sessionIdle: sessionIdleTimeout,
		orders: make(chan order, 1), acked: make(chan struct{}, 1),
		state: newSessionState(id.Group), refused: map[topicUUID]int16{}, outage: p.cfg.OutageReporter("pull work"),
	}
	if id.Spare {
		l.wait, l.idle, l.sessionIdle = min(l.wait, spareWait), spareIdleTimeout, spareSessionIdleTimeout
	}
	return l
}

// order is one fetch that is wanted.
type order struct {
	queues []wire.QueueRef
	wait   time.Duration
}

// order leaves word to fetch.
func (l *lane) order(queues []wire.QueueRef, wait time.Duration) error {
	if len(queues) == 0 {
		return compute.Invalid("queues", "", "name at least one queue to fetch")
	}
	if _, err := byTopic(queues); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return pullerEnded("pull work")
	case l.busy:
		return compute.Conflict("lane", l.id.Group, "has an open fetch already", "read its result before opening the lane again")
	}
	l.busy = true
	l.p.metrics.opened()
	if wait == 0 || wait > l.wait {
		wait = l.wait
	}
	l.orders <- order{queues, wait}
	return nil
}

// ack leaves word of what becomes of a record.
func (l *lane) ack(ref wire.WorkRef, how wire.Ack) {
	t, err := parseTopicID(ref.Queue.TopicID)
	l.mu.Lock()
	held := err == nil && !l.over && l.state.ack(ref.Incarnation, delivery{t, ref.Offset}, how)
	l.mu.Unlock()
	if !held {
		l.p.counts.acksDropped.Add(1)
		l.log().Debug("dropped an ack of what is not held any more", zap.String("queue", string(ref.Queue.Name)), zap.Int64("offset", ref.Offset))
		return
	}
	l.wake()
}

func (l *lane) wake() {
	select {
	case l.acked <- struct{}{}:
	default:
	}
}

func (l *lane) log() *zap.Logger {
	return l.p.cfg.Log.With(zap.Int32("broker", l.id.Broker), zap.String("group", l.id.Group), zap.Bool("spare", l.id.Spare))
}

func (l *lane) run(ctx context.Context) {
	l.mu.Lock()
	l.state.member = l.p.member
	if l.id.Spare {
		l.state.member += "s" // a session of its own, as for another host
	}
	l.mu.Unlock()
	defer l.stop()
	var late <-chan time.Time // the acks that wait have waited for a fetch long enough
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-l.orders:
			late = nil
			l.finish(l.fetch(ctx, o))
		case <-l.acked:
			if late == nil {
				late = time.After(l.p.opts.AckWait)
			}
		case <-late:
			late = nil
			if err := l.sendAcks(ctx); err != nil {
				l.log().Debug("the outcome of acks is unknown", zap.Error(err))
			}
		}
	}
}

// finish answers an Open.
func (l *lane) finish(r wire.Pulled) {
	l.mu.Lock()
	l.busy = false
	l.mu.Unlock()
	l.p.metrics.pulled(r)
	l.p.answer(r)
}

// fetch runs one fetch to its end.
func (l *lane) fetch(ctx context.Context, o order) wire.Pulled {
	l.queues = o.queues
	r := wire.Pulled{Lane: l.id, Queues: o.queues}
	if r.Err = l.prepare(ctx); r.Err != nil {
		return r
	}
	refs, _ := byTopic(o.queues) // order has looked
	var resp *kmsg.ShareFetchResponse
	if resp, r.Err = l.sendFetch(ctx, topicsOf(refs), o.wait); r.Err != nil {
		return r
	}
	l.take(&r, resp, refs)
	return r
}

// prepare does what comes before a fetch: wait after errors, connect, and send
// renewals, which cannot ride on it.
func (l *lane) prepare(ctx context.Context) error {
	if l.fails > 0 {
		d := l.p.opts.Backoff << min(l.fails-1, 2)
		if pace.Sleep(ctx, d/2+rand.N(d)) != nil {
			return pullerEnded("pull work")
		}
	}
	if err := l.connect(); err != nil {
		return l.lose(ctx, err)
	}
	l.mu.Lock()
	renewing := l.state.renewing()
	l.mu.Unlock()
	if renewing {
		return l.sendAcks(ctx)
	}
	return nil
}

// lose gives a session up after an error, and answers what to tell of it.
func (l *lane) lose(ctx context.Context, err error) error {
	l.disconnect()
	if ctx.Err() != nil {
		return pullerEnded("pull work")
	}
	l.p.counts.sessions.Add(1)
	l.p.places.doubt(l.queues)
	l.fails++
	if l.fails >= pace.LogAfter {
		l.outage.Failed(err)
	}
	l.log().Debug("lost a session", zap.Error(err))
	if kafka.IsForbidden(err) {
		return kafka.Classify("pull work", err)
	}
	return compute.Unavailable("pull work", err)
}

// stop ends the lane. The broker is told to release what is held, unless a
// fetch was open: then it would not listen.
func (l *lane) stop() {
	l.mu.Lock()
	l.over = true
	req := l.state.end()
	l.mu.Unlock()
	select {
	case o := <-l.orders:
		l.finish(wire.Pulled{Lane: l.id, Queues: o.queues, Err: pullerEnded("pull work")})
	default:
	}
	if req != nil && l.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		_, err := l.client.SeedBrokers()[0].Request(ctx, req)
		l.log().Debug("ended a session", zap.Error(err))
	}
	l.disconnect()
	l.outage.Fine()
}
