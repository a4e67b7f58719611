// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/berth-project/berth/conductor"
	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	kafkaloop "github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// ConductorOptions say how a conductor runs in this process.
type ConductorOptions struct {
	Name     string                  // written down in takeovers; may be empty
	SetAside func([]kafkaloop.Aside) // is told the partitions that nobody decides about; may be nil
	// most ended instances of a project that are kept; 0: as many as conductor.Config says
	Ended        int
	SoftGroupFor time.Duration        // how long a soft rule of a group is kept; 0: as long as conductor.Config says
	ReserveLead  time.Duration        // how long before a reservation begins hosts hold room for it; 0: as conductor.Config says
	Share        int                  // builds of a project in one queue, at least; 0: as many as conductor.Config says
	Times        admit.Options        // of the protocol; zero: its defaults
	Hosts        *hostkey.Verifier    // of reports and beacons; nil: all are believed
	Publishers   *publishkey.Verifier // of requests; nil: all are taken
	TurnBytes    int                  // most that a turn writes to a partition; 0: what the loop says
}

// catalogWait has a conductor hear of the catalog more often than of other
// tables: before it decides a boot by one that it has not heard of for some
// seconds, it reads that to its end.
const catalogWait = 2 * time.Second

// NewConductor joins a conductor: the readers that tell it what is offered and
// which hosts are alive, and the loop that runs it over the partitions it owns.
func NewConductor(c Cell, o ConductorOptions) (service.Part, error) {
	g := service.NewGroup()
	admin, err := c.admin(g)
	if err != nil {
		return nil, err
	}
	var (
		decides *conductor.Conductor
		loop    *kafkaloop.Loop
		topics  = c.Topics()
	)
	entries := c.reader(
		read.Options{Topic: topics.Catalog(), MaxWait: catalogWait},
		func(r Records, end bool) { decides.Catalog(r, end) },
	)
	hosts := c.beacons(func(r Records, end bool) { decides.Hosts(r, end) })
	decides = conductor.New(conductor.Config{
		Topics: topics, Partitions: c.Partitions, Times: o.Times, AliveFor: c.DeadAfter / 2, MaxEnded: o.Ended,
		SoftGroupFor: o.SoftGroupFor, Share: o.Share, ReserveLead: o.ReserveLead,
		Reads: c.Reads, Log: c.Log, Metrics: conductor.NewMetrics(c.metrics), Tracer: c.Tracer,
		Now:   c.Clock.now(),
		Hosts: o.Hosts, Publishers: o.Publishers,
	}, conductor.Dependencies{
		SyncCatalog:  entries.Sync,
		CatalogHeard: func() time.Time { return c.Clock.shown(entries.CaughtUpAt()) },
		SyncHosts:    hosts.Sync,
		HostsHeard:   func() time.Time { return c.Clock.shown(hosts.CaughtUpAt()) },
		Starts:       starts{admin},
		Wake:         func() { loop.Wake() },
	})
	loop = kafkaloop.New(c.Kafka, kafkaloop.Options{
		Group: topics.ConductorGroup(), Name: o.Name, Patience: conductor.Linger, SetAside: o.SetAside,
		Reads: c.Reads, Agreed: func(n compute.Schema) { decides.Agreed(n) }, TurnBytes: o.TurnBytes,
	}, c.Clock.handler(decides))
	g.Add("views", service.Together(
		entries,
		c.Table(topics.Queues(), decides.Queues),
		hosts,
		c.Table(topics.Advice(), decides.Advice),
	))
	g.Add("start offsets", decides)
	g.Add("loop", loop)
	return g, nil
}

// starts asks Kafka up to where queues are finished with.
type starts struct{ admin *kafkaadmin.Admin }

// Starts leaves out queues whose topic is not the listed one, whose offsets would be another topic's, and those of
// which nothing is known. The error is that of the first of these; the others are answered all the same.
func (s starts) Starts(ctx context.Context, queues []compute.Queue) (map[compute.QueueName]int64, error) {
	progress, err := s.admin.QueueProgress(ctx, refs(queues))
	at := make(map[compute.QueueName]int64, len(progress))
	for _, p := range progress {
		switch {
		case p.Err != nil && !errors.Is(p.Err, wire.ErrNoTopic):
			err = cmp.Or(err, p.Err)
		case p.Err == nil && p.TopicID == p.Queue.TopicID && p.Start >= 0:
			at[p.Queue.Name] = p.Start
		}
	}
	return at, err
}

// refs is what a client of share groups needs to know of queues.
func refs(queues []compute.Queue) []wire.QueueRef {
	out := make([]wire.QueueRef, len(queues))
	for i, q := range queues {
		out[i] = wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID}
	}
	return out
}
