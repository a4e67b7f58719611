// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/elect"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues"
	"github.com/berth-project/berth/queues/save"
)

// QueueManagerOptions say how a queue manager runs in this process.
type QueueManagerOptions struct {
	GroupLimit int               // queues in one share group; 0: the manager's default
	Hosts      *hostkey.Verifier // of beacons; nil: all are believed
	Forgotten  time.Duration     // how long the stream of a forgotten host stays; 0: for ever
	Savings    *save.Rules       // when hosts save room for large work; nil: save.DefaultRules
}

// ringPace is how long the queue manager leaves between two looks at instances: work
// that comes alone is rung for at once, and a dense stream costs so many fetches a
// second at most.
const ringPace = 20 * time.Millisecond

// NewQueueManager joins a queue manager: the election, the readers, and Kafka's topics
// and share state, where it works.
func NewQueueManager(c Cell, o QueueManagerOptions) (_ service.Part, err error) {
	g := service.NewGroup()
	defer unmade(g, &err)
	admin, err := c.admin(g)
	if err != nil {
		return nil, err
	}
	producer, err := c.Producer(g)
	if err != nil {
		return nil, err
	}
	var (
		manager *queues.Manager
		topics  = c.Topics()
		works   = groundwork{admin, c.replication}
	)
	elector := elect.NewElector(c.Kafka, topics.ManagerGroup(), topics.Catalog())
	entries := c.Table(topics.Catalog(), func(r Records, end bool) { manager.Catalog(r, end) })
	listed := c.Table(topics.Queues(), func(r Records, end bool) { manager.Queues(r, end) })
	hosts := c.beacons(func(r Records, end bool) { manager.Hosts(r, end) })
	instances := c.reader(
		read.Options{Topic: topics.Instances(), Committed: true, Pace: ringPace},
		func(r Records, end bool) { manager.Instances(r, end) },
	)
	manager = queues.New(queues.Options{
		Topics: topics, Leader: elector, View: managed{syncers{entries, listed, hosts}, instances}, Log: producer,
		Far: queues.Far{
			Topics:  works,
			Hosts:   works,
			Streams: works,
			Shares:  works,
		},
		Forgotten: o.Forgotten, Savings: o.Savings, Logger: c.Log, PerGroup: o.GroupLimit,
		Metrics: queues.NewMetrics(c.metrics), Reads: c.Reads, Hosts: o.Hosts,
		Now: c.Clock.now(),
	})
	advice := c.Table(topics.Advice(), func(r Records, end bool) { manager.Advice(r, end) })
	g.Add("views", service.Together(entries, listed, hosts, instances, advice))
	g.Add("manager", manager)
	g.Add("election", elector)
	return g, nil
}

// managed is what the queue manager reads.
type managed struct {
	lists     syncers
	instances *read.Reader
}

func (m managed) Sync(ctx context.Context) error {
	return append(slices.Clip(m.lists), m.instances).Sync(ctx)
}

func (m managed) SyncLists(ctx context.Context) error { return m.lists.Sync(ctx) }

// groundwork is Kafka in the queue manager's words.
type groundwork struct {
	admin       *kafkaadmin.Admin
	replication int16
}

func (f groundwork) QueueTopics(ctx context.Context) (map[compute.QueueName]compute.TopicID, error) {
	return f.admin.QueueTopics(ctx)
}

func (f groundwork) MakeQueueTopics(ctx context.Context, q []compute.QueueName) error {
	_, err := f.admin.EnsureQueueTopics(ctx, q, f.replication)
	return err
}

func (f groundwork) DeleteQueueTopic(ctx context.Context, _ compute.QueueName, id compute.TopicID) error {
	return f.admin.DeleteQueueTopic(ctx, id)
}

func (f groundwork) MakeHostTopic(ctx context.Context, h compute.HostID) error {
	return f.admin.EnsureHostTopic(ctx, h, f.replication)
}

func (f groundwork) HostTopics(ctx context.Context) (map[compute.HostID]compute.TopicID, error) {
	return f.admin.HostTopics(ctx)
}

func (f groundwork) QuietHosts(ctx context.Context, h []compute.HostID, since time.Time) ([]compute.HostID, error) {
	return f.admin.QuietHosts(ctx, h, since)
}

func (f groundwork) DeleteHostTopic(ctx context.Context, _ compute.HostID, id compute.TopicID) error {
	return f.admin.DeleteHostTopic(ctx, id)
}

func (f groundwork) InitShares(ctx context.Context, group string, q []compute.QueueName) error {
	return f.admin.InitShareState(ctx, group, q)
}

func (f groundwork) DeleteBelow(ctx context.Context, below map[compute.QueueName]int64) error {
	return f.admin.DeleteRecordsBelow(ctx, below)
}

func (f groundwork) Progress(ctx context.Context, refs []wire.QueueRef) ([]queues.Progress, error) {
	progress, err := f.admin.QueueProgress(ctx, refs)
	out := make([]queues.Progress, len(progress))
	for i, p := range progress {
		out[i] = queues.Progress{
			TopicID:  p.TopicID,
			Start:    p.Start,
			Written:  p.Written,
			LogStart: p.LogStart,
			Depth:    p.Depth,
			Err:      p.Err,
		}
	}
	return out, err
}
