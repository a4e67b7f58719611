package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// Run measures a product. What the run made is gone when it answers, also when
// ctx ends before; a result that tells of something lost or doubled is no error
// here.
func Run(ctx context.Context, o Options, p Product) (_ Result, err error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	o = o.resolved()
	c, warmup, measured, err := plan(o)
	if err != nil {
		return Result{}, err
	}
	files, err := raiseFiles(o)
	if err != nil {
		return Result{}, err
	}
	data, err := os.MkdirTemp(o.Data, "berth-bench-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	if o.Prefix == "" {
		o.Prefix = "bench-" + strings.ToLower(rand.Text()[:8]) + "."
	}
	b, err := startBroker(ctx, o, data)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, b.endSoon(ctx, o.Prefix)) }()
	r := newRun(o, p, b, c, data)
	r.warmup, r.boots = newBoots("warm-up", warmup, o.Projects), newBoots("boot", measured, o.Projects)
	r.result.Settings.Files = files
	return r.all(ctx)
}

func newRun(o Options, p Product, b *broker, c *cloud, data string) *run {
	r := &run{
		o: o, cloud: c, broker: b, product: p, world: fake.NewWorld(), ledger: newLedger(),
		wires: &counted{}, warned: newTally(), counters: newCounters(),
	}
	r.o.Log = r.warned.on(o.Log)
	r.result = Result{
		Hosts: o.Hosts, Queues: o.Queues, Via: o.Via, Machine: thisMachine(), Versions: theseVersions(b.version),
		Settings: o.settings(b.kind, c), Wrong: []string{}, Warnings: map[string]int{},
	}
	r.result.Settings.JournalsOn = fileSystem(data)
	r.site = Site{
		Brokers: b.addrs, Prefix: o.Prefix, Partitions: o.Partitions, Replication: int16(o.Replication), Conductors: o.Conductors, Data: data,
		Dial: r.wires.dial, Log: r.o.Log, Metrics: r.counters.of,
	}
	return r
}

// endTime is how long cleaning up may take.
const endTime = time.Minute

// endSoon cleans up whether ctx has ended or not.
func (b *broker) endSoon(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	return b.end(ctx, prefix)
}

// run is one run.
type run struct {
	o        Options
	cloud    *cloud
	broker   *broker
	site     Site
	product  Product
	world    *fake.World
	ledger   *ledger
	wires    *counted
	journals atomic.Int64 // changes on disk
	stats    []func() agent.Stats
	warmup   []*boot
	boots    []*boot // those whose numbers are the result
	sent     []*boot // or about to be
	warned   *tally
	counters *counters
	result   Result
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Say, format+"\n", args...) }

// all is the whole run: the product, then the floor.
func (r *run) all(ctx context.Context) (Result, error) {
	if r.o.Title != "" {
		r.say("%s:", r.o.Title)
	}
	r.say("Berth on %s (%s): %d hosts with room for %d machines each, %d queues", r.broker.version, r.broker.kind, r.o.Hosts, r.cloud.size, r.o.Queues)
	core, api, err := r.product.Core(ctx, r.site)
	if err != nil {
		return Result{}, err
	}
	agents, err := r.agents()
	if err != nil {
		return Result{}, err
	}
	g := service.NewGroup()
	g.Add("core", core)
	g.Add("observer", observer(r.kafka("observer"), r.ledger))
	err = service.During(ctx, g, func(ctx context.Context) error {
		if err := r.offer(ctx, api()); err != nil {
			return err
		}
		return service.During(ctx, agents, func(ctx context.Context) error { return r.use(ctx, api()) })
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return Result{}, err
	}
	events, err := r.world.Events()
	if err != nil {
		return Result{}, err
	}
	r.result.Wasted = wasted(r.boots, events)
	v := judge(r.sent, events, overfull(r.world, r.cloud))
	r.result.Lost, r.result.Doubled = v.lost, v.doubled
	r.result.Wrong = append(r.result.Wrong, v.wrong...)
	if r.o.Floor {
		f, err := r.floor(ctx)
		if err != nil {
			return r.result, fmt.Errorf("floor: %w", err)
		}
		r.result.over(f)
	}
	return r.result, nil
}

// kafka is how the bench itself reaches the brokers.
func (r *run) kafka(name string) kafka.Config {
	return kafka.Config{Brokers: r.broker.addrs, ClientID: "berth-bench-" + name, Topics: wire.Topics{Prefix: r.o.Prefix}, Log: r.o.Log.Named(name)}
}

// agents joins an agent for each host, each with connections, a journal that
// waits for the disk, and a stream of its own.
func (r *run) agents() (service.Part, error) {
	driver := fake.Options{PrepareTime: r.o.PrepareTime, LaunchTime: r.o.LaunchTime}
	parts := make([]service.Part, 0, len(r.cloud.hosts))
	for _, h := range r.cloud.hosts {
		host, err := r.world.Host(h.id, h.inventory)
		if err != nil {
			return nil, err
		}
		part, stats := r.product.Agent(r.site, Host{
			ID: h.id, Slots: r.o.Slots, Driver: fake.NewDriver(host, driver),
			Journal: journal.Options{Written: func() { r.journals.Add(1) }},
		})
		parts, r.stats = append(parts, part), append(r.stats, stats)
	}
	return service.Together(parts...), nil
}
