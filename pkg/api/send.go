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
	trial, err := s.writes.enter(time.Now())
	if err != nil {
		return err
	}
	came := unanswered
	defer func() { s.writes.leave(time.Now(), trial, came) }()
	ctx = context.WithoutCancel(ctx)
	if trial { // whoever tries shall not wait long, and shall have written nothing if Kafka is still silent
		if err := s.catchUpWithin(ctx, s.writes.patience()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	began := time.Now()
	err = s.config.Publisher.Send(ctx, rec)
	came, err = judge(rec.Topic, err)
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
			Op: "publish", Kind: compute.KindUnavailable, Field: "topic", Value: topic, Message: "Kafka does not let this node write to it",
			Remedy: "the operator has to allow it", Cause: err,
		}
	}
	return unanswered, &compute.Error{
		Op: "publish", Kind: compute.KindTimeout, Message: "it is not known whether the request was kept",
		Remedy: "look whether it was, or repeat it", Cause: err,
	}
}

// catchUp returns once everything that any node accepted before the call is
// in the views.
func (s *Server) catchUp(ctx context.Context) error {
	return s.catchUpWithin(ctx, s.config.SyncTimeout)
}

// tryKafka is catchUp for who does not believe in it.
func (s *Server) tryKafka(ctx context.Context) error { return s.catchUpWithin(ctx, trialTimeout) }

func (s *Server) catchUpWithin(caller context.Context, patience time.Duration) error {
	trial, err := s.reads.enter(time.Now())
	if err != nil {
		return err
	}
	came := unanswered
	defer func() { s.reads.leave(time.Now(), trial, came) }()
	if trial {
		patience = s.reads.patience()
	}
	ctx, cancel := context.WithTimeout(caller, patience)
	defer cancel()
	switch err = s.rounds.fresh(ctx); {
	case err == nil:
		came = answered
		return nil
	case caller.Err() != nil:
		came = abandoned
	}
	return &later{after: refusedFor, why: &compute.Error{
		Op: "catch up", Kind: compute.KindUnavailable, Message: "Kafka does not answer, so it is not known what other nodes accepted",
		Remedy: "try again in a moment; nothing was done", Cause: err,
	}}
}

// answersKafka refuses while Kafka does not answer, as far as is known or can
// be found out soon. It is not asked while all goes well.
func (s *Server) answersKafka(ctx context.Context) error {
	now := time.Now()
	_, writes := s.writes.state(now)
	_, reads := s.reads.state(now)
	if writes == 0 && reads == 0 {
		return nil
	}
	return s.tryKafka(ctx)
}
