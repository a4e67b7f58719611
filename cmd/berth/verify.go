package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/verify"
	"github.com/berth-project/berth/pkg/wire"
)

// errUnsound is the answer of a comparison that has said what differs.
var errUnsound = errors.New("something differs that should not: see above")

func newVerify() *cobra.Command {
	var at kafkaFlags
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify [--kafka HOST:PORT,… | --config FILE] [--repair]",
		Short: "Compare the log with the hosts and the quotas, and explain every difference",
		Long: `Read every instance, every host's last beacon, the queues and the quotas from Kafka, and say
where they contradict each other. What rests on a host's word is looked at twice, with a
beacon in between, so that a machine that just comes or goes is no difference.

Without --repair it changes nothing. With it, every host whose word differs from the log is asked
about each machine that the log has there: what it does not know any more ends as HostLost, or is
built again if it never ran, and quota and room are right again. Nothing is destroyed by it.

FAIL: something does not hold that always should, or nothing will put it right by itself.
warn: it explains itself, or passes. It exits with 1 if anything fails.`,
		Example: "  berth verify --config api.yaml\n  berth verify --kafka k1:9092 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := parseFormat(cmd.Flag("output").Value.String())
			if err != nil {
				return err
			}
			c, err := at.cell(cmd, "verify")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), at.patience)
			defer cancel()
			if err := c.reach(ctx); err != nil {
				return compute.Unavailable("reach Kafka at "+strings.Join(c.kafka.Brokers, ", "), err)
			}
			if c.partitions, err = c.count(ctx); err != nil {
				return err
			}
			tally, found, err := c.verify(ctx)
			if err != nil {
				return err
			}
			var asked []compute.HostID
			if repair {
				if asked, err = c.confirm(ctx, found); err != nil {
					return err
				}
			}
			return printVerify(cmd.OutOrStdout(), f, tally, found, asked)
		},
	}
	at.add(cmd, 5*time.Minute)
	cmd.Flags().BoolVar(&repair, "repair", false, "have the hosts that differ asked about each of their machines")
	return cmd
}

// kafkaFlags say to a command that reads Kafka itself which cell to look at.
type kafkaFlags struct {
	file, prefix string
	brokers      []string
	patience     time.Duration
}

func (k *kafkaFlags) add(cmd *cobra.Command, patience time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&k.file, "config", "", "file of any daemon of the cell; its kafka section counts")
	flags.StringSliceVar(&k.brokers, "kafka", nil, "brokers, over the file ($"+config.Variable("kafka.brokers")+")")
	flags.StringVar(&k.prefix, "prefix", wire.DefaultPrefix, "prefix of the cell's topics, over the file ($"+config.Variable("kafka.prefix")+")")
	flags.DurationVar(&k.patience, "timeout", patience, "how long to look")
}

// cell is the cell that the flags name.
func (k *kafkaFlags) cell(cmd *cobra.Command, name string) (cell, error) {
	from := daemonFlags{file: k.file}.from()
	from.Part = true
	if len(k.brokers) > 0 {
		from.Set = append(from.Set, "kafka.brokers="+strings.Join(k.brokers, ","))
	}
	if cmd.Flags().Changed("prefix") {
		from.Set = append(from.Set, "kafka.prefix="+k.prefix)
	}
	settings := kafkaSection{Kafka: defaultKafka()}
	loaded := config.Load(&settings, from)
	if err := loaded.Err(settings.Kafka.check()); err != nil {
		return cell{}, err
	}
	return newCell(settings.Kafka, nil, zap.NewNop(), name).secured(settings.Kafka)
}

// kafkaSection is the part of any daemon's file that such a command needs.
type kafkaSection struct {
	Kafka kafkaConfig `yaml:"kafka"`
}

// verify compares what the cell's topics say.
func (c cell) verify(ctx context.Context) (tally verify.Tally, found []verify.Difference, err error) {
	b := newBooks(c.topics())
	readers := syncers{c.committed(b.topics.Instances(), b.instances.take), c.table(b.topics.Hosts(), b.hosts.take), c.table(b.topics.Queues(), b.queues.take), c.table(b.topics.Catalog(), b.catalog.take)}
	var parts []service.Part
	for _, r := range readers {
		parts = append(parts, r)
	}
	err = service.During(ctx, service.Together(parts...), func(ctx context.Context) error {
		tally, found = verify.Compare(b.facts(c.partitions, time.Now()))
		if !slices.ContainsFunc(found, restsOnHost) {
			return nil
		}
		// Both sides move: a host is asked for nothing here, so it is waited for.
		if err := b.awaitBeacons(ctx, found, time.Now()); err != nil {
			return err
		}
		if err := readers.Sync(ctx); err != nil {
			return err
		}
		first := found
		tally, found = verify.Compare(b.facts(c.partitions, time.Now()))
		found = slices.DeleteFunc(found, func(d verify.Difference) bool { return restsOnHost(d) && !foundBefore(first, d) })
		return nil
	})
	if err == nil && ctx.Err() != nil {
		err = compute.Unavailable("read the cell's topics", ctx.Err())
	}
	return tally, found, err
}

// confirm has the hosts that differences rest on asked about what they have.
func (c cell) confirm(ctx context.Context, found []verify.Difference) (asked []compute.HostID, err error) {
	producer, err := kafka.NewProducer(c.kafka)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for _, d := range found {
		if d.Level != verify.Fail || !restsOnHost(d) || slices.Contains(asked, d.Host) {
			continue
		}
		rec := wire.EncodeRequest(compute.Request{Op: compute.OpConfirm, Host: d.Host, At: time.Now()})
		var everywhere []wire.Record
		for p := range c.partitions {
			everywhere = append(everywhere, rec.To(c.topics().Requests(), p))
		}
		if err := producer.Send(ctx, everywhere...); err != nil {
			return asked, fmt.Errorf("have host %s asked: %w", d.Host, err)
		}
		asked = append(asked, d.Host)
	}
	return asked, nil
}

func restsOnHost(d verify.Difference) bool { return d.Host != "" }

// foundBefore says whether the same was found at the first look.
func foundBefore(first []verify.Difference, d verify.Difference) bool {
	return slices.ContainsFunc(first, func(e verify.Difference) bool { return e.About == d.About && e.Why == d.Why })
}

// book is what a compacted topic says now. Its reader writes it, others read.
type book struct {
	mu   sync.Mutex
	recs map[string]wire.Record
	news chan struct{} // holds one: something came
}

func (b *book) take(recs records, _ bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keepLast(b.recs, recs)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *book) all() []wire.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []wire.Record
	for _, r := range b.recs {
		out = append(out, r)
	}
	return out
}

// books are all that is compared.
type books struct {
	topics                            wire.Topics
	instances, hosts, queues, catalog *book
}

func newBooks(t wire.Topics) *books {
	made := func() *book { return &book{recs: map[string]wire.Record{}, news: make(chan struct{}, 1)} }
	return &books{topics: t, instances: made(), hosts: made(), queues: made(), catalog: made()}
}

func (b *books) facts(partitions int32, now time.Time) verify.Facts {
	f := verify.Facts{Now: now, Home: func(p compute.Project) int32 { return wire.Partition(p, partitions) }, Beacons: b.beacons()}
	for _, r := range b.instances.all() {
		inst, err := wire.DecodeInstance(r)
		f.Records = append(f.Records, verify.Record{Partition: r.Partition, Key: string(r.Key), Instance: inst, Err: err})
	}
	for _, r := range b.queues.all() {
		if q, err := wire.DecodeQueue(r); err == nil {
			f.Queues = append(f.Queues, q)
		}
	}
	for _, r := range b.catalog.all() {
		if e, err := wire.DecodeCatalog(r); err == nil && e.Quota != nil {
			f.Quotas = append(f.Quotas, *e.Quota)
		}
	}
	return f
}

func (b *books) beacons() []compute.Beacon {
	var out []compute.Beacon
	for _, r := range b.hosts.all() {
		if beacon, err := wire.DecodeBeacon(r); err == nil {
			out = append(out, beacon)
		}
	}
	return out
}

// beaconPatience is how long a host's next word is waited for: it comes every
// 15 s from one that is well.
const beaconPatience = 40 * time.Second

// awaitBeacons waits until every host that a difference rests on has spoken
// again. One that does not is silent soon, and shows as that.
func (b *books) awaitBeacons(ctx context.Context, found []verify.Difference, since time.Time) error {
	enough := time.NewTimer(beaconPatience)
	defer enough.Stop()
	for {
		spoken := map[compute.HostID]bool{}
		for _, beacon := range b.beacons() {
			spoken[beacon.Host] = beacon.At.After(since)
		}
		if !slices.ContainsFunc(found, func(d verify.Difference) bool { return restsOnHost(d) && !spoken[d.Host] }) {
			return nil
		}
		select {
		case <-b.hosts.news:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
