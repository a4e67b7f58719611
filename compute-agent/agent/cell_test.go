// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// cell is everything around one agent, in plain memory: queues with locks, a
// conductor that grants the first claim of an attempt, the host's stream, and
// the fake world. It goes on when the agent dies.
type cell struct {
	t     *testing.T
	mu    sync.Mutex
	world *fake.World
	host  *fake.Host
	inv   compute.Inventory

	queues    map[compute.QueueName]*line
	brokers   int
	stream    []wire.Record
	oldest    int64 // what lies before it in the stream was removed
	insts     map[compute.InstanceID]*inst
	granted   map[claimKey]bool // whatever was ever granted
	reports   []compute.Report
	beacons   []compute.Beacon
	rejected  []compute.Rejected
	consoles  []compute.Console
	attempts  compute.Attempt // most attempts
	noGrants  bool            // claims are not answered
	older     bool            // its conductor does not say what a host that has forgotten it has
	unmanaged bool            // no queue manager says whether an agent is alone
	lost      int             // so many Sends fail, after they arrived
	hold      bool            // the test itself feeds the stream
	silent    bool            // advice is not read
	hang      bool            // fetches in secondary sessions do not end by themselves
	off       time.Duration   // how far the host's clock is ahead of the broker's; then work carries the broker's time
	schema    compute.Schema  // in which builds are written
	opens     []opening       // the fetches that were opened, the first one first
	over      chan struct{}

	away func(wire.Record) bool // whether the partition that a record goes to has no leader; nil: all have one

	node *node // the agent that runs, if one does
}

type line struct {
	ref   wire.QueueRef
	queue compute.Queue
	items []*item
}

type item struct {
	build    compute.Build
	schema   compute.Schema
	delivery int16
	holder   *node
	session  wire.SessionID
	since    time.Time
	done     bool
}

// inst is the conductor's record.
type inst struct {
	build   compute.Build
	state   compute.State
	attempt compute.Attempt
	claim   compute.ClaimID
	power   compute.PowerState
	command *compute.PowerCommand
	pinned  bool
	confirm bool
	noticed bool
}

// node is one life of the agent: its connections end with it.
type node struct {
	cell    *cell
	agent   *Agent
	journal *journal.Journal
	results chan wire.Pulled
	open    map[wire.SessionID]*openFetch
	cancel  context.CancelFunc
	done    chan error
	trip    *trip
}

// opening is a fetch that was opened.
type opening struct {
	secondary bool
	queues    []wire.QueueRef
	wait      time.Duration // 0: the puller's own
}

type openFetch struct {
	queues []wire.QueueRef
	timer  *time.Timer
}

var big = compute.Inventory{
	Totals: compute.Resources{compute.VCPU: 16, compute.MemoryMB: 16384, "CUSTOM_PCI": 1},
	Traits: []compute.Trait{"T"},
}

func newCell(t *testing.T, queues ...compute.Queue) *cell {
	w := fake.NewWorld()
	h, err := w.Host("h1", big)
	if err != nil {
		t.Fatal(err)
	}
	c := &cell{
		t: t, world: w, host: h, inv: big, queues: map[compute.QueueName]*line{}, brokers: 1,
		insts: map[compute.InstanceID]*inst{}, granted: map[claimKey]bool{}, attempts: 3, over: make(chan struct{}),
	}
	for _, q := range queues {
		c.add(q)
	}
	go c.repeat()
	return c
}

// broker is the broker's clock.
func (c *cell) broker() time.Time { return time.Now().Add(-c.off) }

// add makes a queue; list tells the agent of all.
func (c *cell) add(q compute.Queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.Group, q.TopicID = "g", compute.TopicID("id-"+string(q.Name))
	c.queues[q.Name] = &line{ref: wire.QueueRef{Name: q.Name, Group: q.Group, TopicID: q.TopicID}, queue: q}
}

func queue(name string, r compute.Resources) compute.Queue {
	return compute.Queue{Name: compute.QueueName(name), Flavor: "f", Resources: r}
}

func id(n int) compute.InstanceID {
	return compute.InstanceID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
}

// repeat is the conductor's "until answered".
func (c *cell) repeat() {
	every := time.NewTicker(15 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-c.over:
			return
		}
		c.mu.Lock()
		for _, id := range slices.Sorted(maps.Keys(c.insts)) {
			c.effects(c.insts[id])
		}
		c.expire()
		c.mu.Unlock()
	}
}

// start runs an agent on the host. Life after life has the same journal.
func (c *cell) start(dir string, d fake.Options, change func(*Options)) *node {
	c.t.Helper()
	j, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{NoSync: true})
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{
		cell: c, journal: j, results: make(chan wire.Pulled, 64), open: map[wire.SessionID]*openFetch{},
		done: make(chan error, 1),
	}
	o := Options{
		Host: "h1", Partitions: 2, Topics: wire.Topics{}, Journal: j, Driver: fake.NewDriver(c.host, d), Puller: n,
		Reporter: n,
		Log:      zap.NewNop(),
	}
	if change != nil {
		change(&o)
	}
	n.agent, err = New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	c.mu.Lock()
	c.node = n
	from := n.agent.StartOffset()
	if !c.hold {
		if from < c.oldest || from > int64(len(c.stream)) {
			from = c.oldest
			n.agent.Missed(from)
		}
		n.agent.Commands(slices.Clone(c.stream[from:]), true)
	}
	c.mu.Unlock()
	go func() { n.done <- n.agent.Run(ctx) }()
	c.list()
	return n
}

func (c *cell) list() {
	var recs []wire.Record
	for _, name := range slices.Sorted(maps.Keys(c.queues)) {
		recs = append(recs, wire.EncodeQueue(c.queues[name].queue))
	}
	c.node.agent.Queues(recs, true)
	if !c.silent {
		c.node.agent.Advice(nil, true)
	}
}

// end waits until a stopped or killed agent has ended, and drops its
// connections.
func (n *node) end() error {
	n.cancel()
	err := <-n.done
	n.cell.mu.Lock()
	defer n.cell.mu.Unlock()
	n.drop()
	if n.cell.node == n {
		n.cell.node = nil
	}
	return errors.Join(err, n.journal.Close())
}

// drop is what a broker does when a connection closes.
func (n *node) drop() {
	for _, f := range n.open {
		f.timer.Stop()
	}
	clear(n.open)
	for _, l := range n.cell.queues {
		for _, it := range l.items {
			if it.holder == n {
				it.holder = nil
			}
		}
	}
}

var errDead = errors.New("the agent is dead")

// Send delivers reports to the conductor, and keeps the last beacon.
func (n *node) Send(_ context.Context, recs ...wire.Record) error {
	c := n.cell
	if n.trip.cross("send") {
		return errDead
	}
	c.mu.Lock()
	for _, rec := range recs {
		c.handle(rec)
	}
	failing := c.lost > 0
	if failing {
		c.lost--
	}
	c.mu.Unlock()
	if n.trip.cross("sent") {
		return errDead
	}
	if failing {
		return errors.New("no answer")
	}
	return nil
}

// SendEach is one Send. What goes to a partition that is away fails late and alone, as a producer has it.
func (n *node) SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error)) {
	var there []wire.Record
	var at, away []int
	for i, rec := range recs {
		if n.cell.isAway(rec) {
			away = append(away, i)
		} else {
			there, at = append(there, rec), append(at, i)
		}
	}
	if len(there) > 0 {
		sentEach(len(there), n.Send(ctx, there...), func(i int, err error) { told(at[i], err) })
	}
	if len(away) > 0 {
		service.Sleep(ctx, 30*time.Second)
		noLeader := compute.Unavailable("write record", errors.New("no leader"))
		sentEach(len(away), noLeader, func(i int, err error) { told(away[i], err) })
	}
}

func (c *cell) isAway(rec wire.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away != nil && c.away(rec)
}

// sentEach tells of each record what a Send of all of them has answered.
func sentEach(n int, err error, told func(i int, err error)) {
	for i := range n {
		told(i, err)
	}
}

// boot is a request that was admitted.
func (c *cell) boot(n int, q string, change ...func(*compute.Build)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := compute.Build{
		Instance: id(n), Project: "p", Name: fmt.Sprint("i", n), Attempt: 1, Queue: compute.QueueName(q),
		Resources: c.queues[compute.QueueName(q)].queue.Resources, At: time.Now(),
	}
	for _, f := range change {
		f(&b)
	}
	c.insts[b.Instance] = &inst{build: b, state: compute.StateQueued, attempt: 1}
	c.publish(c.insts[b.Instance])
}

func (c *cell) pin(n int, q string, r compute.Resources) {
	c.pinBuild(compute.Build{
		Instance: id(n), Project: "p", Attempt: 1, Queue: compute.QueueName(q), Resources: r,
	}, func(*compute.Build) {})
}

func (c *cell) pinBuild(b compute.Build, change func(*compute.Build)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&b)
	c.insts[b.Instance] = &inst{build: b, state: compute.StateQueued, attempt: 1, pinned: true}
	c.publish(c.insts[b.Instance])
}

func (c *cell) delete(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch x := c.insts[id(n)]; x.state {
	case compute.StateQueued:
		x.state = compute.StateDeleted
	case compute.StateStarting, compute.StateActive:
		x.state, x.command, x.confirm = compute.StateDeleting, nil, false
		c.effects(x)
	}
}

func (c *cell) command(n int, op compute.RequestOp, v compute.Version) {
	c.commandWith(n, compute.PowerCommand{Op: op, Version: v})
}

func (c *cell) commandWith(n int, p compute.PowerCommand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.insts[id(n)]
	p.Command = compute.CommandID(fmt.Sprint("c", p.Version))
	x.command = &p
	c.effects(x)
}

func (c *cell) state(n int) compute.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.insts[id(n)].state
}

// want compares the conductor's states, in order of instance.
func (c *cell) want(states ...compute.State) {
	c.t.Helper()
	for i, want := range states {
		if got := c.state(i + 1); got != want {
			c.t.Errorf("instance %d is %s, want %s", i+1, got, want)
		}
	}
}

// check compares the conductor's records with what is on the host, and reads
// the world's own record of what ran.
func (c *cell) check() {
	c.t.Helper()
	events, err := c.world.Events()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, v := range fake.Violations(events) {
		c.t.Error(v)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	there := map[compute.InstanceID]hypervisor.Machine{}
	for _, m := range c.host.Machines() {
		there[m.Instance] = m
	}
	for id, x := range c.insts {
		m, ok := there[id]
		if active := x.state == compute.StateActive; active != ok || active && !m.Launched {
			c.t.Errorf("%s is %s, and on the host: %t (%+v)", id, x.state, ok, m)
		}
	}
	if worst := c.host.Worst(); !worst.FitsIn(c.inv.Totals) {
		c.t.Errorf("the host held %s at once", worst)
	}
}

func (c *cell) counts(k fake.EventKind) map[compute.InstanceID]int {
	n, err := c.world.Count(k)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}
