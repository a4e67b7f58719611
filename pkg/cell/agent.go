// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"cmp"
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/placeholder"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	kafkaread "github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/share"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/service"
)

// AgentOptions say how an agent runs in this process.
type AgentOptions struct {
	Host    compute.HostID
	State   string                            // folder of the journal
	Home    home.Place                        // of the machines; none: nobody else can have them
	Driver  hypervisor.Driver                 // nil: Open opens it
	Open    func() (hypervisor.Driver, error) // called once the machines are known to be this agent's
	Slots   int                               // 0: the agent's default
	Terms   offer.Terms
	Weigher compute.Weigher
	Labels  map[string]string
	Journal journal.Options
	Timing  agent.Timing
	Key     *hostkey.Key       // of this host, with which all that it says is signed; nil: it is not
	Keys    *sealed.Keys       // open sealed user data; nil: what has some is left to others
	Made    func(*agent.Agent) // hears of the agent before it runs; nil: nobody does
}

// NewAgent joins one host's agent. Its journal is opened, and so locked, at
// once: a second agent of the same host is refused here. It is closed when the
// part has ended, or at once if the part cannot be made.
func NewAgent(c Cell, o AgentOptions) (_ service.Part, err error) {
	if err := StateFolder(o.State, c.Log); err != nil {
		return nil, err
	}
	if err := MachinesFolder(o.Home, c.Log); err != nil {
		return nil, err
	}
	o.Journal.Host = o.Host
	j, aside, err := journal.Recover(JournalFile(o.State, o.Host), o.Journal)
	if aside != "" {
		c.Log.Error(
			"the journal was damaged: a new one begins, and the hypervisor is asked what runs",
			zap.String("kept", aside),
		)
	}
	if err != nil {
		return nil, err
	}
	g := service.NewGroup()
	defer unmade(g, &err)
	g.Closes("journal", j.Close)
	lock, heir, err := takeHome(c, j, o)
	if err != nil {
		return nil, err
	}
	g.Closes("home", lock.Release)
	if o.Driver == nil {
		if o.Driver, err = o.Open(); err != nil {
			return nil, err
		}
	}
	if !o.Driver.Capabilities().Placeholders {
		if o.Driver, err = placeholder.Over(o.Driver, PlaceholdersFolder(o.State, o.Host), c.Log); err != nil {
			return nil, err
		}
	}
	reporter, err := write.NewReporter(c.Kafka)
	if err != nil {
		return nil, err
	}
	g.Closes("reporter", func() error { reporter.Close(); return nil })
	says := agent.Reporter(reporter)
	if o.Key != nil {
		says = hostkey.Signed(reporter, *o.Key)
	}
	puller := share.NewPuller(c.Kafka, share.Options{})
	var stream atomic.Pointer[kafkaread.Reader] // nil: not yet
	heard := func() (at time.Time) {
		if r := stream.Load(); r != nil {
			at = r.CaughtUpAt()
		}
		return at
	}
	a, err := agent.New(agent.Options{
		Host: o.Host, Partitions: c.Partitions, Topics: c.Topics(), Journal: j, Driver: o.Driver,
		Puller: puller, Reporter: says, Log: c.Log, Slots: o.Slots, Terms: o.Terms, Weigher: o.Weigher, Labels: o.Labels,
		Timing: o.Timing, Keys: o.Keys, Heir: heir, Heard: heard,
		Metrics: agent.NewMetrics(c.metrics), Tracer: c.Tracer, Reads: c.Reads, Now: c.Clock.now(),
	})
	if err != nil {
		return nil, err
	}
	if o.Made != nil {
		o.Made(a)
	}
	topics := c.Topics()
	shared := kafkaread.NewSharedFetch(c.Kafka)
	read := func(o kafkaread.Options, to feed) *kafkaread.Reader {
		o.MaxWait = cmp.Or(o.MaxWait, hostWait)
		return shared.Reader(to.takes(o))
	}
	commands := read(hostStream(topics.Host(o.Host), a), a.Commands)
	stream.Store(commands)
	g.Add("puller", puller)
	// The host's stream is made by the queue manager after the first beacon, so
	// it is no condition for being ready. It is read until the agent has ended: to
	// what was claimed an answer may still come.
	g.Add("streams", eager{service.Together(
		commands,
		read(kafkaread.Options{Topic: topics.Queues()}, a.Queues),
		read(kafkaread.Options{Topic: topics.Advice(), Pace: advicePace, MaxWait: 2 * hostWait}, a.Advice),
	)})
	g.Add("agent", a)
	return g, nil
}

// JournalFile is where a host's journal is.
func JournalFile(state string, host compute.HostID) string {
	return filepath.Join(state, string(host)+".journal")
}

// PlaceholdersFolder is where a host keeps placeholders of reservations: beside its journal.
func PlaceholdersFolder(state string, host compute.HostID) string {
	return filepath.Join(state, string(host)+".placeholders")
}

// takeHome holds the machines of a host for its agent. Machines that are another's
// are left alone: the agent does not start. heir says that an agent was there before, of which the journal knows
// nothing: one with another journal, or with this one, which may have waited for the other in vain.
func takeHome(c Cell, j *journal.Journal, o AgentOptions) (lock *home.Lock, heir bool, err error) {
	known, err := j.Read()
	if err != nil {
		return nil, false, err
	}
	lock, err = o.Home.Acquire(home.Owner{Host: o.Host, Journal: j.ID()}, known.Unused(), known.Machines())
	if err != nil || lock == nil || lock.Was().Journal == "" {
		return lock, false, err
	}
	other := lock.Was().Journal != j.ID()
	if other {
		c.Log.Warn("the journal before this one is lost: this one takes its machines over",
			zap.String("host", string(o.Host)), zap.String("folder", o.Home.String()),
			zap.String("before", string(lock.Was().Journal)), zap.String("journal", string(j.ID())))
	}
	return lock, other || known.Unused(), nil
}

// AgentPart is a host's agent as a part of several: one that cannot be made ends
// them all.
func AgentPart(c Cell, o AgentOptions) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) { return agentWithRoom(ctx, c, o) })
}

// hostWait is how long a broker may hold a host's fetch: what a thousand idle hosts
// cost is one answer each in this time. A frozen leader is noticed that much later.
const hostWait = 20 * time.Second

// advicePace is how long a host leaves between two looks at the advice. It tells a
// host that the queue manager is there, which rings hosts, and what to do when it is
// not. Each record of it would wake every host there is, and each look is a fetch of
// its own. It goes with the fetch that is next, so an idle host looks at every second.
const advicePace = 25 * time.Second

// hostStream is read from where the journal says that it goes on.
func hostStream(topic string, a *agent.Agent) kafkaread.Options {
	return kafkaread.Options{
		Topic: topic, From: kafkaread.At(map[int32]int64{0: a.StartOffset()}),
		Missed: func(_ int32, next int64) { a.Missed(next) },
	}
}

// eager is a part that others do not wait for.
type eager struct{ service.Part }

func (eager) Ready() <-chan struct{} { return service.Func(nil).Ready() }

// FakeHome is a host's part of the world's folder; none: the world is in memory.
func FakeHome(world string, host compute.HostID) home.Place {
	return home.Place{Dir: world, Name: string(host) + ".", Mode: 0o755}
}
