package main

import (
	"context"
	"time"

	"github.com/berth-project/berth/flavors"
	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/front"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
)

// apiOptions say how an API node runs in this process.
type apiOptions struct {
	// Front is what the node answers through, from now on and until the part
	// ends. It runs longer than the part.
	Front      *front.Front
	Publishing int        // most publications in flight; 0: 10,000
	Fencer     api.Fencer // makes certain that a host is dead; nil: nothing does
}

// newAPI joins an API node: the HTTP handler with its views, the catalog, and
// the readers that feed them.
func newAPI(ctx context.Context, c cell, o apiOptions) (_ service.Part, err error) {
	since, err := c.decided(ctx)
	if err != nil {
		return nil, err
	}
	g := service.NewGroup()
	defer unmade(g, &err)
	producer, err := c.producer(g)
	if err != nil {
		return nil, err
	}
	var (
		server  *api.Server
		offered *flavors.Service
		topics  = c.topics()
	)
	instances := c.reader(kafka.ReaderOptions{Topic: topics.Instances(), Committed: true, Pace: readPace}, func(r records, end bool) { server.Instances(r, end) })
	requests := c.reader(kafka.ReaderOptions{Topic: topics.Requests(), From: kafka.At(since), Pace: readPace}, func(r records, end bool) { server.Requests(r, end) })
	entries := c.table(topics.Catalog(), func(r records, end bool) { offered.Apply(r, end) })
	listening := newEars(func() *kafka.Reader {
		return c.reader(kafka.ReaderOptions{Topic: topics.Consoles(), From: kafka.End()}, func(r records, end bool) { server.Consoles(r, end) })
	})
	offered = flavors.New(flavors.Options{
		Topics: topics, Log: producer, View: syncers{entries, instances}, Logger: c.log, Metrics: flavors.NewMetrics(c.metrics),
		Work: func(q compute.QueueName) int { return server.Work(q) },
	})
	server, err = api.New(api.Config{
		Topics: topics, Partitions: c.partitions, Publisher: producer,
		Syncer: syncers{requests, instances}, Catalog: offers{offered}, Log: c.log, Metrics: c.metrics,
		Publishing: o.Publishing, Fencer: o.Fencer, DeadAfter: c.deadAfter, Consoles: listening, Reads: c.reads,
		Now: c.clock.now(),
	})
	if err != nil {
		return nil, err
	}
	g.Closes("metrics", func() error { server.Close(); return nil })
	o.Front.Serve(server.Handler()) // it says what it still reads
	g.Add("views", service.Together(
		entries, instances, requests,
		c.table(topics.Queues(), server.Queues),
		c.beacons(server.Hosts),
		c.table(topics.Advice(), server.Advice),
	))
	g.Add("consoles", listening)
	g.Add("http", o.Front.Serving(server.Handler()))
	return g, nil
}

// frontedAPI is an API node with a front of its own.
func frontedAPI(c cell, o front.Options) (service.Part, *front.Front) {
	o.Log = c.log
	f := front.New(o)
	g := service.NewGroup()
	g.Add("front", f)
	g.Add("api", service.Made(func(ctx context.Context) (service.Part, error) {
		return newAPI(ctx, c, apiOptions{Front: f})
	}))
	return g, f
}

// decided is up to where the conductors have decided the requests: what comes
// after is accepted and not yet in any instance record.
func (c cell) decided(ctx context.Context) (map[int32]int64, error) {
	admin, err := kafka.NewAdmin(c.kafka)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return admin.Committed(ctx, c.topics().ConductorGroup(), c.topics().Requests())
}

// offers lets the API read and change the catalog.
type offers struct{ service *flavors.Service }

func (o offers) Flavors() []compute.Flavor          { return o.service.Catalog().Flavors() }
func (o offers) Capabilities() []compute.Capability { return o.service.Catalog().Capabilities() }
func (o offers) Quotas() []compute.Quota            { return o.service.Catalog().Quotas() }
func (o offers) Flavor(n compute.FlavorName) (compute.Flavor, bool) {
	return o.service.Catalog().Flavor(n)
}

func (o offers) Capability(a compute.AxisName) (compute.Capability, bool) {
	return o.service.Catalog().Capability(a)
}

func (o offers) Quota(p compute.Project) (compute.Quota, bool) { return o.service.Catalog().Quota(p) }

func (o offers) AddFlavor(ctx context.Context, f compute.Flavor, dry bool) (api.Change, error) {
	ch, err := o.service.AddFlavor(ctx, f, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o offers) RemoveFlavor(ctx context.Context, n compute.FlavorName, dry bool) (api.Change, error) {
	ch, err := o.service.RemoveFlavor(ctx, n, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o offers) AddCapability(ctx context.Context, a compute.Capability, dry bool) (api.Change, error) {
	ch, err := o.service.AddCapability(ctx, a, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o offers) RemoveCapability(ctx context.Context, a compute.AxisName, dry bool) (api.Change, error) {
	ch, err := o.service.RemoveCapability(ctx, a, nil, flavors.How{DryRun: dry})
	return shown(ch), err
}

func (o offers) SetQuota(ctx context.Context, q compute.Quota) error {
	_, err := o.service.SetQuota(ctx, q, flavors.How{})
	return err
}

// shown is a catalog change in the API's words.
func shown(ch catalog.Change) api.Change {
	return api.Change{Added: ch.Added, Removed: ch.Removed, Total: ch.Total, Limit: ch.Limit}
}

// readPace is how much later than it could an API node may know of what many
// others wait for too. Who must know of something asks for it (Sync), and does
// not wait.
const readPace = 20 * time.Millisecond
