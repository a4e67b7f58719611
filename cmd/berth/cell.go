package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// cell is how a process reaches its cell: the brokers, the names, the log, the metrics.
type cell struct {
	kafka       kafka.Config
	partitions  int32 // of requests, reports and instances
	replication int16 // of topics it makes; 0: the brokers' default
	log         *zap.Logger
	metrics     prometheus.Registerer // where components register theirs; nil: nobody counts
	gather      time.Duration         // how long beacons may be held back to come together
	deadAfter   time.Duration         // how long a host must have been silent before it may be declared dead; 0: compute.SilentAfter
	reads       compute.Schema        // the newest schema its parts read, in tests of versions; 0: this one's
	clock       clocks                // shows another time than is right; nil: the machine's
	waiting     func(why string)      // hears what a part waits for before it can be made; nil: the log does
}

// dialer opens connections to brokers; nil is plain TCP.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// listener opens what others connect to; nil is plain TCP.
type listener func(ctx context.Context, network, address string) (net.Listener, error)

// within is the listener for who knows no context.
func (l listener) within(ctx context.Context) func(network, address string) (net.Listener, error) {
	if l == nil {
		return nil
	}
	return func(network, address string) (net.Listener, error) { return l(ctx, network, address) }
}

func newCell(k kafkaConfig, dial dialer, log *zap.Logger, name string) cell {
	return cell{
		kafka: kafka.Config{
			Brokers: k.Brokers, ClientID: "berth-" + name, Topics: wire.Topics{Prefix: k.Prefix},
			Dial: dial, Log: log.Named(name), Outage: kafka.NewOutage(log.Named(name)), Known: kafka.NewKnown(),
		},
		partitions: k.Partitions, replication: k.Replication, log: log.Named(name), gather: defaultGather,
	}
}

// measured is the cell with its metrics, and those of its Kafka clients, in r;
// nil: nobody counts.
func (c cell) measured(r prometheus.Registerer) cell {
	c.metrics, c.kafka.Metrics = r, kafka.NewMetrics(r)
	return c
}

func (c cell) topics() wire.Topics { return c.kafka.Topics }

// prepare waits for Kafka, refuses one that is too old, makes the cell's own
// topics where they are missing, and learns how many partitions there are.
func (c *cell) prepare(ctx context.Context) error {
	admin, err := kafka.NewAdmin(c.kafka)
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
		c.partitions = n
		return nil
	}
	if err := admin.EnsureTopics(ctx, c.partitions, c.replication); err != nil {
		return err
	}
	c.partitions, err = admin.Partitions(ctx, c.topics().Requests())
	return err
}

// count asks how many partitions a cell has that is there already.
func (c cell) count(ctx context.Context) (int32, error) {
	admin, err := kafka.NewAdmin(c.kafka)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	n, err := admin.Partitions(ctx, c.topics().Requests())
	if err != nil {
		return 0, &compute.Error{
			Op: "look for the cell", Kind: compute.KindOf(err), Field: "prefix", Value: c.topics().Prefix, Message: "has no topics that can be asked for",
			Remedy: "give the prefix of a cell; its first daemon makes the topics", Cause: err,
		}
	}
	return n, nil
}

// feed is how a component takes the records of one topic.
type feed func(recs records, end bool)

// takes is what a reader is made of that feeds it.
func (to feed) takes(o kafka.ReaderOptions) kafka.ReaderOptions {
	o.Handle = func(b kafka.Batch) { to(b.Records, b.End) }
	return o
}

// records is what a reader brings at once.
type records = []wire.Record

// table reads a whole topic into a component.
func (c cell) table(topic string, to feed) *kafka.Reader {
	return c.reader(kafka.ReaderOptions{Topic: topic}, to)
}

// defaultGather is how long beacons may be held back to come together: nobody acts
// on them within less.
const defaultGather = 250 * time.Millisecond

// beacons reads what the hosts say of themselves.
func (c cell) beacons(to feed) *kafka.Reader {
	return c.reader(kafka.ReaderOptions{Topic: c.topics().Hosts(), Gather: c.gather}, to)
}

// committed reads a whole topic, and of what others may write in transactions
// only what they commit.
func (c cell) committed(topic string, to feed) *kafka.Reader {
	return c.reader(kafka.ReaderOptions{Topic: topic, Committed: true}, to)
}

func (c cell) reader(o kafka.ReaderOptions, to feed) *kafka.Reader {
	return kafka.NewReader(c.kafka, to.takes(o))
}

// producer makes a producer that the group closes.
func (c cell) producer(g *service.Group) (*kafka.Producer, error) {
	p, err := kafka.NewProducer(c.kafka)
	if err != nil {
		return nil, err
	}
	g.Closes("producer", func() error { p.Close(); return nil })
	return p, nil
}

// admin makes an admin client that the group closes.
func (c cell) admin(g *service.Group) (*kafka.Admin, error) {
	a, err := kafka.NewAdmin(c.kafka)
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
type syncers []*kafka.Reader

// Sync asks all at once and answers when all are there.
func (s syncers) Sync(ctx context.Context) error {
	var all errgroup.Group
	for _, r := range s {
		all.Go(func() error { return r.Sync(ctx) })
	}
	return all.Wait()
}
