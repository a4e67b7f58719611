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
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// session runs one share session. One goroutine sends its requests, one after the
// other; the methods that others call only leave word for it.
type session struct {
	p  *Puller
	id wire.SessionID

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

func newSession(p *Puller, id wire.SessionID) *session {
	s := &session{
		p: p, id: id, wait: p.opts.MaxWait, idle: connIdleTimeout, sessionIdle: sessionIdleTimeout,
		orders: make(chan order, 1), acked: make(chan struct{}, 1),
		state: newSessionState(id.Group), refused: map[topicUUID]int16{}, outage: p.cfg.OutageReporter("pull work"),
	}
	if id.Secondary {
		s.wait, s.idle, s.sessionIdle = min(s.wait, secondaryWait), secondaryConnIdleTimeout, secondaryIdleTimeout
	}
	return s
}

// order is one fetch that is wanted.
type order struct {
	queues []wire.QueueRef
	wait   time.Duration
}

// order leaves word to fetch.
func (s *session) order(queues []wire.QueueRef, wait time.Duration) error {
	if len(queues) == 0 {
		return compute.Invalid("queues", "", "name at least one queue to fetch")
	}
	if _, err := byTopic(queues); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return pullerEnded("pull work")
	case s.busy:
		return compute.Conflict(
			"session", s.id.Group, "has an open fetch already", "read its result before opening the session again",
		)
	}
	s.busy = true
	s.p.metrics.opened()
	if wait == 0 || wait > s.wait {
		wait = s.wait
	}
	s.orders <- order{queues, wait}
	return nil
}

// ack leaves word of what becomes of a record.
func (s *session) ack(ref wire.WorkRef, how wire.Ack) {
	t, err := parseTopicID(ref.Queue.TopicID)
	s.mu.Lock()
	held := err == nil && !s.over && s.state.ack(ref.Incarnation, delivery{t, ref.Offset}, how)
	s.mu.Unlock()
	if !held {
		s.p.counts.acksDropped.Add(1)
		s.log().Debug("dropped an ack of what is not held any more",
			zap.String("queue", string(ref.Queue.Name)), zap.Int64("offset", ref.Offset))
		return
	}
	s.wake()
}

func (s *session) wake() {
	select {
	case s.acked <- struct{}{}:
	default:
	}
}

func (s *session) log() *zap.Logger {
	return s.p.cfg.Log.With(
		zap.Int32("broker", s.id.Broker), zap.String("group", s.id.Group), zap.Bool("secondary", s.id.Secondary),
	)
}

func (s *session) run(ctx context.Context) {
	s.mu.Lock()
	s.state.member = s.p.member
	if s.id.Secondary {
		s.state.member += "s" // a session of its own, as for another host
	}
	s.mu.Unlock()
	defer s.stop()
	var late <-chan time.Time // the acks that wait have waited for a fetch long enough
	quiet := time.NewTimer(s.sessionIdle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-s.orders:
			late = nil
			s.finish(s.fetch(ctx, o))
			quiet.Reset(s.sessionIdle)
		case <-quiet.C: // what it pulled comes from elsewhere: its trouble is nobody's any more
			s.outage.Fine()
		case <-s.acked:
			if late == nil {
				late = time.After(s.p.opts.AckWait)
			}
		case <-late:
			late = nil
			if err := s.sendAcks(ctx); err != nil {
				s.log().Debug("the outcome of acks is unknown", zap.Error(err))
			}
		}
	}
}

// finish answers an Open.
func (s *session) finish(r wire.Pulled) {
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
	s.p.metrics.pulled(r)
	s.p.answer(r)
}

// fetch runs one fetch to its end.
func (s *session) fetch(ctx context.Context, o order) wire.Pulled {
	s.queues = o.queues
	r := wire.Pulled{Session: s.id, Queues: o.queues}
	if r.Err = s.prepare(ctx); r.Err != nil {
		return r
	}
	refs, _ := byTopic(o.queues) // order has looked
	var resp *kmsg.ShareFetchResponse
	if resp, r.Err = s.sendFetch(ctx, topicsOf(refs), o.wait); r.Err != nil {
		return r
	}
	s.handleResponse(&r, resp, refs)
	return r
}

// prepare does what comes before a fetch: wait after errors, connect, and send
// renewals, which cannot go with it.
func (s *session) prepare(ctx context.Context) error {
	if s.fails > 0 {
		d := s.p.opts.Backoff << min(s.fails-1, 2)
		if pace.Sleep(ctx, d/2+rand.N(d)) != nil { // #nosec G404 -- jitter
			return pullerEnded("pull work")
		}
	}
	if err := s.connect(); err != nil {
		return s.lose(ctx, err)
	}
	s.mu.Lock()
	renewing := s.state.renewing()
	s.mu.Unlock()
	if renewing {
		return s.sendAcks(ctx)
	}
	return nil
}

// lose gives a session up after an error, and answers what to tell of it.
func (s *session) lose(ctx context.Context, err error) error {
	s.disconnect()
	if ctx.Err() != nil {
		return pullerEnded("pull work")
	}
	s.p.counts.sessions.Add(1)
	s.p.places.markSuspect(s.queues)
	s.fails++
	if kafka.IsForbidden(err) {
		err = s.forbidden(err)
	}
	if s.fails >= pace.LogAfter {
		s.outage.Failed(err)
	}
	s.log().Debug("lost a session", zap.Error(err))
	if compute.KindOf(err) == compute.KindForbidden {
		return err
	}
	return compute.Unavailable("pull work", err)
}

// forbidden says what this process may not pull. With an ACL for the group and none for a queue that queue alone is
// refused (refusal).
func (s *session) forbidden(err error) error {
	return s.p.cfg.Classify("pull work", err,
		access.To(access.Read, access.Group, s.id.Group),
		access.ToAll(access.Read, access.Topic, s.p.cfg.Topics.Build("")),
	)
}

// stop ends the session. The broker is told to release what is held, unless a
// fetch was open: then it would not listen.
func (s *session) stop() {
	s.mu.Lock()
	s.over = true
	req := s.state.end()
	s.mu.Unlock()
	select {
	case o := <-s.orders:
		s.finish(wire.Pulled{Session: s.id, Queues: o.queues, Err: pullerEnded("pull work")})
	default:
	}
	if req != nil && s.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		_, err := s.client.SeedBrokers()[0].Request(ctx, req)
		s.log().Debug("ended a session", zap.Error(err))
	}
	s.disconnect()
	s.outage.Fine()
}
