// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"time"

	"github.com/berth-project/berth/flavors"
	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
)

// APIOptions say how an API node runs in this process.
type APIOptions struct {
	// Server is what the node answers through, from now on and until the part
	// ends. It runs longer than the part.
	Server     *statusserver.Server
	Publishing int        // most publications in flight; 0: 10,000
	Fencer     api.Fencer // makes certain that a host is dead; nil: nothing does

	PrincipalRate int // requests of one principal a second; 0: no limit
	Listeners     int // to events at once; 0: 1,000
	// Tokens lets callers sign in with tokens, and SignIn with what else they have. Without either, every
	// caller that reaches the node may do everything.
	Tokens bool
	SignIn auth.Chain
	Audit  bool            // every change and every refusal is written to the topic audit
	Key    *publishkey.Key // with which every request is signed; nil: none is

	UserData *sealed.Keys // with which it is sealed; nil: it is not
}

// NewAPI joins an API node: the HTTP handler with its views, the catalog, and
// the readers that feed them.
func NewAPI(ctx context.Context, c Cell, o APIOptions) (_ service.Part, err error) {
	since, err := c.decided(ctx)
	if err != nil {
		return nil, err
	}
	g := service.NewGroup()
	defer unmade(g, &err)
	producer, err := c.Producer(g)
	if err != nil {
		return nil, err
	}
	kept, writer := c.audit(o, producer)
	if o.Key != nil {
		writer = publishkey.Signed(writer, c.Topics().Requests(), *o.Key)
	}
	var (
		server  *api.Server
		offered *flavors.Service
		topics  = c.Topics()
	)
	admin, err := c.admin(g)
	if err != nil {
		return nil, err
	}
	id, err := admin.TopicID(ctx, topics.Instances())
	if err != nil {
		return nil, err
	}
	var trail audit.Source
	if o.Audit {
		trail = auditTrail{admin, topics.Audit()}
	}
	instances := c.reader(
		read.Options{Topic: topics.Instances(), Committed: true, Pace: readPace},
		func(r Records, end bool) { server.Instances(r, end) },
	)
	requests := c.reader(
		read.Options{Topic: topics.Requests(), From: read.At(since), Pace: readPace},
		func(r Records, end bool) { server.Requests(r, end) },
	)
	entries := c.Table(topics.Catalog(), func(r Records, end bool) { offered.Apply(r, end) })
	listening := newConsoleReader(func() *read.Reader {
		return c.reader(
			read.Options{Topic: topics.Consoles(), From: read.End()},
			func(r Records, end bool) { server.Consoles(r, end) },
		)
	})
	heard := c.beacons(func(r Records, end bool) { server.Hosts(r, end) })
	views := []service.Part{entries, instances, requests, heard}
	var tokens api.Syncer
	if o.Tokens {
		reader := c.Table(topics.Tokens(), func(r Records, end bool) { server.TokenRecords(r, end) })
		views, tokens = append(views, reader), reader
	}
	offered = flavors.New(flavors.Options{
		Topics: topics, Log: writer, View: entries, Counted: instances, Logger: c.Log,
		Metrics: flavors.NewMetrics(c.metrics),
		Work:    func(q compute.QueueName) int { return server.Work(q) },
		Members: func(key compute.GroupKey) int { return server.Members(key) },
	})
	server, err = api.New(api.Config{
		Topics: topics, Partitions: c.Partitions, InstancesID: id, Publisher: writer,
		Syncer: syncers{requests, instances}, Decided: func(ctx context.Context) (map[int32]int64, error) {
			return admin.Committed(ctx, topics.ConductorGroup(), topics.Requests())
		}, Heard: heard, Catalog: Offers{offered}, Offered: entries, Log: c.Log, Metrics: c.metrics, Tracer: c.Tracer,
		Publishing: o.Publishing, Fencer: o.Fencer, DeadAfter: c.DeadAfter, Consoles: listening, Reads: c.Reads,
		PrincipalRate: o.PrincipalRate, Events: events.Bounds{Listeners: o.Listeners}, Now: c.Clock.now(),
		Tokens: tokens, SignIn: o.SignIn,
		Audit: kept, Trail: trail, Rejected: refusals{admin, topics.Rejected()}, UserData: o.UserData,
	})
	if err != nil {
		return nil, err
	}
	g.Closes("metrics", func() error { server.Close(); return nil })
	o.Server.GuardMetrics(server.Operators)
	o.Server.Serve(server.Handler()) // it says what it still reads
	g.Add("views", service.Together(append(views,
		c.Table(topics.Queues(), server.Queues),
		c.Table(topics.Advice(), server.Advice),
	)...))
	g.Add("consoles", listening)
	g.Add("refused requests", service.Func(server.DropRefused))
	g.Add("http", o.Server.Serving(server.Handler()))
	g.Add("listeners", service.Func(func(ctx context.Context) error { // they end before http waits for them
		<-ctx.Done()
		server.StopListeners()
		return nil
	}))
	return g, nil
}

// NewAPIWithServer is an API node with a status server of its own, which is as shown says.
func NewAPIWithServer(c Cell, shown statusserver.Options, o APIOptions) (service.Part, *statusserver.Server) {
	shown.Log = c.Log
	f := statusserver.New(shown)
	o.Server = f
	g := service.NewGroup()
	g.Add("front", f)
	g.Add("api", service.Made(func(ctx context.Context) (service.Part, error) {
		return NewAPI(ctx, c, o)
	}))
	return g, f
}

// decided is up to where the conductors have decided the requests: what comes
// after is accepted and not yet in any instance record.
func (c Cell) decided(ctx context.Context) (map[int32]int64, error) {
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return admin.Committed(ctx, c.Topics().ConductorGroup(), c.Topics().Requests())
}

// Offers lets the API read and change the catalog.
type Offers struct{ Service *flavors.Service }

func (o Offers) Flavors() []compute.Flavor          { return o.Service.Catalog().Flavors() }
func (o Offers) Capabilities() []compute.Capability { return o.Service.Catalog().Capabilities() }
func (o Offers) Quotas() []compute.Quota            { return o.Service.Catalog().Quotas() }
func (o Offers) Flavor(n compute.FlavorName) (compute.Flavor, bool) {
	return o.Service.Catalog().Flavor(n)
}

func (o Offers) Capability(a compute.AxisName) (compute.Capability, bool) {
	return o.Service.Catalog().Capability(a)
}

func (o Offers) Quota(p compute.Project) (compute.Quota, bool) { return o.Service.Catalog().Quota(p) }

func (o Offers) AddFlavor(ctx context.Context, f compute.Flavor, dry bool) (api.Change, error) {
	ch, err := o.Service.AddFlavor(ctx, f, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o Offers) RemoveFlavor(ctx context.Context, n compute.FlavorName, dry bool) (api.Change, error) {
	ch, err := o.Service.RemoveFlavor(ctx, n, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o Offers) AddCapability(ctx context.Context, a compute.Capability, dry bool) (api.Change, error) {
	ch, err := o.Service.AddCapability(ctx, a, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o Offers) RemoveCapability(ctx context.Context, a compute.AxisName, dry bool) (api.Change, error) {
	ch, err := o.Service.RemoveCapability(ctx, a, nil, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o Offers) RemoveValues(
	ctx context.Context, a compute.AxisName, values []compute.AxisValue, drain, dry bool,
) (api.Change, error) {
	ch, err := o.Service.RemoveCapability(ctx, a, values, flavors.How{DryRun: dry, Drain: drain})
	return shown(ch), err
}

func (o Offers) SetQuota(ctx context.Context, q compute.Quota) error {
	_, err := o.Service.SetQuota(ctx, q, flavors.How{})
	return err
}

func (o Offers) ChangeQuota(
	ctx context.Context, p compute.Project, change func(compute.Quota) (compute.Quota, error),
) error {
	_, err := o.Service.ChangeQuota(ctx, p, change)
	return err
}

func (o Offers) Read() bool { return o.Service.Read() }

func (o Offers) Groups(p compute.Project) []compute.Group { return o.Service.Catalog().Groups(p) }

func (o Offers) Group(key compute.GroupKey) (compute.Group, bool) {
	return o.Service.Catalog().Group(key)
}

func (o Offers) SetGroup(ctx context.Context, g compute.Group, onlyNew bool) error {
	_, err := o.Service.SetGroup(ctx, g, onlyNew)
	return err
}

func (o Offers) ChangeGroup(
	ctx context.Context, key compute.GroupKey, change func(compute.Group) (compute.Group, error),
) error {
	_, err := o.Service.ChangeGroup(ctx, key, change)
	return err
}

func (o Offers) RemoveGroup(ctx context.Context, key compute.GroupKey) error {
	_, err := o.Service.RemoveGroup(ctx, key)
	return err
}

// shown is a catalog change in the API's words.
func shown(ch catalog.Change) api.Change {
	return api.Change{Added: ch.Added, Removed: ch.Removed, Total: ch.Total, Limit: ch.Limit}
}

// readPace is how much later than it could an API node may know of what many
// others wait for too. A request that must know of something asks for it (Sync), and does
// not wait.
const readPace = 20 * time.Millisecond
