// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/share"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// Cell is how a process reaches its cell: the brokers, the names, the log, the metrics.
type Cell struct {
	Kafka       kafka.Config
	Partitions  int32 // of requests, reports and instances
	replication int16 // of topics it makes; 0: the brokers' default
	Log         *zap.Logger
	metrics     prometheus.Registerer // where components register theirs; nil: nobody counts
	Tracer      *tracing.Tracer       // of boots, and the caller's to close after all parts; nil: nobody traces
	Gather      time.Duration         // how long beacons may be held back to come together
	// how long a host must have been silent before it may be declared dead; 0: compute.SilentAfter
	DeadAfter time.Duration
	Tokens    bool             // Prepare makes the topic of the tokens too, where this process may
	Audit     bool             // and that of the audit
	Reads     compute.Schema   // the newest schema its parts read, in tests of versions; 0: this one's
	Clock     Clocks           // shows another time than is right; nil: the machine's
	Waiting   func(why string) // hears what a part waits for before it can be made; nil: the log does
}

// Dialer opens connections to brokers; nil is plain TCP.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Listener opens what others connect to; nil is plain TCP.
type Listener func(ctx context.Context, network, address string) (net.Listener, error)

// Within is the listener for callers that have no context.
func (l Listener) Within(ctx context.Context) func(network, address string) (net.Listener, error) {
	if l == nil {
		return nil
	}
	return func(network, address string) (net.Listener, error) { return l(ctx, network, address) }
}

// New is a process named name, on TCP where dial is nil. Nobody counts until Measured.
func New(k KafkaSettings, dial Dialer, log *zap.Logger, name string) Cell {
	topics := wire.Topics{Prefix: k.Prefix}
	return Cell{
		Kafka: kafka.Config{
			Brokers: k.Brokers, ClientID: "berth-" + name, Topics: topics,
			Dial: dial, Log: log.Named(name), Outage: kafka.NewOutage(log.Named(name)), Known: kafka.NewKnown(),
			As: access.Identity{Topics: topics},
		},
		Partitions: k.Partitions, replication: k.Replication, Log: log.Named(name), Gather: defaultGather,
	}
}

// Measured is the cell with its metrics, and those of its Kafka clients, in r;
// nil: nobody counts.
func (c Cell) Measured(r prometheus.Registerer) Cell {
	c.metrics, c.Kafka.Metrics = r, kafka.NewMetrics(r)
	// What this process does not do is shown as 0, too.
	newCertificateMetrics(r)
	statusserver.RegisterMetrics(r)
	write.RegisterMetrics(r)
	audit.RegisterMetrics(r)
	share.RegisterMetrics(r)
	read.RegisterMetrics(r)
	loop.RegisterMetrics(r)
	return c
}

// Topics are the names of all that the cell has in Kafka.
func (c Cell) Topics() wire.Topics { return c.Kafka.Topics }

// Prepare waits for Kafka, refuses one that is too old, makes the cell's own
// topics where they are missing, and learns how many partitions there are.
func (c *Cell) Prepare(ctx context.Context) error {
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.WaitReachable(ctx); err != nil {
		return err
	}
	if err := admin.CheckVersion(ctx); err != nil {
		return err
	}
	if n := admin.Found(); n > 0 {
		c.Partitions = n
		return c.ensureOptional(ctx, admin)
	}
	if err := admin.EnsureTopics(ctx, c.Partitions, c.replication); err != nil {
		return c.noTopics(ctx, admin, err)
	}
	c.Partitions, err = admin.Partitions(ctx, c.Topics().Requests())
	if err != nil {
		return err
	}
	return c.ensureOptional(ctx, admin)
}

// noTopics says what helps a process that may make no topics in a cell that has not all of them yet: a queue manager,
// and not the right to make them.
func (c *Cell) noTopics(ctx context.Context, admin *kafkaadmin.Admin, err error) error {
	if compute.KindOf(err) != compute.KindForbidden {
		return err
	}
	if _, failed := admin.TopicIDs(ctx, c.Topics().Own()...); failed != nil {
		return err // it may not even look
	}
	return &compute.Error{
		Op: "look for the cell", Kind: compute.KindUnavailable, Field: "prefix", Value: c.Topics().Prefix,
		Message: "has not all of its topics yet, and this process may not make them",
		Remedy:  "start a queue manager of this version with the rights of its role: it makes them", Cause: err,
	}
}

// CountPartitions asks how many partitions a cell has that is there already.
func (c Cell) CountPartitions(ctx context.Context) (int32, error) {
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	n, err := admin.Partitions(ctx, c.Topics().Requests())
	if compute.KindOf(err) == compute.KindForbidden {
		return 0, err // it says which right is missing
	}
	if err != nil {
		return 0, &compute.Error{
			Op: "look for the cell", Kind: compute.KindOf(err), Field: "prefix", Value: c.Topics().Prefix,
			Message: "has no topics that can be asked for",
			Remedy:  "give the prefix of a cell; its first daemon makes the topics", Cause: err,
		}
	}
	return n, nil
}

// feed is how a component takes the records of one topic.
type feed func(recs Records, end bool)

// takes is what a reader is made of that feeds it.
func (to feed) takes(o read.Options) read.Options {
	o.Handle = func(b read.Batch) { to(b.Records, b.End) }
	return o
}

// Records is what a reader brings at once.
type Records = []wire.Record

// Table reads a whole topic into a component.
func (c Cell) Table(topic string, to feed) *read.Reader {
	return c.reader(read.Options{Topic: topic}, to)
}

// defaultGather is how long beacons may be held back to come together: nobody acts
// on them within less.
const defaultGather = 250 * time.Millisecond

// beacons reads what the hosts say of themselves.
func (c Cell) beacons(to feed) *read.Reader {
	return c.reader(read.Options{Topic: c.Topics().Hosts(), Gather: c.Gather}, to)
}

// Committed reads a whole topic, and of what others may write in transactions
// only what they commit.
func (c Cell) Committed(topic string, to feed) *read.Reader {
	return c.reader(read.Options{Topic: topic, Committed: true}, to)
}

func (c Cell) reader(o read.Options, to feed) *read.Reader {
	return read.NewReader(c.Kafka, to.takes(o))
}

// Producer makes a producer that the group closes.
func (c Cell) Producer(g *service.Group) (*write.Producer, error) {
	p, err := write.NewProducer(c.Kafka)
	if err != nil {
		return nil, err
	}
	g.Closes("producer", func() error { p.Close(); return nil })
	return p, nil
}

// admin makes an admin client that the group closes.
func (c Cell) admin(g *service.Group) (*kafkaadmin.Admin, error) {
	a, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return nil, err
	}
	g.Closes("admin", func() error { a.Close(); return nil })
	return a, nil
}

// unmade closes, after an error, what a group that will not run was given.
func unmade(g *service.Group, err *error) {
	if *err != nil {
		*err = errors.Join(*err, g.Close())
	}
}

// syncers brings several readers up to now.
type syncers []*read.Reader

// Sync asks all at once and answers when all are there.
func (s syncers) Sync(ctx context.Context) error {
	return s.each(func(r *read.Reader) error { return r.Sync(ctx) })
}

// SyncPartition is Sync of one partition of each of their topics.
func (s syncers) SyncPartition(ctx context.Context, p int32) error {
	return s.each(func(r *read.Reader) error { return r.SyncPartition(ctx, p) })
}

func (s syncers) each(sync func(*read.Reader) error) error {
	var all errgroup.Group
	for _, r := range s {
		all.Go(func() error { return sync(r) })
	}
	return all.Wait()
}
