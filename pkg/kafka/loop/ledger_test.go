// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// ledger is the simplest handler that can be wrong in every way a loop can make
// it: for each key it keeps the last number applied, and an input is the next
// number. What is applied twice, left out or forgotten shows at once.
type ledger struct {
	t    testing.TB
	name string

	mu     sync.Mutex
	last   map[int32]map[string]int // by partition and key
	tail   map[int32][]wire.Record  // restored, for effects
	owned  map[int32]string         // gained, ready
	gains  map[int32]int
	cursor map[int32]int64 // as handed to Restored
	until  map[int32]time.Time
	bell   chan struct{} // rung with every event; may be shared
	events chan string   // "ready 3", "lose 3", "apply 3 k 17"; never blocks: large

	effects string                                  // topic; empty: none
	onTurn  func(in wire.Turn, res *wire.Result)    // called in Turn, without the lock
	onReady func(p int32, now time.Time) *time.Time // wake at
	unfit   map[int32]*compute.Error                // what it cannot decide about, and why
}

func newLedger(t testing.TB, name string) *ledger {
	return &ledger{
		t: t, name: name, last: map[int32]map[string]int{}, tail: map[int32][]wire.Record{},
		owned: map[int32]string{},
		gains: map[int32]int{}, cursor: map[int32]int64{}, until: map[int32]time.Time{},
		events: make(chan string, 1<<20),
	}
}

func (l *ledger) say(format string, args ...any) {
	l.events <- fmt.Sprintf(format, args...)
	if l.bell != nil {
		select {
		case l.bell <- struct{}{}:
		default:
		}
	}
}

// owners waits until some ledgers have all partitions between them, each once.
func owners(t testing.TB, bell <-chan struct{}, partitions int, of ...*running) {
	t.Helper()
	ctx := brokertest.Patient(t)
	for {
		var has []int32
		for _, r := range of {
			has = append(has, r.has()...)
		}
		slices.Sort(has)
		if len(has) == partitions && len(slices.Compact(has)) == partitions {
			return
		}
		select {
		case <-bell:
		case <-ctx.Done():
			t.Fatalf("they never had all; now %v", has)
		}
	}
}

func (l *ledger) Gain(p int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned[p] != "" {
		l.t.Errorf("%s: gained %d, which it has", l.name, p)
	}
	l.owned[p] = "gained"
	l.gains[p]++
	l.last[p] = map[string]int{}
}

func (l *ledger) Restore(p int32, rec wire.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned[p] != "gained" || rec.Partition != p {
		l.t.Errorf("%s: restore of %d, which is %q", l.name, p, l.owned[p])
	}
	l.last[p][string(rec.Key)], _ = strconv.Atoi(string(rec.Value))
	l.tail[p] = append(l.tail[p], rec)
}

func (l *ledger) Restored(p int32, cursor int64, now time.Time) (res wire.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned[p] != "gained" {
		l.t.Errorf("%s: restored %d, which is %q", l.name, p, l.owned[p])
	}
	l.owned[p] = "ready"
	if why := l.unfit[p]; why != nil {
		return wire.Result{
			Aside: why, Changes: []wire.Record{{Partition: p, Key: []byte("k"), Value: []byte("not to be written")}},
		}
	}
	l.cursor[p] = cursor
	for _, rec := range l.tail[p] {
		if rec.Offset >= cursor {
			res.Effects = l.effect(res.Effects, p, string(rec.Key), string(rec.Value))
		}
	}
	if l.onReady != nil {
		if at := l.onReady(p, now); at != nil {
			res.Wake = *at
		}
	}
	l.say("ready %d", p)
	return res
}

func (l *ledger) Lose(p int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned[p] == "" {
		l.t.Errorf("%s: lost %d, which it does not have", l.name, p)
	}
	delete(l.owned, p)
	delete(l.last, p)
	delete(l.tail, p)
	l.say("lose %d", p)
}

func (l *ledger) Turn(in wire.Turn) (res wire.Result) {
	l.apply(in, &res)
	if l.onTurn != nil {
		l.onTurn(in, &res)
	}
	return res
}

func (l *ledger) apply(in wire.Turn, res *wire.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, at := range in.TimersUntil {
		l.until[p] = at
		l.say("timers %d", p)
	}
	for _, rec := range in.Records {
		p, key := rec.Partition, string(rec.Key)
		if l.owned[p] != "ready" {
			l.t.Errorf("%s: input of %d, which is %q", l.name, p, l.owned[p])
			continue
		}
		n, err := strconv.Atoi(string(rec.Value))
		if err != nil { // a word, not a number: not of the ledger
			l.say("word %d %s", p, rec.Value)
			continue
		}
		if l.last[p][key] != n-1 {
			l.t.Errorf("%s: %s of partition %d: applied %d, then %d", l.name, key, p, l.last[p][key], n)
		}
		l.last[p][key] = n
		res.Changes = append(res.Changes, wire.Record{Key: rec.Key, Value: rec.Value, Partition: p})
		res.Effects = l.effect(res.Effects, p, key, string(rec.Value))
		l.say("apply %d %s %d", p, key, n)
	}
	for _, s := range in.Sent {
		l.say("sent %v %v", s.Tag, s.Err)
	}
}

func (l *ledger) effect(to []wire.Effect, p int32, key, value string) []wire.Effect {
	if l.effects == "" {
		return to
	}
	rec := wire.Record{Key: []byte(key), Value: []byte("effect-" + key + "-" + value + ".")}.To(l.effects, p)
	return append(to, wire.Effect{Partition: p, Record: rec, Tag: key + value})
}

// has is the partitions that are ready here.
func (l *ledger) has() []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var has []int32
	for p, state := range l.owned {
		if state == "ready" {
			has = append(has, p)
		}
	}
	slices.Sort(has)
	return has
}

// state is what it believes of all its partitions.
func (l *ledger) state() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for _, keys := range l.last {
		maps.Copy(all, keys)
	}
	return all
}

// await waits for an event of the ledger.
func (l *ledger) await(t testing.TB, event string) {
	t.Helper()
	ctx := brokertest.Patient(t)
	for {
		select {
		case e := <-l.events:
			if e == event {
				return
			}
		case <-ctx.Done():
			t.Fatalf("%s: never %q; has %v", l.name, event, l.has())
		}
	}
}

// running is a loop under test.
type running struct {
	*Loop
	*ledger
	wire *cutter
	ctx  context.CancelFunc
	done chan error // told once, when it ends
}

// longSession is for tests in which no loop dies, and that count what it gains or hears or look at what it has: a short
// one ends on a busy machine, and all is gained anew.
const longSession = time.Minute

// longStop is for tests that go on from what a loop commits as it stops, or from its having left the group: on a busy
// machine it is not done with that in a few seconds.
const longStop = time.Minute

// quick makes deaths noticed soon.
func quick(o Options) Options {
	orDefault(&o.SessionTimeout, 1500*time.Millisecond)
	orDefault(&o.Heartbeat, 100*time.Millisecond)
	orDefault(&o.TurnTimeout, 20*time.Second)
	orDefault(&o.StopTimeout, 3*time.Second)
	orDefault(&o.CommitEvery, 100*time.Millisecond)
	return o
}

// loop runs a loop with a ledger until the test ends or stop or kill is called.
func loop(t testing.TB, cfg kafka.Config, opts Options, l *ledger) *running {
	t.Helper()
	opts.Group = cfg.Topics.ConductorGroup()
	r := &running{ledger: l, wire: newCutter(cfg.Dial), done: make(chan error, 1)}
	cfg.Dial = r.wire.dial
	if testing.Verbose() {
		cfg.Log = zaptest.NewLogger(t).Named(l.name)
	}
	r.Loop = New(cfg, quick(opts), l)
	ctx, cancel := context.WithCancel(context.Background())
	r.ctx = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := r.Run(ctx)
		if err != nil {
			t.Errorf("%s ended with %v", l.name, err)
		}
		r.done <- err
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

// stop ends it in order.
func (r *running) stop(t testing.TB) {
	t.Helper()
	r.ctx()
	select {
	case <-r.done:
	case <-brokertest.Patient(t).Done():
		t.Fatalf("%s does not stop", r.name)
	}
}

// kill is kill -9: nothing it says is heard any more.
func (r *running) kill(t testing.TB) {
	t.Helper()
	r.wire.cut()
	r.stop(t)
}

// cutter is a dialer that can cut all its connections, for ever.
type cutter struct {
	next  func(ctx context.Context, network, address string) (net.Conn, error)
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
	watch func(written []byte) bool // true: cut before this is written
	fell  chan struct{}             // closed when all is cut
}

func newCutter(next func(ctx context.Context, network, address string) (net.Conn, error)) *cutter {
	if next == nil {
		next = new(net.Dialer).DialContext
	}
	return &cutter{next: next, fell: make(chan struct{})}
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.next(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c.conns = append(c.conns, conn)
	return watched{conn, c}, nil
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		c.dead = true
		close(c.fell)
	}
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

type watched struct {
	net.Conn
	c *cutter
}

func (w watched) Write(b []byte) (int, error) {
	w.c.mu.Lock()
	watch := w.c.watch
	w.c.mu.Unlock()
	if watch != nil && watch(b) {
		w.c.cut()
		return 0, net.ErrClosed
	}
	return w.Conn.Write(b)
}

func (c *cutter) on(watch func([]byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = watch
}

// eachCell runs a suite on both brokers, with the topics of a cell.
func eachCell(t *testing.T, partitions int32, suite func(t *testing.T, cfg kafka.Config)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		b, err := embedded.Start(embedded.Options{Configs: map[string]string{"group.min.session.timeout.ms": "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		cfg := kafka.Config{Brokers: b.Addrs(), Topics: wire.Topics{Prefix: "c."}}
		makeCell(t, cfg, partitions)
		suite(t, cfg)
	})
	t.Run("kafka", func(t *testing.T) {
		cfg := brokertest.TestConfig(kafkatest.Kafka(t))
		makeCell(t, cfg, partitions)
		suite(t, cfg)
	})
}

func makeCell(t testing.TB, cfg kafka.Config, partitions int32) {
	t.Helper()
	for _, topic := range []string{
		cfg.Topics.Requests(), cfg.Topics.Reports(), cfg.Topics.Instances(), cfg.Topics.Rejected(), effectsOf(cfg),
	} {
		brokertest.MakeTopic(t, cfg, topic, partitions, nil)
	}
}

func effectsOf(cfg kafka.Config) string { return cfg.Topics.Prefix + "effects" }

// feeder writes the numbers of some keys, each key's in order.
type feeder struct {
	t    testing.TB
	p    *write.Producer
	cfg  kafka.Config
	n    map[string]int
	keys []string
}

// feeding makes a feeder; keys that begin with "report" go to reports.
func feeding(t testing.TB, cfg kafka.Config, keys ...string) *feeder {
	return &feeder{t: t, p: clienttest.Producer(t, cfg), cfg: cfg, n: map[string]int{}, keys: keys}
}

// more writes the next n numbers of every key; key i goes to partition i modulo partitions.
func (f *feeder) more(n int, partitions int32) {
	f.t.Helper()
	var recs []wire.Record
	for range n {
		for i, key := range f.keys {
			f.n[key]++
			topic := f.cfg.Topics.Requests()
			if strings.HasPrefix(key, "report") {
				topic = f.cfg.Topics.Reports()
			}
			recs = append(
				recs, wire.Record{Key: []byte(key), Value: fmt.Append(nil, f.n[key])}.To(topic, int32(i)%partitions),
			)
		}
	}
	if err := f.p.Send(brokertest.Patient(f.t), recs...); err != nil {
		f.t.Fatal(err)
	}
}
