// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/save"
)

// rig is a whole Berth under test, in this process, with simulated hosts in a
// world that is looked at from outside. Its parts can be stopped and started.
type rig struct {
	t      *testing.T
	kafka  cell.KafkaSettings
	data   string
	world  *fake.World
	hosts  []cell.SimulatedHost
	api    string
	parts  map[string]*running
	seen   *witness
	net    network
	binary string         // of the processes that are started from now on; empty: this tree's
	env    []string       // theirs, beside this process's own
	reads  compute.Schema // of the parts that are started from now on; 0: this version's

	metrics    *telemetry.Metrics                        // of all parts; nil: none
	keys       *hostkey.Master                           // hosts sign by keys of it, and nothing else counts; nil: they do not
	publishers *publishkey.Verifier                      // what conductors go by that are started from now on; nil: all requests count
	publishKey *publishkey.Key                           // API nodes that are started from now on sign with it; nil: they do not
	seals      *sealed.Keys                              // of API nodes that are started from now on; nil: they do not seal
	opens      *sealed.Keys                              // of agents that are started from now on; nil: they do not open what is sealed
	machines   func(hypervisor.Driver) hypervisor.Driver // what agents have for their driver; nil: that
	tracers    map[string]*tracing.Tracer                // of the parts, by their names; none: it traces nothing
	times      admit.Options                             // of conductors that are started from now on; zero: the protocol's
	savings    *save.Rules                               // of the queue manager; nil: the defaults
	deadAfter  time.Duration                             // how long a silent host counts as alive, of parts from now on; zero: 3 s
}

// network is how the parts of a rig reach each other; the zero value is TCP.
type network struct {
	dial   cell.Dialer
	listen cell.Listener
}

// running is a part that runs until stopped.
type running struct {
	cancel context.CancelFunc
	ready  <-chan struct{}
	done   chan struct{}
	err    error
}

// patience is how long a test waits for something that should happen soon,
// before it calls it lost. It asserts nothing about speed.
const patience = 8 * time.Minute

// chatty agents say at once what has changed, so that tests need not wait for it.
var chatty = agent.Timing{BeaconApart: 100 * time.Millisecond}

// newRig prepares a cell on these brokers and watches its instances; nothing
// of Berth runs yet.
func newRig(t *testing.T, b kafkatest.Broker, hosts ...cell.SimulatedHost) *rig {
	t.Helper()
	return newRigOn(t, network{}, b, hosts...)
}

// newRigOn is newRig on a network of the test's own.
func newRigOn(t *testing.T, n network, b kafkatest.Broker, hosts ...cell.SimulatedHost) *rig {
	t.Helper()
	r := &rig{
		t: t, net: n, kafka: cell.KafkaSettings{Brokers: b.Addrs, Prefix: b.Prefix, Partitions: 4},
		data: t.TempDir(), world: fake.NewWorld(), hosts: hosts, parts: map[string]*running{},
	}
	c := r.prepared("test")
	r.seen = newWitness()
	r.start("witness", c.Committed(c.Topics().Instances(), r.seen.take))
	t.Cleanup(r.stopAll)
	return r
}

// up starts everything.
func (r *rig) up() *rig {
	r.t.Helper()
	r.startQueues()
	r.startConductor("conductor")
	r.startAPI()
	r.startAgents(r.hosts...)
	r.known(r.hosts...)
	return r
}

// known waits until the API has heard of these hosts.
func (r *rig) known(hosts ...cell.SimulatedHost) {
	r.t.Helper()
	c := r.as("default")
	for _, h := range hosts {
		r.poll(string(h.ID)+" known", func() bool {
			_, err := c.Host(r.t.Context(), h.ID)
			return err == nil
		})
	}
}

func (r *rig) cell(name string) cell.Cell {
	log := zap.NewNop()
	if os.Getenv("BERTH_TEST_LOG") != "" {
		log = zaptest.NewLogger(r.t)
	}
	c := cell.New(r.kafka, r.net.dial, log, name).Measured(r.metrics.Registerer())
	if r.net.dial == nil { // a minute of the test's own time
		c.DeadAfter = cmp.Or(r.deadAfter, 3*time.Second)
	}
	c.Reads, c.Tracer = r.reads, r.tracers[name]
	return c
}

// prepared is a cell that knows its partitions.
func (r *rig) prepared(name string) cell.Cell {
	r.t.Helper()
	c := r.cell(name)
	r.prepare(&c)
	return c
}

// prepare prepares a cell.
func (r *rig) prepare(c *cell.Cell) {
	r.t.Helper()
	r.able("prepare a cell", func() error { return c.Prepare(r.t.Context()) })
}

// able tries again, as a daemon does, while Kafka says that something cannot be done now: a broker with much to do has
// not at once what it has just made.
func (r *rig) able(what string, try func() error) {
	r.t.Helper()
	r.poll(what, func() bool {
		err := try()
		if compute.KindOf(err) == compute.KindUnavailable {
			return false
		}
		r.must(err)
		return true
	})
}

func (r *rig) startQueues() {
	r.t.Helper()
	options := cell.QueueManagerOptions{Hosts: r.believes(), Savings: r.savings}
	part, err := cell.NewQueueManager(r.prepared("queues"), options)
	r.must(err)
	r.start("queues", part)
}

func (r *rig) startConductor(name string) {
	r.t.Helper()
	options := cell.ConductorOptions{Name: name, Times: r.times, Hosts: r.believes(), Publishers: r.publishers}
	part, err := cell.NewConductor(r.prepared(name), options)
	r.must(err)
	r.start(name, part)
}

func (r *rig) startAPI() {
	r.t.Helper()
	o := statusserver.Options{Address: "127.0.0.1:0", Listen: r.net.listen}
	if r.metrics != nil {
		o.Metrics = r.metrics.Handler()
	}
	part, f := cell.NewAPIWithServer(r.prepared("api"), o, cell.APIOptions{Key: r.publishKey, UserData: r.seals})
	r.start("api", part)
	r.api = f.Addr().String()
}

// startAgents starts the agents of these hosts, all at once.
func (r *rig) startAgents(hosts ...cell.SimulatedHost) {
	r.t.Helper()
	c := r.prepared("agent")
	for _, h := range hosts {
		host, err := r.world.Host(h.ID, h.Inventory)
		r.must(err)
		driver := hypervisor.Driver(fake.NewDriver(host, h.Driver))
		if r.machines != nil {
			driver = r.machines(driver)
		}
		part, err := cell.NewAgent(
			c,
			cell.AgentOptions{
				Host: h.ID, State: r.data, Driver: driver, Timing: chatty, Key: r.keyOf(h.ID),
				Keys: r.opens,
			},
		)
		r.must(err)
		r.begin(string(h.ID), part)
	}
	for _, h := range hosts {
		r.ready(string(h.ID))
	}
}

// start runs a part and returns when it is ready.
func (r *rig) start(name string, p service.Part) {
	r.t.Helper()
	r.begin(name, p)
	r.ready(name)
}

func (r *rig) begin(name string, p service.Part) {
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{cancel: cancel, ready: p.Ready(), done: make(chan struct{})}
	r.parts[name] = run
	go func() {
		run.err = p.Run(ctx)
		close(run.done)
	}()
}

func (r *rig) ready(name string) {
	r.t.Helper()
	run := r.parts[name]
	select {
	case <-run.ready:
	case <-run.done:
		r.t.Fatalf("%s ended while starting: %v", name, run.err)
	case <-time.After(patience):
		r.t.Fatalf("%s is not ready after %s", name, patience)
	}
}

// stop ends a part in order and waits for it.
func (r *rig) stop(name string) {
	r.t.Helper()
	run := r.parts[name]
	run.cancel()
	<-run.done
	if run.err != nil {
		r.t.Errorf("%s: %v", name, run.err)
	}
	delete(r.parts, name)
}

func (r *rig) stopAll() {
	for _, run := range r.parts {
		run.cancel()
	}
	for _, name := range slices.Sorted(maps.Keys(r.parts)) {
		r.stop(name)
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// as talks to the API for a project.
func (r *rig) as(p compute.Project) *client.Client {
	r.t.Helper()
	return r.client(client.Config{Project: p})
}

// client talks to the API with these settings. Where a broker has much to do a node refuses for a while, and a client
// repeats for 10 s only by its default.
func (r *rig) client(s client.Config) *client.Client {
	r.t.Helper()
	s.Address, s.Timeout, s.Patience, s.Dial = r.api, patience, patience, r.net.dial
	c, err := client.New(s)
	r.must(err)
	r.t.Cleanup(c.Close)
	return c
}

// offer adds capabilities and flavors and waits until all their queues are open.
func (r *rig) offer(c *client.Client, axes []compute.Capability, flavors []compute.Flavor) {
	r.t.Helper()
	for _, a := range axes {
		r.able(fmt.Sprintf("axis %s is added", a.Axis), func() error {
			_, err := c.AddCapability(r.t.Context(), a, false)
			return mayPass(err)
		})
	}
	for _, f := range flavors {
		r.able(fmt.Sprintf("flavor %s is added", f.Name), func() error {
			_, err := c.AddFlavor(r.t.Context(), f, false)
			return mayPass(err)
		})
	}
	r.poll("all queues open", func() bool {
		open, wanted, err := openQueues(r.t.Context(), c)
		r.must(err)
		return open == wanted
	})
}

// answered repeats a request, which a client does not by itself, while a node answers that it cannot do it now.
func answered[T any](r *rig, ask func() (T, error)) (v T) {
	r.t.Helper()
	r.able("a request is answered", func() (err error) {
		v, err = ask()
		return err
	})
	return v
}

// settles repeats a request while a node answers that it cannot do it now, or does not hear whether it is done, and
// gives what it answers in the end.
func (r *rig) settles(ask func() error) (err error) {
	r.t.Helper()
	r.poll("a node answers", func() bool {
		err = mayPass(ask())
		return compute.KindOf(err) != compute.KindUnavailable
	})
	return err
}

// gone is settles of what is to be taken away: that it is not there any more is as good.
func (r *rig) gone(ask func() error) {
	r.t.Helper()
	if err := r.settles(ask); compute.KindOf(err) != compute.KindNotFound {
		r.must(err)
	}
}

// mayPass makes a time-out an error after which something is tried again: it changes nothing the second time.
func mayPass(err error) error {
	if compute.KindOf(err) == compute.KindTimeout {
		return compute.Unavailable("hear whether it is done", err)
	}
	return err
}

// boot asks for n machines and answers their ids.
func (r *rig) boot(c *client.Client, n int, b compute.Boot) []compute.InstanceID {
	r.t.Helper()
	var ids []compute.InstanceID
	for i := range n {
		one := b
		one.Name = fmt.Sprintf("vm-%04d", i)
		r.able("a boot is accepted", func() error {
			inst, err := c.Boot(r.t.Context(), "", one)
			if err == nil {
				ids = append(ids, inst.ID)
			}
			return err
		})
	}
	return ids
}

// failsAtOnce boots what does not wait, until one ends with this reason. On a machine that stands still what is said of
// hosts comes after the few seconds for which it is waited, and the reason is none.
func (r *rig) failsAtOnce(c *client.Client, f compute.FlavorName, want compute.ReasonCode) (id compute.InstanceID) {
	r.t.Helper()
	r.poll("a boot fails with "+string(want), func() bool {
		ids := r.boot(c, 1, compute.Boot{Flavor: f, OnNoCapacity: compute.FailAtOnce})
		r.await(ids, compute.StateError)
		id = ids[0]
		if got := r.seen.get(id).Reason.Code; got != compute.WaitingForCapacity {
			r.reason(id, want)
			return true
		}
		return false
	})
	return id
}

// delete asks for the end of these instances.
func (r *rig) delete(c *client.Client, ids []compute.InstanceID) {
	r.t.Helper()
	for _, id := range ids {
		_, err := c.Delete(r.t.Context(), id)
		r.must(err)
	}
}

// await returns when every one of these instances is in the state, as the log
// says; it fails when one ends in another.
func (r *rig) await(ids []compute.InstanceID, want compute.State) {
	r.t.Helper()
	r.seen.await(
		r.t,
		fmt.Sprintf("%d instances %s", len(ids), want),
		func(now map[compute.InstanceID]compute.Instance) bool {
			for _, id := range ids {
				inst := now[id]
				if inst.State == compute.StateError && want != compute.StateError {
					r.t.Fatalf("%s ended in error: %s", id, inst.Reason)
				}
				if inst.State != want {
					return false
				}
			}
			return true
		},
	)
}

// poll asks again and again for what no record tells.
func (r *rig) poll(what string, done func() bool) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	lost := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-lost:
			r.t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// exactlyOnce checks from outside that each of these was launched once and that
// nothing ever ran twice or overfilled its host.
func (r *rig) exactlyOnce(ids []compute.InstanceID) {
	r.t.Helper()
	launched, err := r.world.Count(fake.Launched)
	r.must(err)
	for _, id := range ids {
		if n := launched[id]; n != 1 {
			r.t.Errorf("%s was launched %d times", id, n)
		}
	}
	if len(launched) != len(ids) {
		r.t.Errorf("%d instances were launched, want %d", len(launched), len(ids))
	}
	r.sane()
}

// sane checks what must hold whatever happened.
func (r *rig) sane() {
	r.t.Helper()
	events, err := r.world.Events()
	r.must(err)
	for _, v := range fake.Violations(events) {
		r.t.Error(v)
	}
	for _, h := range r.world.Hosts() {
		for _, dev := range r.hosts {
			if room := dev.Inventory.Totals.Minus(dev.Inventory.Reserved); dev.ID == h.ID() && !h.Worst().FitsIn(room) {
				r.t.Errorf("%s held %s and has %s", h.ID(), h.Worst(), room)
			}
		}
	}
}

// unused checks that a project's quota has all come back.
func (r *rig) unused(c *client.Client) {
	r.t.Helper()
	r.poll("quota back", func() bool {
		q, err := c.Quota(r.t.Context(), c.Project())
		r.must(err)
		for _, u := range q.Resources {
			if u.Used != 0 {
				return false
			}
		}
		return true
	})
}

// witness reads the instances topic for the test, beside Berth.
type witness struct {
	mu   sync.Mutex
	now  map[compute.InstanceID]compute.Instance
	news chan struct{} // closed and replaced with every batch
	err  error

	offsets map[compute.InstanceID]int64 // of what is in now

	began []begun // which became active, and when the witness saw it

	foreign bool // others write to the topic too: what makes no sense is theirs
}

// begun is that an instance became active.
type begun struct {
	id compute.InstanceID
	at time.Time
	on compute.HostID
}

func newWitness() *witness {
	return &witness{
		now: map[compute.InstanceID]compute.Instance{}, offsets: map[compute.InstanceID]int64{}, news: make(chan struct{}),
	}
}

func (w *witness) take(recs []wire.Record, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rec := range recs {
		inst, err := wire.DecodeInstance(rec.ReadUpTo(wire.Schema + 1))
		if err != nil {
			if !w.foreign {
				w.err = err
			}
			continue
		}
		if old := w.now[inst.ID]; !w.foreign && inst.Version != old.Version+1 {
			w.err = fmt.Errorf("%s: version %d (%s at %s, in partition %d at %d) follows %d (%s at %s, at %d)", inst.ID,
				inst.Version, inst.State, inst.ChangedAt.Format(time.StampMilli), rec.Partition, rec.Offset,
				old.Version, old.State, old.ChangedAt.Format(time.StampMilli), w.offsets[inst.ID])
		}
		if inst.State == compute.StateActive && w.now[inst.ID].State != compute.StateActive {
			w.began = append(w.began, begun{inst.ID, time.Now(), inst.Host})
		}
		w.now[inst.ID], w.offsets[inst.ID] = inst, rec.Offset
	}
	close(w.news)
	w.news = make(chan struct{})
}

// await returns when done says so of what is known, looking after every batch.
func (w *witness) await(t *testing.T, what string, done func(map[compute.InstanceID]compute.Instance) bool) {
	t.Helper()
	lost := time.After(patience)
	for {
		ok, news, err := w.look(done)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-news:
		case <-lost:
			t.Fatalf("%s: not after %s; %s", what, patience, w.summary())
		}
	}
}

// look asks done, which may end the test, of all that there is now. news says when it should be asked again.
func (w *witness) look(
	done func(map[compute.InstanceID]compute.Instance) bool,
) (ok bool, news <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return done(w.now), w.news, w.err
}

// get is one instance as the log says.
func (w *witness) get(id compute.InstanceID) compute.Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now[id]
}

func (w *witness) summary() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[compute.State]int{}
	for _, i := range w.now {
		n[i.State]++
	}
	return fmt.Sprintf("states: %v", n)
}

// openQueues is how many queues the flavors have, and how many of them are open.
func openQueues(ctx context.Context, c *client.Client) (open, wanted int, err error) {
	flavors, err := c.Flavors(ctx)
	for _, f := range flavors {
		open += f.Queues.Open
		wanted += f.Queues.Wanted
	}
	return open, wanted, err
}
