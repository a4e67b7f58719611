// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaread "github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/network"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// Options say how a schedule is played.
type Options struct {
	Dir string      // for journals and the broker's log; emptied by the caller
	Log *zap.Logger // of all parts; nil: none
}

// play is a schedule being played.
type play struct {
	schedule.Schedule
	product   lab.Product
	dir       string
	log       *zap.Logger
	net       embedded.Network
	broker    *broker
	world     *fake.World
	hosts     map[compute.HostID]*fake.Host
	troubles  troubles
	rec       *judge.Recording
	clients   *clients
	bouts     bouts
	laid      laid
	separated separations
	rings     rings
	late      chan struct{} // closed once all groups are there
	procs     map[string]*process
	order     []*process // as started
	mu        sync.Mutex
	clones    []*process // guarded by mu
	over      bool       // nothing is started any more
	busy      sync.WaitGroup
	asking    atomic.Int64  // things that were asked and may still be
	settled   atomic.Bool   // nobody need watch any more
	ours      *network.Link // of clients and operators: nothing happens to it
	observers *network.Link // of what reads the log for the judge
	reach     network.Reach // which brokers are there, if there are several
	stale     stale         // what brokers answer that have not heard
	keys      *keys         // of hosts; nil: they have none
	awaited   string        // the first of what was still to be done when last there was something
}

// prefix is the cell's.
const prefix = "sim."

// Play plays a schedule to its end and answers what happened. It must be called
// in a testing/synctest bubble.
func Play(p lab.Product, s schedule.Schedule, o Options) (*judge.Recording, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if !schedule.Several {
		s = s.WithOneBroker()
	}
	w := &play{
		late:     make(chan struct{}),
		Schedule: s, product: p, dir: o.Dir, log: o.Log, world: fake.NewWorld(),
		hosts: map[compute.HostID]*fake.Host{}, procs: map[string]*process{}, rec: judge.NewRecording(s),
		keys: newKeys(s),
	}
	w.ours, w.observers = w.link("clients", 0), w.link("observers", 0)
	if err := w.prepare(); err != nil {
		return nil, err
	}
	stop := w.observe()
	for _, p := range w.order {
		p.start()
	}
	for _, c := range w.World.Clocks {
		w.rec.CountFelt(c.Kind())
	}
	if w.World.TurnBytes > 0 {
		w.rec.CountFelt(schedule.SmallTurns)
	}
	w.clients = newClients(w)
	w.open()
	w.schedule()
	w.calm()
	w.reread()
	w.finish()
	stop()
	w.broker.stop()
	w.closeRecording()
	return w.rec, nil
}

// prepare makes the world, the broker and the processes; nothing runs yet.
func (w *play) prepare() (err error) {
	for i := range w.World.Hosts {
		h := &w.World.Hosts[i]
		if w.hosts[h.ID], err = w.world.Host(h.ID, compute.Inventory{Totals: h.Totals, Traits: h.Traits}); err != nil {
			return err
		}
	}
	w.broker = &broker{play: w}
	if err := w.startBroker(); err != nil {
		return err
	}
	for i := range w.World.Managers {
		w.add(
			fmt.Sprintf("queues-%d", i+1),
			func(p *process, l *life) service.Part { return w.part(l, lab.RoleQueues, p.name, "") },
		)
	}
	for i := range w.World.Conductors {
		w.add(
			fmt.Sprintf("conductor-%d", i+1),
			func(p *process, l *life) service.Part { return w.part(l, lab.RoleConductor, p.name, "") },
		)
	}
	for i := range w.World.Nodes {
		w.add(
			fmt.Sprintf("api-%d", i+1),
			func(p *process, l *life) service.Part { return w.part(l, lab.RoleAPI, p.name, node(i)) },
		)
	}
	for i := range w.World.Hosts {
		h := &w.World.Hosts[i]
		p := w.add(string(h.ID), (*process).agent)
		p.host, p.older = h, w.Upgrades(string(h.ID))
	}
	return nil
}

// node is the address of an API node.
func node(i int) string { return fmt.Sprintf("127.0.0.1:%d", 7001+i) }

func (w *play) add(name string, build func(*process, *life) service.Part) *process {
	p := &process{play: w, name: name}
	p.build = func(l *life) service.Part { return build(p, l) }
	w.procs[name] = p
	w.order = append(w.order, p)
	return p
}

// link is how one life of a process reaches the others. Its latencies are the
// same in every play of the schedule.
func (w *play) link(name string, life int) *network.Link {
	h := fnv.New64a()
	fmt.Fprint(h, w.Seed, name, life)
	l := network.NewLink(&w.net, w.World.Latency.Duration(), h.Sum64())
	w.reach.Add(l)
	return l
}

func (w *play) site(l *life, name string) lab.Site {
	return lab.Site{
		Brokers: w.World.Seeds(), Prefix: prefix, Waits: true, Partitions: w.World.Partitions,
		Dial: l.Dial, Listen: l.Listen, Log: w.log.Named(name), Reads: w.World.Reads(name),
		Clock: w.World.ClockOf(name), Hosts: w.keys.verifier(), Publishers: w.keys.publishers(), Key: w.keys.node(),
		TurnBytes: w.World.TurnBytes, Share: w.World.Share, Savings: w.World.Savings(),
	}
}

// part makes a process of the centre; address is where an API node answers.
func (w *play) part(l *life, r lab.Role, name, address string) service.Part {
	s := w.site(l, name)
	s.Address = address
	part, _ := w.product.Part(s, r, name)
	return part
}

// after does something later; nothing that is still due at the end.
func (w *play) after(d time.Duration, do func()) {
	w.busy.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			do()
		case <-w.ours.Dead:
		}
	})
}

// must is for what a simulation cannot do without, and what has nothing to do
// with what is simulated.
func (w *play) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("seed %d: the simulation itself failed: %v", w.Seed, err))
	}
}

// kafka is how we look at the log ourselves.
func (w *play) kafka() kafka.Config {
	return kafka.Config{
		Brokers:  w.World.Seeds(),
		ClientID: "sim",
		Topics:   wire.Topics{Prefix: prefix},
		Dial:     w.ours.Dial,
	}
}

// observe writes down what the log says, until stop.
func (w *play) observe() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cfg := w.kafka()
	cfg.Dial = w.observers.Dial
	topics := cfg.Topics
	var readers sync.WaitGroup
	read := func(o kafkaread.Options, each func(wire.Record)) {
		o.MaxWait = 2 * time.Second // a fetch that waits where the leader was is not answered by kfake
		o.Handle = func(b kafkaread.Batch) {
			for _, r := range b.Records {
				each(r)
			}
		}
		readers.Go(func() {
			for again := true; again; {
				err := kafkaread.NewReader(cfg, o).Run(ctx)
				if err != nil {
					w.rec.AddNote("observer", err.Error())
				}
				other := ctx.Err() == nil && isAnother(err)
				again = other && mayBeAnother(topics, o.Topic)
				if other && !again {
					w.rec.AddViolation("log", "", "%s was made anew or cut: %v", o.Topic, err)
				}
			}
		})
	}
	read(kafkaread.Options{Topic: topics.Instances(), Committed: true}, w.rec.ReadInstance)
	read(kafkaread.Options{Topic: topics.Hosts(), Gather: time.Second}, w.rec.ReadBeacon)
	read(kafkaread.Options{Topic: topics.Reports()}, func(rec wire.Record) {
		if w.keys.genuine(rec) { // a stranger's do not count for the judge either
			w.rec.ReadReport(rec)
		}
	})
	read(kafkaread.Options{Topic: topics.Queues()}, w.rec.ReadQueue)
	if w.keys != nil {
		read(kafkaread.Options{Topic: topics.Rejected()}, func(rec wire.Record) {
			w.rec.ReadRejected(rec, topics.Requests())
		})
	}
	for _, h := range w.World.Hosts {
		read(kafkaread.Options{Topic: topics.Host(h.ID)}, func(rec wire.Record) { w.rec.AddRing(h.ID, rec) })
	}
	for _, q := range w.Booted() {
		read(kafkaread.Options{Topic: topics.Build(q)}, w.rec.ReadBuild)
	}
	return func() { cancel(); readers.Wait(); w.observers.End() }
}

// finish stops everything in order.
func (w *play) finish() {
	w.over = true
	w.ours.End()
	w.busy.Wait()
	var all sync.WaitGroup
	for _, p := range append(w.order, w.clones...) {
		all.Go(p.stop)
	}
	all.Wait()
	w.clients.close()
	time.Sleep(time.Second) // kgo does not wait for a connection that it was opening
}
