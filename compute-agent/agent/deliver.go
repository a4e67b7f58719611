// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// parkAfter is how long the destinations of a batch are waited for together, so that what comes meanwhile goes in one
// request. Conductors wait as long for their partitions (decision 0041).
const parkAfter = 500 * time.Millisecond

// part is what a batch has for one destination.
type part struct {
	to     destination
	open   int // records not answered yet
	acked  []said
	failed []said
	unfit  []said // no broker will ever have these
	err    error  // why the last of failed did
}

type answer struct {
	i   int // in the batch
	err error
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	defer s.running.Wait()
	for ctx.Err() == nil {
		batch, late := s.batch()
		if late {
			s.acked(nil) // it was waited for
		}
		if len(batch) == 0 {
			select {
			case <-s.news:
			case <-ctx.Done():
			}
			continue
		}
		s.deliver(ctx, batch)
	}
}

// deliver sends a batch and waits for its answers, but not for long: a destination that is late keeps only itself busy.
func (s *sender) deliver(ctx context.Context, batch []said) {
	answers := make(chan answer, len(batch))
	s.running.Go(func() {
		s.reporter.SendEach(ctx, records(batch), func(i int, err error) { answers <- answer{i, err} })
	})
	parts := map[destination]*part{}
	for _, x := range batch {
		if parts[x.to] == nil {
			parts[x.to] = &part{to: x.to}
		}
		parts[x.to].open++
	}
	overdue := time.NewTimer(parkAfter)
	defer overdue.Stop()
	var over []*part
	for left := len(batch); left > 0; left-- {
		select {
		case a := <-answers:
			if p := parts[batch[a.i].to]; s.answered(p, batch[a.i], a.err) {
				over = append(over, p)
			}
		case <-overdue.C:
			for _, p := range parts {
				if p.open > 0 {
					s.park(p.to)
				}
			}
			s.running.Go(func() {
				for ; left > 0; left-- {
					a := <-answers
					if p := parts[batch[a.i].to]; s.answered(p, batch[a.i], a.err) {
						s.finish(ctx, p)
					}
				}
			})
			s.finish(ctx, over...)
			return
		}
	}
	s.finish(ctx, over...)
}

func records(list []said) []wire.Record {
	recs := make([]wire.Record, len(list))
	for i, x := range list {
		recs[i] = x.rec
	}
	return recs
}

// answered notes how a record fared, and says whether it was the last of its part.
func (s *sender) answered(p *part, x said, err error) (last bool) {
	switch {
	case err == nil:
		p.acked = append(p.acked, x)
	case compute.KindOf(err) == compute.KindInvalid: // it is left out, lest it hold up all that follows
		s.log.Error(
			"a record can never be sent; it is left out",
			zap.String("topic", x.rec.Topic), zap.Int("bytes", len(x.rec.Value)), zap.Error(err),
		)
		p.unfit = append(p.unfit, x)
	default:
		p.failed, p.err = append(p.failed, x), err
	}
	p.open--
	return p.open == 0
}

// finish tells what was acknowledged, of all these parts at once, and has the rest sent again.
func (s *sender) finish(ctx context.Context, parts ...*part) {
	s.land(parts...)
	for _, p := range parts {
		if len(p.failed) == 0 {
			s.free(p.to)
			continue
		}
		s.park(p.to)
		s.running.Go(func() { s.repeat(ctx, p) })
	}
}

// land settles what Kafka has, or will never take, and tells what it has.
func (s *sender) land(parts ...*part) {
	var acked []said
	for _, p := range parts {
		s.settle(p.unfit)
		acked = append(acked, p.acked...)
	}
	if len(acked) > 0 {
		s.settle(acked) // first: what the next line wakes reads it
		s.acked(acked)
	}
}

// repeat sends again what a destination did not acknowledge, until it has all of it that is not too late. After a
// failure nobody knows whether a record is there; sending it again does no harm.
func (s *sender) repeat(ctx context.Context, p *part) {
	for pause := s.retry; len(p.failed) > 0; pause = min(2*pause, 30*s.retry) {
		wait := service.Jitter(pause)
		s.tell(p, wait)
		if !service.Sleep(ctx, wait) {
			return
		}
		list, late := timely(p.failed, time.Now())
		p = &part{to: p.to, open: len(list), unfit: late}
		s.reporter.SendEach(ctx, records(list), func(i int, err error) { s.answered(p, list[i], err) })
		s.land(p)
	}
	s.free(p.to)
}

// tell says why a part is sent again. That brokers cannot be reached is logged by the outage reporter, once for the
// whole process.
func (s *sender) tell(p *part, in time.Duration) {
	log := s.log.Warn
	if kind := compute.KindOf(p.err); kind == compute.KindUnavailable || kind == compute.KindTimeout {
		log = s.log.Debug
	}
	log(
		"reports are not acknowledged; sending them again", zap.String("topic", p.to.topic),
		zap.Int32("partition", p.to.partition), zap.Int("reports", len(p.failed)), zap.Duration("in", in),
		zap.Error(p.err),
	)
}
