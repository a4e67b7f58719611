// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// Options say how a loop runs. Only Group must be set.
type Options struct {
	// Group is the consumer group that shares the partitions out.
	Group string
	// Name is written down in takeovers, for people. It may be empty.
	Name string
	// TurnRecords is the most inputs of one turn. 0: DefaultTurnRecords.
	TurnRecords int
	// TurnBytes is the most a turn may write to a partition: a turn with more is
	// undone and tried with fewer inputs. It must not be above max.message.bytes
	// of instances. 0: DefaultTurnBytes.
	TurnBytes int
	// Patience is how long a report may wait for others to be decided in the same
	// turn: writing a turn costs the brokers far more than a record in it. nil: no
	// report waits. Requests never do.
	Patience func(report wire.Record) time.Duration
	// TurnTimeout is how long writing a turn is tried; then it is undone.
	// 0: DefaultTurnTimeout.
	TurnTimeout time.Duration
	// ParkAfter is how long all partitions wait until a turn is written. One that
	// is not by then goes on waiting alone. 0: DefaultParkAfter.
	ParkAfter time.Duration
	// SessionTimeout is how long a process may be silent before others take
	// its partitions. 0: DefaultSessionTimeout.
	SessionTimeout time.Duration
	// Heartbeat is how often the group is asked for news, and so how long all
	// partitions may stand still when a process comes or goes. 0: DefaultHeartbeat.
	Heartbeat time.Duration
	// TimerGap is the least time between two questions for the ends of the
	// inputs, without which no timer fires. 0: DefaultTimerGap.
	TimerGap time.Duration
	// CommitEvery is how long positions and cursors that no change carried may
	// wait to be committed. 0: DefaultCommitEvery.
	CommitEvery time.Duration
	// IdleCommit is how often positions are committed that have not moved, so
	// that the group does not forget them. 0: DefaultIdleCommit.
	IdleCommit time.Duration
	// RenewEvery is how often a producer epoch is raised, lest Kafka forgets which writers to refuse. It must be well
	// below the brokers' producer.id.expiration.ms and transactional.id.expiration.ms. 0: DefaultRenewEvery.
	RenewEvery time.Duration
	// MaxUnsent is how many effects may wait to be acknowledged before no inputs are taken
	// any more of partitions that have more than their share of them. 0: DefaultMaxUnsent.
	MaxUnsent int
	// StopTimeout is how long the last turn, its effects and the leaving of the
	// group may take at the end. 0: DefaultStopTimeout.
	StopTimeout time.Duration
	// Reads is the newest schema of records that the handler reads, which the
	// group is told. 0: wire.Schema.
	Reads compute.Schema
	// Agreed, if set, is told the newest schema that all members of the group read,
	// and so the newest that the handler may write: in the goroutine that calls the
	// handler, before anything is decided in a generation of the group.
	Agreed func(compute.Schema)
	// SetAside, if set, is told all partitions of this process that are set aside,
	// whenever they may have changed. It must not block.
	SetAside func([]Aside)
}

// The defaults of LoopOptions.
const (
	DefaultTurnRecords    = 2000
	DefaultTurnBytes      = kafka.MaxTurnBytes
	DefaultTurnTimeout    = 20 * time.Second
	DefaultParkAfter      = 500 * time.Millisecond
	DefaultSessionTimeout = 10 * time.Second
	DefaultHeartbeat      = 500 * time.Millisecond
	DefaultTimerGap       = 50 * time.Millisecond
	DefaultCommitEvery    = time.Second
	DefaultIdleCommit     = 24 * time.Hour
	DefaultRenewEvery     = 8 * time.Hour
	DefaultMaxUnsent      = 20_000
	DefaultStopTimeout    = 5 * time.Second
)

func (o Options) withDefaults() Options {
	orDefault(&o.TurnRecords, DefaultTurnRecords)
	orDefault(&o.TurnBytes, DefaultTurnBytes)
	orDefault(&o.TurnTimeout, DefaultTurnTimeout)
	orDefault(&o.ParkAfter, DefaultParkAfter)
	orDefault(&o.SessionTimeout, DefaultSessionTimeout)
	orDefault(&o.Heartbeat, DefaultHeartbeat)
	orDefault(&o.TimerGap, DefaultTimerGap)
	orDefault(&o.CommitEvery, DefaultCommitEvery)
	orDefault(&o.IdleCommit, DefaultIdleCommit)
	orDefault(&o.RenewEvery, DefaultRenewEvery)
	orDefault(&o.MaxUnsent, DefaultMaxUnsent)
	orDefault(&o.StopTimeout, DefaultStopTimeout)
	orDefault(&o.Reads, wire.Schema)
	return o
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Loop runs a wire.Handler over the partitions of requests and reports that a consumer group gives to this process:
// what the handler decides about a partition is in instances exactly once, in order, whichever processes owned it. It
// is a service.Part.
//
// One goroutine calls the handler. A turn is one fetch of whatever all owned
// partitions have, one call of the handler and, if it changes something, one
// batch for each partition that changes: the changes to instances together with
// the positions of the inputs, under a producer epoch that only the owner has. Effects are
// published after that.
type Loop struct {
	cfg     kafka.Config
	opts    Options
	handler wire.Handler
	ready   chan struct{}
	once    sync.Once     // of closing ready
	wake    chan struct{} // holds one: a turn is wanted
	outage  *kafka.OutageReporter
	metrics *loopMetrics
}

// New makes a loop; Run starts it.
func New(cfg kafka.Config, opts Options, h wire.Handler) *Loop {
	cfg = cfg.WithDefaults()
	return &Loop{
		cfg: cfg, opts: opts.withDefaults(), handler: h, outage: cfg.OutageReporter("read requests and reports"),
		metrics: newMetrics(cfg.Metrics.Registerer()),
		ready:   make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// Ready is closed once this process has been given its first partitions and
// has restored them all. There may be none: others own them.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// Wake asks for a turn soon, even if there is no input. It never blocks;
// several calls may make one turn.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run runs the handler until ctx ends; then it finishes the turn, commits,
// leaves the group so that others take over at once, and returns nil. It ends
// by itself only for what trying again cannot cure: Kafka does not allow it, or
// the topics are not what they must be.
func (l *Loop) Run(ctx context.Context) error {
	hard, cancel := outlive(ctx, l.opts.StopTimeout)
	defer cancel()
	producer, err := write.NewProducer(l.cfg)
	if err != nil {
		return err
	}
	defer producer.Close()
	defer l.outage.Fine()
	out := newOutbox(producer, l.metrics)
	for fails := 1; ; fails++ {
		err := l.session(ctx, hard, out)
		if ctx.Err() != nil {
			return nil
		}
		if ends(err) {
			return l.cfg.Classify("decide", err)
		}
		l.metrics.beganAnew()
		if pace.Telling(fails) {
			l.cfg.Log.Warn(
				"the loop starts anew", zap.String("group", l.opts.Group), zap.Int("time", fails), zap.Error(err),
			)
		}
		if pace.Sleep(ctx, pace.Backoff(fails)) != nil {
			return nil
		}
	}
}

// outlive is a context that ends a while after ctx does: for what must be
// finished once it has begun.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = pace.Sleep(hard, d)
		cancel()
	})
	return hard, func() { stop(); cancel() }
}

// ends says whether an error ends the loop: only what somebody must put right.
func ends(err error) bool {
	var ours *compute.Error
	if errors.As(err, &ours) {
		return kafka.IsFatal(err)
	}
	return kafka.IsForbidden(err)
}

// session runs the handler as one member of the group, until ctx ends or the
// membership is of no more use.
func (l *Loop) session(ctx, hard context.Context, out *outbox) error {
	r, err := l.prepare(ctx, out)
	if err != nil {
		return err
	}
	r.hard = hard
	defer l.metrics.show(&r.gauges)()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.ctx = work
	defer r.close(cancel)
	names := [inputTopics]string{r.topics[requests].name, r.topics[reports].name}
	if r.group, err = join(l.cfg, l.opts, names); err != nil {
		return err
	}
	if err := r.work(ctx.Done()); err != nil {
		return err
	}
	r.wrapUp()
	return nil
}

// prepare waits for the topics and finds out where they are.
func (l *Loop) prepare(ctx context.Context, out *outbox) (*loopRun, error) {
	// Nothing is retried by the client: the callers ask again themselves.
	ask, err := kafka.NewClient(l.cfg, kgo.RequestRetries(0))
	if err != nil {
		return nil, err
	}
	names := [inputTopics]string{l.cfg.Topics.Requests(), l.cfg.Topics.Reports()}
	var sources [inputTopics]*fetch.Source
	var topics [inputTopics]inputTopic
	for i, name := range names {
		sources[i] = &fetch.Source{Client: ask, Topic: name, Log: l.cfg.Log, Outage: l.outage}
		if err := sources[i].Open(ctx); err != nil {
			ask.Close()
			return nil, err
		}
		topics[i] = inputTopic{name, sources[i].Current().Id}
	}
	instances := &fetch.Source{Client: ask, Topic: l.cfg.Topics.Instances(), Log: l.cfg.Log, Outage: l.outage}
	if err := instances.Open(ctx); err != nil {
		ask.Close()
		return nil, err
	}
	for _, s := range sources {
		if have, want := len(s.Current().Leaders), len(instances.Current().Leaders); have != want {
			ask.Close()
			return nil, compute.Conflict(
				"topic", s.Topic, fmt.Sprintf("has %d partitions, %s has %d", have, instances.Topic, want),
				"give them the same number",
			)
		}
	}
	return newLoopRun(l, ask, sources, topics, instances, out), nil
}
