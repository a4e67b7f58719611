package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
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
	warned := newTally()
	o.Log = warned.on(o.Log)
	r := &run{
		o: o, cloud: c, broker: b, product: p, world: fake.NewWorld(), ledger: newLedger(), wires: &counted{},
		warmup: newBoots("warm-up", warmup, o.Projects), boots: newBoots("boot", measured, o.Projects), warned: warned,
	}
	r.result = Result{
		Hosts: o.Hosts, Queues: o.Queues, Via: o.Via, Machine: thisMachine(), Versions: theseVersions(b.version),
		Settings: o.settings(b.kind, c), Wrong: []string{}, Warnings: map[string]int{},
	}
	r.result.Settings.Files, r.result.Settings.JournalsOn = files, fileSystem(data)
	r.counters = newCounters()
	r.site = Site{Brokers: b.addrs, Prefix: o.Prefix, Partitions: o.Partitions, Data: data, Dial: r.wires.dial, Log: o.Log, Metrics: r.counters.of}
	return r.all(ctx)
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
	boots    []*boot
	warned   *tally
	counters *counters
	result   Result
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Say, format+"\n", args...) }

// all is the whole run: the product, then the floor.
func (r *run) all(ctx context.Context) (Result, error) {
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
	g.Add("agents", agents)
	if err := during(ctx, g, func(ctx context.Context) error { return r.use(ctx, api()) }); err != nil {
		return Result{}, err
	}
	events, err := r.world.Events()
	if err != nil {
		return Result{}, err
	}
	r.result.count(r.boots)
	v := judge(append(r.warmup, r.boots...), events, overfull(r.world, r.cloud))
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
			ID: h.id, Driver: fake.NewDriver(host, driver),
			Journal: journal.Options{Written: func() { r.journals.Add(1) }},
		})
		parts, r.stats = append(parts, part), append(r.stats, stats)
	}
	return service.Together(parts...), nil
}

// use makes the product work.
func (r *run) use(ctx context.Context, api string) error {
	if err := r.offer(ctx, api); err != nil {
		return err
	}
	send, closing, err := r.sender(api)
	if err != nil {
		return err
	}
	defer closing()
	l := newLoad(r.ledger, send, r.cloud)
	work := func(ctx context.Context) error {
		if err := r.warm(ctx, l); err != nil {
			return err
		}
		return r.measured(ctx, l)
	}
	if r.o.Churn {
		err = r.churning(ctx, l, work)
	} else {
		err = work(ctx)
	}
	if err != nil {
		return err
	}
	return r.gone(ctx, append(r.warmup, r.boots...))
}

// churning keeps hosts nearly full while something is done.
func (r *run) churning(ctx context.Context, l *load, work func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	stop := make(chan struct{})
	all.Go(func() error { return l.churn(ctx, stop, r.o.live()) })
	all.Go(func() error {
		defer close(stop)
		return work(ctx)
	})
	return all.Wait()
}

// sender is the way in.
func (r *run) sender(api string) (sender, func(), error) {
	if r.o.Via == ViaKafka {
		p, err := kafka.NewProducer(r.kafka("sender"))
		if err != nil {
			return nil, nil, err
		}
		return overKafka{p, wire.Topics{Prefix: r.o.Prefix}}, p.Close, nil
	}
	clients, err := newOverHTTP(api, projects(r.o.Projects), r.o.OwnIDs)
	return clients, clients.close, err
}

func projects(n int) []compute.Project {
	out := make([]compute.Project, n)
	for i := range out {
		out[i] = project(i)
	}
	return out
}

// warm sends boots that are not measured. Their machines are deleted, except
// where hosts are to be kept full.
func (r *run) warm(ctx context.Context, l *load) error {
	if len(r.warmup) == 0 {
		return nil
	}
	r.say("warming up: %d boots at %v/s", len(r.warmup), r.o.Rate)
	if err := r.send(ctx, l, r.warmup); err != nil {
		return err
	}
	if b := r.warmup[0]; b.refused != nil {
		return fmt.Errorf("the first boot was refused: %w", b.refused)
	}
	if r.o.Churn {
		return nil
	}
	if err := l.remove(ctx, r.ledger.oldest(0)); err != nil {
		return fmt.Errorf("delete what was booted to warm up: %w", err)
	}
	return r.gone(ctx, r.warmup)
}

// send sends boots and waits for what becomes of them. What does not settle is
// lost: the judge says so.
func (r *run) send(ctx context.Context, l *load, boots []*boot) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching, boots) })
	defer watch.Wait()
	defer stop()
	if err := l.run(ctx, r.o.schedule(), boots); err != nil {
		return err
	}
	_, err := r.ledger.await(ctx, boots, r.o.Stall, (*boot).settled)
	return err
}

// sayEvery is how often is said how far boots are.
const sayEvery = 5 * time.Second

func (r *run) watch(ctx context.Context, boots []*boot) {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			accepted, settled := r.ledger.progress(boots)
			r.say("  %d of %d accepted, %d done", accepted, len(boots), settled)
		case <-ctx.Done():
			return
		}
	}
}

// gone waits for the machines that were asked to be deleted.
func (r *run) gone(ctx context.Context, boots []*boot) error {
	r.ledger.touch()
	_, err := r.ledger.await(ctx, boots, r.o.Stall, func(b *boot) bool { return !b.deleting || b.over() })
	return err
}

// measured is what everything else is for.
func (r *run) measured(ctx context.Context, l *load) error {
	r.say("measuring: %d boots at %v/s via %s", len(r.boots), r.o.Rate, r.o.Via)
	stop, err := profile(r.o.Profile)
	if err != nil {
		return err
	}
	defer stop()
	before, err := r.snapshot(r.counters)
	if err != nil {
		return err
	}
	if err := r.send(ctx, l, r.boots); err != nil {
		return err
	}
	after, err := r.snapshot(r.counters)
	if err != nil {
		return err
	}
	r.result.CPU = after.usage.since(before.usage)
	r.result.RSS = measureRSS(r.broker.pid)
	r.result.Connections = r.wires.open.Load()
	r.result.Fsyncs = (after.journals - before.journals) * journal.Syncs
	r.result.Warnings = r.warned.counts()
	r.result.Denied, r.result.Released = after.agents.Denied-before.agents.Denied, after.agents.Released-before.agents.Released
	r.result.Requests = between(before.requests, after.requests, len(r.boots))
	return nil
}

// snapshot is what was used and done up to a moment.
type snapshot struct {
	usage    usage
	journals int64
	agents   agent.Stats
	requests map[string]map[string]answered
}

func (r *run) snapshot(c *counters) (snapshot, error) {
	requests, err := c.read()
	return snapshot{usage: measureUsage(r.broker.pid), journals: r.journals.Load(), agents: r.sum(), requests: requests}, err
}

// sum adds up what the agents have done so far.
func (r *run) sum() agent.Stats {
	var all agent.Stats
	for _, stats := range r.stats {
		s := stats()
		all.Denied += s.Denied
		all.Released += s.Released
	}
	return all
}

// ready says how many agents take work.
func (r *run) ready() int {
	n := 0
	for _, stats := range r.stats {
		if stats().Offering {
			n++
		}
	}
	return n
}

// during runs a part while use does. The part is ready before use begins and
// stopped after it ends; if the part ends first, use is called off.
func during(ctx context.Context, p service.Part, use func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := p.Run(ctx)
		cancel()
		ended <- err
	}()
	var err error
	select {
	case <-p.Ready():
		err = use(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	if partErr := <-ended; partErr != nil {
		return partErr
	}
	return err
}
