// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// trialTimeout is how long a Kafka that did not answer may take to prove that
// it does again; twice as long after each trial in vain, up to eight times.
const trialTimeout = 2 * time.Second

// send makes one record safe. With KindUnavailable nothing was written; with
// KindTimeout nobody knows. A caller that goes away changes nothing: what was
// begun is finished, and counts until then.
func (s *Server) send(ctx context.Context, rec wire.Record) error {
	return s.gated(ctx, rec.Topic, func(ctx context.Context) error { return s.config.Publisher.Send(ctx, rec) })
}

// gated is send for whatever writes to a topic.
func (s *Server) gated(ctx context.Context, topic string, write func(context.Context) error) error {
	trial, err := s.writes.enter(time.Now())
	if err != nil {
		return err
	}
	came := unanswered
	defer func() { s.writes.leave(time.Now(), trial, came) }()
	ctx = context.WithoutCancel(ctx)
	if trial {
		if came, err = s.look(ctx); err != nil {
			return err
		}
		came = unanswered
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	began := time.Now()
	came, err = judge(topic, write(ctx))
	s.metrics.published(began, err)
	return err
}

// judge says what an error of the publisher means.
func judge(topic string, err error) (outcome, error) {
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

// look is how a trial of what writes begins, so that nothing was written if
// Kafka is still silent. The gate of the readers cannot refuse it, or it would
// be no trial, and is not closed by it: it may be briefer than readers are.
func (s *Server) look(ctx context.Context) (outcome, error) {
	came, err := s.sync(context.WithoutCancel(ctx), s.writes.patience())
	if came == answered {
		s.reads.open()
	}
	return came, err
}

// catchUp returns once everything that any node accepted before the call is
// in the views. A trial goes on even if its caller hangs up: a caller that always
// hangs up early, as a health check may, would otherwise never find out.
func (s *Server) catchUp(ctx context.Context) error {
	trial, err := s.reads.enter(time.Now())
	if err != nil {
		return err
	}
	came, patience := unanswered, s.config.SyncTimeout
	defer func() { s.reads.leave(time.Now(), trial, came) }()
	if trial {
		ctx, patience = context.WithoutCancel(ctx), s.reads.patience()
	}
	came, err = s.sync(ctx, patience)
	return err
}

// sync catches up, and says what came of it.
func (s *Server) sync(caller context.Context, patience time.Duration) (outcome, error) {
	ctx, cancel := context.WithTimeout(caller, patience)
	defer cancel()
	err := s.rounds.fresh(ctx)
	if err == nil {
		return answered, nil
	}
	came := unanswered
	if caller.Err() != nil {
		came = abandoned
	}
	return came, &later{after: refusedFor, why: &compute.Error{
		Op: "catch up", Kind: compute.KindUnavailable,
		Message: "Kafka does not answer, so it is not known what other nodes accepted",
		Remedy:  "try again in a moment; nothing was done", Cause: err,
	}}
}

// answersKafka refuses while Kafka does not answer, as far as is known or can
// be found out. It is not asked while all goes well.
func (s *Server) answersKafka(ctx context.Context) error {
	now := time.Now()
	_, writes := s.writes.state(now)
	_, reads := s.reads.state(now)
	if writes == 0 && reads == 0 {
		return nil
	}
	return s.catchUp(ctx)
}
