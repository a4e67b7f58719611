// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// firstProbeTimeout is how long a Kafka that did not answer may take to prove that
// it does again; twice as long after each probe in vain, up to eight times.
const firstProbeTimeout = 2 * time.Second

// send makes one record safe. With KindUnavailable nothing was written; with
// KindTimeout nobody knows. A caller that goes away changes nothing: what was
// begun is finished, and counts until then.
func (s *Server) send(ctx context.Context, rec wire.Record) error {
	return s.withBreaker(ctx, rec.Topic, func(ctx context.Context) error { return s.config.Publisher.Send(ctx, rec) })
}

// withBreaker writes to a topic, if the breaker lets it in.
func (s *Server) withBreaker(ctx context.Context, topic string, write func(context.Context) error) error {
	probe, err := s.writes.enter(time.Now())
	if err != nil {
		return err
	}
	came := unanswered
	defer func() { s.writes.leave(time.Now(), probe, came) }()
	ctx = context.WithoutCancel(ctx)
	if probe {
		if came, err = s.probe(ctx); err != nil {
			return err
		}
		came = unanswered
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	began := time.Now()
	came, err = publishOutcome(topic, write(ctx))
	s.metrics.published(began, err)
	return err
}

// publishOutcome says what an error of the publisher means.
func publishOutcome(topic string, err error) (outcome, error) {
	var e *compute.Error
	switch {
	case err == nil:
		return answered, nil
	case errors.Is(err, wire.ErrNoTopic):
		return answered, &compute.Error{
			Op: "publish", Kind: compute.KindUnavailable, Field: "topic", Value: topic, Message: "does not exist yet",
			Remedy: "it is made within seconds; try again", Cause: err,
		}
	case errors.Is(err, wire.ErrFull): // Kafka was not asked
		return abandoned, tooMany("", "", "so many records wait for Kafka at this node already")
	case errors.As(err, &e) && e.Kind == compute.KindInvalid:
		return answered, err
	case errors.As(err, &e) && e.Kind == compute.KindForbidden:
		return answered, &compute.Error{
			Op: "publish", Kind: compute.KindUnavailable, Field: "topic", Value: topic,
			Message: "Kafka does not let this node write to it",
			Remedy:  "the operator has to allow it", Cause: err,
		}
	}
	return unanswered, &compute.Error{
		Op: "publish", Kind: compute.KindTimeout, Message: "it is not known whether the request was kept",
		Remedy: "look whether it was, or repeat it", Cause: err,
	}
}

// probe finds out, before a write that was let in as a probe, whether Kafka answers, so
// that nothing was written if it is still silent. The breaker of the readers cannot refuse
// it, or it would be no probe, and is not opened by it: it may be briefer than readers are.
func (s *Server) probe(ctx context.Context) (outcome, error) {
	came, err := s.sync(context.WithoutCancel(ctx), s.writes.probeTimeout())
	if came == answered {
		s.reads.reset()
	}
	return came, err
}

// catchUp returns once everything that any node accepted before the call is
// in the views. A probe goes on even if its caller hangs up: a caller that always
// hangs up early, as a health check may, would otherwise never find out.
func (s *Server) catchUp(ctx context.Context) error {
	probe, err := s.reads.enter(time.Now())
	if err != nil {
		return err
	}
	came, timeout := unanswered, s.config.SyncTimeout
	defer func() { s.reads.leave(time.Now(), probe, came) }()
	if probe {
		ctx, timeout = context.WithoutCancel(ctx), s.reads.probeTimeout()
	}
	came, err = s.sync(ctx, timeout)
	return err
}

// sync catches up, and says what came of it.
func (s *Server) sync(caller context.Context, timeout time.Duration) (outcome, error) {
	ctx, cancel := context.WithTimeout(caller, timeout)
	defer cancel()
	err := s.syncs.sync(ctx)
	if err == nil {
		return answered, nil
	}
	came := unanswered
	if caller.Err() != nil {
		came = abandoned
	}
	return came, &retryLater{after: refusedFor, why: &compute.Error{
		Op: "catch up", Kind: compute.KindUnavailable,
		Message: "Kafka does not answer, so it is not known what other nodes accepted",
		Remedy:  "try again in a moment; nothing was done", Cause: err,
	}}
}

// checkKafka refuses while Kafka does not answer, as far as is known or can
// be found out. It is not asked while all goes well.
func (s *Server) checkKafka(ctx context.Context) error {
	now := time.Now()
	_, writes := s.writes.state(now)
	_, reads := s.reads.state(now)
	if writes == 0 && reads == 0 {
		return nil
	}
	return s.catchUp(ctx)
}

// sharedSync lets many readers share few Syncs. A reader needs a Sync that began
// after the reader came: one that was already under way may have asked for the
// ends before the record the reader looks for was written.
type sharedSync struct {
	syncer Syncer
	token  chan struct{} // holds one token: its holder runs a Sync
	begun  *atomic.Uint64
	done   *uint64 // the newest Sync that succeeded; owned by the token's holder
}

func newSharedSync(s Syncer) sharedSync {
	r := sharedSync{syncer: s, token: make(chan struct{}, 1), begun: new(atomic.Uint64), done: new(uint64)}
	r.token <- struct{}{}
	return r
}

// sync returns nil once a Sync that began after the call has succeeded.
func (r sharedSync) sync(ctx context.Context) error {
	arrived := r.begun.Load()
	select {
	case <-r.token:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.token <- struct{}{} }()
	if *r.done > arrived {
		return nil
	}
	round := r.begun.Add(1)
	if err := r.syncer.Sync(ctx); err != nil {
		return err
	}
	*r.done = round
	return nil
}
