// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	kafkaloop "github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/kafka/read"
	kafkawrite "github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// The floor is what the records of a boot cost when nobody thinks: the same
// records through the same topics with the same client, in the same hands, and
// nothing else. There are no states, no quota, no journal, no advice, no
// beacons and no HTTP; hosts have room for everything. What Berth takes beyond
// it is Berth's.
//
//	request ─▶ loop ─────▶ instances ─▶ build.<queue> ─▶ share fetch ─▶ claim
//	        ─▶ loop ─────▶ instances ─▶ host.<host> ─▶ started ─▶ loop ─────▶ instances

const (
	// floorWaiters are the hosts that wait on each queue, as in Berth.
	floorWaiters = 8
	// floorWarmTime is how long the floor's own topics and clients are warmed;
	// the brokers are warm by then.
	floorWarmTime = 5 * time.Second
)

// floor runs it on the same brokers, after the product has stopped.
func (r *run) floor(ctx context.Context) (Floor, error) {
	counts := newCounters()
	r.own.counters = counts // the product has stopped
	cfg := r.kafka("floor")
	cfg.Topics.Prefix += "floor."
	f := &floor{o: r.o, cfg: cfg, counts: counts, ledger: newLedger(), queues: r.cloud.queues}
	if err := f.makeTopics(ctx); err != nil {
		return Floor{}, err
	}
	producer, err := kafkawrite.NewProducer(f.as(lab.RoleAPI))
	if err != nil {
		return Floor{}, err
	}
	defer producer.Close()
	f.producer = producer
	warmup := newBoots(
		"warm-up",
		r.cloud.chooseQueues(min(r.o.Warmup, int(r.o.Rate*floorWarmTime.Seconds())+1), 3),
		r.o.Projects,
	)
	boots := newBoots("boot", r.cloud.chooseQueues(r.o.Count, 2), r.o.Projects)
	var before, after snapshot
	err = service.During(ctx, f.parts(), func(ctx context.Context) error {
		r.say("floor: %d boots after %d to warm up", len(boots), len(warmup))
		if err := f.run(ctx, warmup); err != nil {
			return err
		}
		if before, err = r.opening(ctx); err != nil {
			return err
		}
		if err := f.run(ctx, boots); err != nil {
			return err
		}
		after, err = r.closing(ctx)
		return err
	})
	out := floorOf(boots)
	out.CPU = after.usage.since(before.usage, len(boots))
	out.Requests = between(before.all.Traffic, after.all.Traffic, len(boots))
	out.Bytes = bytesBetween(before.all.Traffic, after.all.Traffic, len(boots))
	out.Served = after.served.since(before.served, float64(len(boots)))
	return out, cmp.Or(err, ctx.Err())
}

// parts are all that works.
func (f *floor) parts() service.Part {
	g := service.NewGroup()
	g.Add("observer", read.NewReader(f.cfg, read.Options{
		Topic: f.cfg.Topics.Instances(), Committed: true, From: read.End(), Handle: f.observe,
	}))
	loop := kafkaloop.Options{Group: f.cfg.Topics.ConductorGroup()}
	g.Add("loop", kafkaloop.New(f.as(lab.RoleConductor), loop, floorHandler{f.cfg.Topics, f.queues}))
	g.Add("hosts", f.hosts())
	return g
}

// as is how a part reaches the brokers that stands where one of Berth's does.
func (f *floor) as(part lab.Role) kafka.Config {
	cfg := f.cfg
	cfg.Metrics = kafka.NewMetrics(f.counts.of(part))
	return cfg
}

type floor struct {
	o        Options
	cfg      kafka.Config
	counts   *counters
	ledger   *ledger
	queues   []queue
	refs     []wire.QueueRef
	producer *kafkawrite.Producer
}

// makeTopics makes what Berth makes: its own topics, the queues with their share
// state, the hosts' streams.
func (f *floor) makeTopics(ctx context.Context) error {
	admin, err := kafkaadmin.New(f.cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.EnsureTopics(ctx, f.o.Partitions, int16(f.o.Replication)); err != nil {
		return err
	}
	names := make([]compute.QueueName, len(f.queues))
	for i, q := range f.queues {
		names[i] = q.name
	}
	ids, err := admin.EnsureQueueTopics(ctx, names, int16(f.o.Replication))
	if err != nil {
		return err
	}
	group := f.cfg.Topics.ShareGroup(0)
	if err := admin.InitShareState(ctx, group, names); err != nil {
		return err
	}
	for _, n := range names {
		f.refs = append(f.refs, wire.QueueRef{Name: n, Group: group, TopicID: ids[n]})
	}
	var all errgroup.Group
	all.SetLimit(16)
	for i := range f.o.Hosts {
		all.Go(func() error { return admin.EnsureHostTopic(ctx, floorHostID(i), int16(f.o.Replication)) })
	}
	return all.Wait()
}

func floorHostID(i int) compute.HostID { return compute.HostID(fmt.Sprintf("host-%04d", i+1)) }

// run sends boots as Berth's are sent and waits for them.
func (f *floor) run(ctx context.Context, boots []*boot) error {
	f.ledger.enter(boots)
	err := f.o.pacer(f.ledger, boots).run(ctx, len(boots), func(i int, due time.Time) {
		b := boots[i]
		b.due = due
		note := floorNote{kind: floorRequest, name: b.name, project: b.project, queue: b.queue}
		err := f.producer.Send(ctx, note.record().To(f.cfg.Topics.Requests(), wire.AnyPartition))
		f.ledger.answered(b, time.Now(), err)
	})
	if err != nil {
		return err
	}
	_, err = f.ledger.await(ctx, boots, f.o.Stall, (*boot).settled)
	return err
}

// see notes what the log of instances says.
func (f *floor) observe(b read.Batch) {
	now := time.Now()
	all := make([]observation, 0, len(b.Records))
	for _, rec := range b.Records {
		if n, ok := readNote(rec); ok {
			all = append(all, observation{name: n.name, state: floorState[n.kind]})
		}
	}
	f.ledger.observe(now, all)
}

func floorOf(boots []*boot) Floor {
	t := measure(boots)
	out := Floor{
		AcceptedGrantedMS: quantiles(t.acceptedGranted), ActiveMS: quantiles(t.active),
		Boots: len(boots), BootsPerS: throughput(boots),
	}
	for _, b := range boots {
		if b.active.IsZero() {
			out.Lost++
		}
	}
	return out
}
