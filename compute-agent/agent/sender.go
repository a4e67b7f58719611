// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// sender says things until Kafka has them, in the order they were put. What
// waits to be said again anyway is not said twice.
type sender struct {
	reporter Reporter
	log      *zap.Logger
	retry    time.Duration
	acked    func([]said) // called from the sender's goroutine

	mu      sync.Mutex
	waiting []said
	at      map[saidKey]int // places in waiting
	total   int             // how many were ever put
	done    int             // how many of these are settled
	news    chan struct{}
}

// said is a record to send; Key is zero for one that nothing replaces.
type said struct {
	key    saidKey
	report *compute.Report
	beacon bool
	rec    wire.Record
}

type saidKey struct {
	op       compute.ReportOp
	instance compute.InstanceID
	attempt  compute.Attempt
	claim    compute.ClaimID
	version  compute.Version
	command  compute.CommandID
}

func newSender(o Options, acked func([]said)) *sender {
	return &sender{
		reporter: o.Reporter, log: o.Log, retry: o.Timing.Retry, acked: acked,
		at: map[saidKey]int{}, news: make(chan struct{}, 1),
	}
}

// say queues records.
func (s *sender) say(list ...said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range list {
		s.queue(x)
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// queue is called with the lock held.
func (s *sender) queue(x said) {
	if x.report != nil {
		r := x.report
		x.key = saidKey{r.Op, r.Instance, r.Attempt, r.Claim, r.Version, r.Command}
		if i, ok := s.at[x.key]; ok {
			s.waiting[i] = x
			return
		}
		s.at[x.key] = len(s.waiting)
	}
	s.waiting = append(s.waiting, x)
	s.total++
}

// progress is how many records were put, and how many of them are settled.
func (s *sender) progress() (put, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.done
}

// mostAtOnce bounds one Send.
const mostAtOnce = 500

// batch takes the oldest ones out: from now on they are on their way. Of what is
// sent at once a part may come late, when brokers refuse something; so what was said
// last of an instance waits until all before it has come.
func (s *sender) batch() []said {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, about := 0, map[compute.InstanceID]bool{}
	for n < min(len(s.waiting), mostAtOnce) {
		if r := s.waiting[n].report; r != nil {
			if about[r.Instance] {
				break
			}
			about[r.Instance] = true
		}
		n++
	}
	out := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	clear(s.at)
	for i, x := range s.waiting {
		if x.report != nil {
			s.at[x.key] = i
		}
	}
	return out
}

func (s *sender) settled(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += n
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		batch := s.batch()
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

// deliver sends a batch until it is acknowledged. After a Send that failed nobody knows whether the batch is there;
// sending it again does no harm.
func (s *sender) deliver(ctx context.Context, batch []said) {
	recs := make([]wire.Record, len(batch))
	for i, x := range batch {
		recs[i] = x.rec
	}
	pause := s.retry
	for {
		err := s.reporter.Send(ctx, recs...)
		if err == nil {
			s.settled(len(batch)) // first: what the next line wakes reads it
			s.acked(batch)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if compute.KindOf(err) == compute.KindInvalid {
			s.oneByOne(ctx, batch, err)
			return
		}
		wait := service.Jitter(pause)
		s.tell(batch, wait, err)
		if !service.Sleep(ctx, wait) {
			return
		}
		pause = min(2*pause, 30*s.retry)
	}
}

// tell says why a batch is sent again. That brokers cannot be reached is logged by the outage reporter, once for the
// whole process.
func (s *sender) tell(batch []said, in time.Duration, err error) {
	log := s.log.Warn
	if kind := compute.KindOf(err); kind == compute.KindUnavailable || kind == compute.KindTimeout {
		log = s.log.Debug
	}
	log(
		"reports are not acknowledged; sending them again",
		zap.Int("reports", len(batch)), zap.Duration("in", in), zap.Error(err),
	)
}

// oneByOne is about a batch of which no broker will ever take something as it
// is. What is refused alone too is left out, lest it hold up all that follows.
func (s *sender) oneByOne(ctx context.Context, batch []said, err error) {
	if len(batch) > 1 {
		for i := range batch {
			s.deliver(ctx, batch[i:i+1])
		}
		return
	}
	rec := batch[0].rec
	s.log.Error(
		"a record can never be sent; it is left out",
		zap.String("topic", rec.Topic), zap.Int("bytes", len(rec.Value)), zap.Error(err),
	)
	s.settled(1)
}
