package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/front"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// devOptions say what a whole Berth in one process is made of.
type devOptions struct {
	Hosts      []devHost
	Listen     string   // of the API
	Data       string   // where everything is kept; empty: a temporary folder
	Kafka      []string // brokers; empty: an embedded one
	Prefix     string   // of the cell; empty: wire.DefaultPrefix
	Partitions int32    // 0: 4
	World      *fake.World
	QEMU       *qemu.Options   // host-01 is this machine, besides the simulated Hosts; nil: it is not
	Journal    journal.Options // of every agent
	Timing     agent.Timing    // of every agent
	Dial       dialer          // to the brokers
	Open       listener        // of the API and of an embedded broker
	Log        *zap.Logger     // nil: silent
}

// newDevCommand is a whole Berth in one process that stays up.
func newDevCommand() *cobra.Command {
	var o devOptions
	var hosts int
	var real devDriver
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in this process, with simulated hosts or a real one, until interrupted",
		Long: `dev runs an API node, a queue manager, a conductor and simulated hosts in this
process, on an embedded broker or on the Kafka named by --kafka. With --data it
goes on where it stopped; without it, machines on a Kafka that stays are lost.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hosts < 0 || hosts > 10_000 {
				return compute.Invalid("hosts", fmt.Sprint(hosts), "give a number from 0 to 10000")
			}
			o.Hosts = devHosts(hosts)
			if err := real.choose(&o); err != nil {
				return err
			}
			if err := api.CheckAddress(o.Listen); err != nil {
				return err
			}
			syscall.Umask(0o077) // what the embedded broker keeps is for nobody else, too
			var err error
			if o.Log, err = telemetry.NewLogger(cmd.ErrOrStderr(), "warn", "console"); err != nil {
				return err
			}
			if len(o.Kafka) > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "Waiting for Kafka at", strings.Join(o.Kafka, ", "))
			}
			return withDev(cmd.Context(), o, func(ctx context.Context, address string) error {
				fmt.Fprint(cmd.OutOrStdout(), real.banner(address, hosts))
				<-ctx.Done()
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&real.kind, "driver", "fake", "what runs the machines: fake, or qemu: one host, this machine, with --data and --images")
	f.StringVar(&real.images, "images", "", "folder of the images for --driver qemu")
	f.IntVar(&hosts, "hosts", 20, "how many simulated hosts")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:7070", "where the API listens; loopback only")
	f.StringVar(&o.Data, "data", "", "folder to keep everything in; without it all is forgotten at the end")
	f.StringSliceVar(&o.Kafka, "kafka", nil, "brokers, host:port; without it an embedded one")
	f.StringVar(&o.Prefix, "prefix", wire.DefaultPrefix, "prefix of the cell's topics")
	return cmd
}

func (o devOptions) withDefaults() devOptions {
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

// withDev runs a whole Berth while use does, and stops it afterwards. use gets
// the API's address and a context that ends when any part of Berth does.
func withDev(ctx context.Context, o devOptions, use func(ctx context.Context, address string) error) (err error) {
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
		broker, err := embedded.Start(embedded.Options{DataDir: kept, Listen: o.Open.within(ctx)})
		if err != nil {
			return err
		}
		defer broker.Close()
		o.Kafka = broker.Addrs()
	}
	k := kafkaConfig{Brokers: o.Kafka, Prefix: o.Prefix, Partitions: o.Partitions}
	c := newCell(k, o.Dial, o.Log, "dev")
	if err := c.prepare(ctx); err != nil {
		return err
	}
	k.Partitions = c.partitions // of a cell that was there before
	part, f := newDev(k, o)
	return service.During(ctx, part, func(ctx context.Context) error { return use(ctx, f.Addr().String()) })
}

// newDev joins a whole Berth on some brokers, each part made when it is to run.
// The front answers before the rest is there.
func newDev(k kafkaConfig, o devOptions) (service.Part, *front.Front) {
	g := service.NewGroup()
	metrics, outage := telemetry.NewMetrics(), kafka.NewOutage(o.Log.Named("dev"))
	f := front.New(front.Options{Address: o.Listen, Listen: o.Open, Metrics: metrics.Handler(), Log: o.Log.Named("api")})
	g.Add("front", f)
	add := func(name string, build func(context.Context, cell) (service.Part, error)) {
		c := newCell(k, o.Dial, o.Log, name).measured(metrics.Registerer())
		c.kafka.Outage = outage // of all parts: they have the same brokers
		g.Add(name, service.Made(func(ctx context.Context) (service.Part, error) { return build(ctx, c) }))
	}
	add("queues", func(_ context.Context, c cell) (service.Part, error) { return newQueues(c, queuesOptions{}) })
	add("conductor", func(_ context.Context, c cell) (service.Part, error) { return newConductor(c, conductorOptions{}) })
	add("api", func(ctx context.Context, c cell) (service.Part, error) { return newAPI(ctx, c, apiOptions{Front: f}) })
	add("agent", func(_ context.Context, c cell) (service.Part, error) { return newDevAgents(c, o) })
	return g, f
}

// newDevAgents joins an agent for each simulated host.
func newDevAgents(c cell, o devOptions) (service.Part, error) {
	world := o.World
	if world == nil {
		var err error
		if world, err = fake.OpenWorld(filepath.Join(o.Data, "world")); err != nil {
			return nil, err
		}
	}
	var agents []service.Part
	if o.QEMU != nil {
		agents = append(agents, qemuAgent(c, agentOptions{
			Host: "host-01", State: o.Data, Home: home.Place{Dir: o.QEMU.Dir}, Journal: o.Journal, Timing: o.Timing,
		}, *o.QEMU))
	}
	for _, h := range o.Hosts {
		host, err := world.Host(h.ID, h.Inventory)
		if err != nil {
			return nil, err
		}
		agents = append(agents, agentOn(c, agentOptions{
			Host: h.ID, State: o.Data, Home: fakeHome(world.Dir(), h.ID), Driver: fake.NewDriver(host, h.Driver),
			Journal: o.Journal, Timing: o.Timing,
		}))
	}
	return service.Together(agents...), nil
}
