// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
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
	return s.withBreaker(ctx, place{topic: rec.Topic, partition: rec.Partition}, func(ctx context.Context) error {
		return s.config.Publisher.Send(ctx, rec)
	})
}

// withBreaker writes to a place, if the breaker lets it in.
func (s *Server) withBreaker(ctx context.Context, at place, write func(context.Context) error) error {
	in, err := s.writes.enter(time.Now(), at)
	if err != nil {
		return err
	}
	came := unanswered
	defer func() { s.writes.leave(time.Now(), in, came) }()
	ctx = context.WithoutCancel(ctx)
	if in.probe {
		if in, came, err = s.probe(ctx, in); err != nil {
			return err
		}
		came = unanswered
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.PublishTimeout)
	defer cancel()
	began := time.Now()
	came, err = publishOutcome(at.topic, write(ctx))
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
func (s *Server) probe(ctx context.Context, in pass) (pass, outcome, error) {
	ctx, of := context.WithoutCancel(ctx), in.at.partition
	elsewhere := in.at.topic != s.config.Topics.Requests() // readers do not catch up with it
	if elsewhere {
		of = s.anyPartition(everyPartition)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var others sync.WaitGroup
	if _, silent, _ := s.writes.state(time.Now()); silent != 0 && in.own != nil {
		others.Go(func() { s.probeOthers(asking) })
	}
	came, err := s.sync(ctx, of, s.writes.probeTimeout(in))
	if came == answered {
		stop()
	}
	others.Wait()
	switch {
	case came == answered:
		s.reads.answers(time.Now(), place{partition: of})
		if elsewhere {
			in = s.writes.goElsewhere(time.Now(), in)
		}
	case elsewhere:
		in.elsewhere = true
	}
	return in, came, err
}

// probeOthers finds out whether others than a place that did not answer do, where this node does not know.
func (s *Server) probeOthers(ctx context.Context) {
	of := s.anyPartition(everyPartition)
	if came, _ := s.sync(ctx, of, firstProbeTimeout); came == answered {
		s.writes.nodeAnswers(time.Now())
		s.reads.answers(time.Now(), place{partition: of})
	}
}

// anyPartition is one of which nothing bad is known, and another than one, if there is one.
func (s *Server) anyPartition(but int32) int32 {
	all := s.config.Partitions
	first := rand.Int32N(all) // #nosec G404 -- any will do
	for i := range all {
		p := (first + i) % all
		if p != but && !s.writes.knowsSilent(place{topic: s.config.Topics.Requests(), partition: p}) &&
			!s.reads.knowsSilent(place{partition: p}) {
			return p
		}
	}
	return first
}

// catchUp returns once everything that any node accepted for a project before the call, or for every one, is in the
// views.
func (s *Server) catchUp(ctx context.Context, p compute.Project) error {
	if p == allProjects {
		return s.catchUpTo(ctx, everyPartition)
	}
	return s.catchUpTo(ctx, wire.Partition(p, s.config.Partitions))
}

// catchUpOnce is catchUp that does it once for each project.
func (s *Server) catchUpOnce(ctx context.Context) func(compute.Project) error {
	done := map[compute.Project]error{}
	return func(p compute.Project) error {
		err, known := done[p]
		if !known {
			err = s.catchUp(ctx, p)
			done[p] = err
		}
		return err
	}
}

// catchUpTo is catchUp of a partition, or of every one. A probe goes on even if its caller hangs up: a caller that
// always hangs up early, as a health check may, would otherwise never find out.
func (s *Server) catchUpTo(ctx context.Context, p int32) error {
	return s.catchUpAt(ctx, place{partition: p}, s.syncs.of(p))
}

// catchUpCatalog returns once all of the catalog that any node had before the call is in this one's.
func (s *Server) catchUpCatalog(ctx context.Context) error {
	if s.config.Offered == nil {
		return nil
	}
	return s.catchUpAt(ctx, place{topic: s.config.Topics.Catalog(), partition: everyPartition, apart: true}, s.catalogSync)
}

func (s *Server) catchUpAt(ctx context.Context, at place, r sharedSync) error {
	in, err := s.reads.enter(time.Now(), at)
	if err != nil {
		return err
	}
	came, timeout := unanswered, s.config.SyncTimeout
	defer func() { s.reads.leave(time.Now(), in, came) }()
	if in.probe {
		ctx, timeout = context.WithoutCancel(ctx), s.reads.probeTimeout(in)
	}
	came, err = r.within(ctx, timeout)
	return err
}

// sync catches up with a partition, or with every one, and says what came of it.
func (s *Server) sync(caller context.Context, p int32, timeout time.Duration) (outcome, error) {
	return s.syncs.of(p).within(caller, timeout)
}

// within is sync for so long at most, and says what came of it.
func (r sharedSync) within(caller context.Context, timeout time.Duration) (outcome, error) {
	ctx, cancel := context.WithTimeout(caller, timeout)
	defer cancel()
	err := r.sync(ctx)
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

// askAfter is after how long without an answer of Kafka a node that is asked whether it is ready finds out.
const askAfter = 5 * time.Second

// checkKafka refuses while no part of Kafka answers, as far as is known or can be found out. It is not asked while all
// goes well and something was answered a moment ago: a node to which nobody sends would never learn that it is cut off.
func (s *Server) checkKafka(ctx context.Context) error {
	now := time.Now()
	_, writes, _ := s.writes.state(now)
	_, reads, _ := s.reads.state(now)
	of := s.anyPartition(everyPartition)
	if writes == 0 && reads == 0 {
		if s.writes.answeredSince(now.Add(-askAfter)) || s.reads.answeredSince(now.Add(-askAfter)) {
			return nil
		}
		// A caller that hangs up early does not end it, as with a probe (catchUpTo).
		ctx = context.WithoutCancel(ctx)
		if came, _ := s.sync(ctx, of, firstProbeTimeout); came == answered {
			s.reads.answers(time.Now(), place{partition: of})
			return nil
		}
		of = s.anyPartition(of) // the node does not go by one partition, which may be silent by itself
	}
	return s.catchUpTo(ctx, of)
}

// sharedSync lets many readers share few Syncs. A reader needs a Sync that began
// after the reader came: one that was already under way may have asked for the
// ends before the record the reader looks for was written.
type sharedSync struct {
	run   func(context.Context) error
	token chan struct{} // holds one token: its holder runs a Sync
	begun *atomic.Uint64
	done  *uint64 // the newest Sync that succeeded; owned by the token's holder
}

func newSharedSync(run func(context.Context) error) sharedSync {
	r := sharedSync{run: run, token: make(chan struct{}, 1), begun: new(atomic.Uint64), done: new(uint64)}
	r.token <- struct{}{}
	return r
}

// sharedSyncs are those of every partition by itself, and that of all.
type sharedSyncs struct {
	all  sharedSync
	each []sharedSync
}

func newSharedSyncs(s PartitionSyncer, partitions int32) sharedSyncs {
	r := sharedSyncs{all: newSharedSync(s.Sync)}
	for p := range partitions {
		r.each = append(r.each, newSharedSync(func(ctx context.Context) error { return s.SyncPartition(ctx, p) }))
	}
	return r
}

func (r sharedSyncs) of(p int32) sharedSync {
	if p == everyPartition {
		return r.all
	}
	return r.each[p]
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
	if err := r.run(ctx); err != nil {
		return err
	}
	*r.done = round
	return nil
}
