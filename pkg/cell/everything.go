// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// EverythingOptions say what a whole Berth in one process is made of.
type EverythingOptions struct {
	Hosts      []SimulatedHost
	Listen     string   // of the API
	Data       string   // where everything is kept; empty: a temporary folder
	Kafka      []string // brokers; empty: an embedded one
	Prefix     string   // of the cell; empty: wire.DefaultPrefix
	Partitions int32    // 0: 4
	World      *fake.World
	QEMU       *qemu.Options   // host-01 is this machine, besides the simulated Hosts; nil: it is not
	Journal    journal.Options // of every agent
	Timing     agent.Timing    // of every agent
	Dial       Dialer          // to the brokers
	Open       Listener        // of the API and of an embedded broker
	Log        *zap.Logger     // nil: silent
	Tracing    TracingSettings // of all parts
	// FirstToken hears the token of an admin, and callers have to sign in; nil: nobody signs in.
	FirstToken func(text string)
	// Brokers hears where Kafka is; nil: nobody does.
	Brokers func(addrs []string)
}

func (o EverythingOptions) withDefaults() EverythingOptions {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Prefix == "" {
		o.Prefix = wire.DefaultPrefix
	}
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	return o
}

// WithEverything runs a whole Berth while use does, and stops it afterwards. use gets
// the API's address and a context that ends when any part of Berth does.
func WithEverything(
	ctx context.Context,
	o EverythingOptions,
	use func(ctx context.Context, address string) error,
) (err error) {
	o = o.withDefaults()
	kept := ""
	if o.Data != "" {
		if err := privateFolder("data", o.Data); err != nil {
			return err
		}
		kept = filepath.Join(o.Data, "broker")
	} else {
		if o.Data, err = os.MkdirTemp("", "berth-dev-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.Data) }() // a temporary folder that stays does no harm
	}
	if len(o.Kafka) == 0 {
		broker, err := embedded.Start(embedded.Options{DataDir: kept, Listen: o.Open.Within(ctx)})
		if err != nil {
			return err
		}
		defer broker.Close()
		o.Kafka = broker.Addrs()
	}
	if o.Brokers != nil {
		o.Brokers(o.Kafka)
	}
	k := KafkaSettings{Brokers: o.Kafka, Prefix: o.Prefix, Partitions: o.Partitions}
	c := New(k, o.Dial, o.Log, "dev")
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if o.FirstToken != nil {
		text, _, err := c.FirstToken(ctx, "dev", 24*time.Hour)
		if err != nil {
			return err
		}
		o.FirstToken(text)
	}
	k.Partitions = c.Partitions // of a cell that was there before
	traced := New(k, o.Dial, o.Log, "dev").Traced(o.Tracing, "dev")
	defer func() { _ = traced.Tracer.Close() }() // it has no error
	part, f := newEverything(k, o, traced.Tracer)
	return service.During(ctx, part, func(ctx context.Context) error { return use(ctx, f.Addr().String()) })
}

// newEverything joins a whole Berth on some brokers, each part made when it is to run.
// The front answers before the rest is there.
func newEverything(
	k KafkaSettings, o EverythingOptions, tracer *tracing.Tracer,
) (service.Part, *statusserver.Server) {
	g := service.NewGroup()
	metrics, outage := telemetry.NewMetrics(), kafka.NewOutage(o.Log.Named("dev"))
	f := statusserver.New(
		statusserver.Options{Address: o.Listen, Listen: o.Open, Metrics: metrics.Handler(), Log: o.Log.Named("api")},
	)
	g.Add("front", f)
	add := func(name string, build func(context.Context, Cell) (service.Part, error)) {
		c := New(k, o.Dial, o.Log, name).Measured(metrics.Registerer())
		c.Kafka.Outage = outage // of all parts: they have the same brokers
		c.Tracer = tracer
		g.Add(name, service.Made(func(ctx context.Context) (service.Part, error) { return build(ctx, c) }))
	}
	add("queues", func(_ context.Context, c Cell) (service.Part, error) {
		return NewQueueManager(c, QueueManagerOptions{})
	})
	add(
		"conductor",
		func(_ context.Context, c Cell) (service.Part, error) { return NewConductor(c, ConductorOptions{}) },
	)
	add("api", func(ctx context.Context, c Cell) (service.Part, error) {
		return NewAPI(ctx, c, APIOptions{Server: f, Tokens: o.FirstToken != nil})
	})
	add("agent", func(_ context.Context, c Cell) (service.Part, error) { return newSimulatedAgents(c, o) })
	return g, f
}

// newSimulatedAgents joins an agent for each simulated host.
func newSimulatedAgents(c Cell, o EverythingOptions) (service.Part, error) {
	world := o.World
	if world == nil {
		var err error
		if world, err = fake.OpenWorld(filepath.Join(o.Data, "world")); err != nil {
			return nil, err
		}
	}
	var agents []service.Part
	if o.QEMU != nil {
		agents = append(agents, QEMUAgent(c, AgentOptions{
			Host: "host-01", State: o.Data, Journal: o.Journal, Timing: o.Timing,
			Home: home.Place{
				Dir: o.QEMU.Dir, Setting: "data", IfGone: "remove " + JournalFile(o.Data, "host-01"),
			},
		}, *o.QEMU))
	}
	for _, h := range o.Hosts {
		host, err := world.Host(h.ID, h.Inventory)
		if err != nil {
			return nil, err
		}
		agents = append(agents, AgentPart(c, AgentOptions{
			Host: h.ID, State: o.Data, Home: FakeHome(world.Dir(), h.ID), Driver: fake.NewDriver(host, h.Driver),
			Journal: o.Journal, Timing: o.Timing,
		}))
	}
	return service.Together(agents...), nil
}
