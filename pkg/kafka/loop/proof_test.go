// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/wire"
)

// A conductor that was deposed and has not heard of it decides something that
// changes no record, a deny for example: nobody must hear of that.
func TestDeposedConductorPublishesNothing(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "zombie")
		var deposed atomic.Bool
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if deposed.Load() {
				res.Effects = append(res.Effects, effectAlone(cfg, 0, "from the grave"))
				l.say("decided")
			}
		}
		// It does not notice in time: its heart beats too slowly.
		o := Options{SessionTimeout: 5 * time.Minute, Heartbeat: 4 * time.Minute, TurnTimeout: 60 * time.Second}
		zombie := loop(t, cfg, o, l)
		brokertest.Await(t, zombie.Ready(), "the zombie is ready")
		feeding(t, cfg, "k").more(1, 1)
		zombie.await(t, "apply 0 k 1")
		expel(t, cfg)
		heir := newLedger(t, "heir")
		heir.onTurn = func(in wire.Turn, res *wire.Result) {
			if len(in.Sent) == 0 {
				res.Effects = append(res.Effects, effectAlone(cfg, 0, "from the heir"))
			}
		}
		next := loop(t, cfg, Options{SessionTimeout: longSession}, heir)
		next.await(t, "ready 0")
		deposed.Store(true)
		zombie.Wake()
		zombie.await(t, "decided")
		zombie.await(t, "lose 0")
		next.Wake()
		next.await(t, "sent from the heir <nil>")
		effects := openLog(t, cfg, effectsOf(cfg))
		effects.sync()
		heard := map[string]bool{}
		for _, rec := range effects.recs {
			heard[string(rec.Value)] = true
		}
		if heard["from the grave"] || !heard["from the heir"] {
			t.Errorf("was heard: %v", heard)
		}
	})
}

func effectAlone(cfg kafka.Config, p int32, value string) wire.Effect {
	rec := wire.Record{Key: []byte("k"), Value: []byte(value)}.To(effectsOf(cfg), p)
	return wire.Effect{Partition: p, Record: rec, Tag: value}
}

// What follows from a change waits for the batch that has the change, and for no
// other; without one a batch is written for it.
func TestEffectsCostABatchOnlyWithoutChanges(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l := newLedger(t, "a")
		l.effects = effectsOf(cfg)
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			for _, rec := range in.Records {
				if string(rec.Value) == "alone" {
					res.Effects = append(res.Effects, effectAlone(cfg, 0, "alone"))
				}
			}
		}
		a := loop(t, cfg, Options{SessionTimeout: longSession}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k")
		before := takeovers(t, cfg, 0) // more than one where an answer came too late
		if before < 1 {
			t.Fatal("the takeover has no record")
		}
		for n := range 5 {
			f.more(1, 1)
			a.await(t, fmt.Sprintf("sent k%d <nil>", n+1))
		}
		if n := takeovers(t, cfg, 0); n != before {
			t.Errorf("%d records without an instance, want the %d of the takeover alone", n, before)
		}
		brokertest.Put(t, cfg, cfg.Topics.Requests(), 0, "alone")
		a.await(t, "sent alone <nil>")
		if n := takeovers(t, cfg, 0); n != before+1 {
			t.Errorf("%d records without an instance, want one more than %d", n, before)
		}
	})
}

// A new owner does not decide again what was answered for good, though nothing in the log says what was decided; what
// is not repeated if its answer is lost it does, though something final was decided with it.
func TestWhatIsFinalIsNotDecidedAgain(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		answer := func(in wire.Turn, res *wire.Result) {
			for _, rec := range in.Records {
				if word := string(rec.Value); word == "final" || word == "again" {
					e := effectAlone(cfg, 0, word)
					e.Final = true
					if res.Effects = append(res.Effects, e); word == "again" {
						res.Effects = append(res.Effects, effectAlone(cfg, 0, "beside it"))
					}
				}
			}
		}
		l := newLedger(t, "a")
		l.onTurn = answer
		a := loop(t, cfg, Options{CommitEvery: time.Hour}, l) // killed before its position is known to the group
		brokertest.Await(t, a.Ready(), "the loop is ready")
		for _, word := range []string{"final", "again"} {
			brokertest.Put(t, cfg, cfg.Topics.Requests(), 0, word)
			a.await(t, fmt.Sprintf("sent %s <nil>", word))
		}
		a.kill(t)
		next := newLedger(t, "b")
		next.onTurn = answer
		b := loop(t, cfg, Options{}, next)
		for answered := ""; answered != "sent again <nil>"; {
			select {
			case answered = <-b.events:
				if answered == "sent final <nil>" {
					t.Error("what was final is answered again")
				}
			case <-brokertest.Patient(t).Done():
				t.Fatal("what is not final is never answered again")
			}
		}
	})
}

// A new owner decides again what was answered for good only where it has to read an input before it again: not one that
// led to a change, nor one that was answered for good itself, though what follows from them is still on its way.
func TestWhatIsFinalWaitsOnlyForWhatIsDecidedAgain(t *testing.T) {
	for first, again := range map[string][]string{"final": nil, "1": nil, "other": {"other", "second"}} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			short := map[string]string{"group.min.session.timeout.ms": "1000"}
			cluster, cfg := brokertest.FakeCluster(t, kfake.BrokerConfigs(short))
			makeCell(t, cfg, 1)
			read := make(chan string, 100)
			answer := func(in wire.Turn, res *wire.Result) {
				for _, rec := range in.Records {
					word := string(rec.Value)
					if read <- word; word != "1" && word != "last" {
						e := effectAlone(cfg, 0, word)
						e.Final = word != "other"
						res.Effects = append(res.Effects, e)
					}
				}
			}
			l := newLedger(t, "a")
			l.onTurn, l.effects = answer, effectsOf(cfg)
			a := loop(t, cfg, Options{CommitEvery: time.Hour, SessionTimeout: 3 * time.Second}, l)
			brokertest.Await(t, a.Ready(), "the loop is ready")
			instances := endOf(t, cfg, cfg.Topics.Instances(), 0)
			before := instances()
			held, release := holdEffects(cluster, cfg)
			brokertest.Put(t, cfg, cfg.Topics.Requests(), 0, first)
			brokertest.Await(t, held, "the first answer is on its way")
			brokertest.Put(t, cfg, cfg.Topics.Requests(), 0, "second")
			for ctx := brokertest.Patient(t); instances() < before+2; { // a record for each decision
				if ctx.Err() != nil {
					t.Fatal("the second is never decided")
				}
			}
			release()
			a.kill(t)
			for len(read) > 0 {
				<-read
			}
			next := newLedger(t, "b")
			next.onTurn = answer
			loop(t, cfg, Options{}, next)
			brokertest.Put(t, cfg, cfg.Topics.Requests(), 0, "last")
			var got []string
			for ctx := brokertest.Patient(t); !slices.Contains(got, "last"); {
				select {
				case word := <-read:
					got = append(got, word)
				case <-ctx.Done():
					t.Fatalf("the next owner read %v alone", got)
				}
			}
			if diff := cmp.Diff(append(again, "last"), got); diff != "" {
				t.Errorf("the next owner reads: %s", diff)
			}
		})
	}
}

// holdEffects has a cluster take no effects until they are released; held is closed when the first one is on its way.
func holdEffects(c *kfake.Cluster, cfg kafka.Config) (held <-chan struct{}, release func()) {
	began, released := make(chan struct{}), make(chan struct{})
	begun, id := sync.OnceFunc(func() { close(began) }), c.TopicInfo(effectsOf(cfg)).TopicID
	c.ControlKey(new(kmsg.ProduceRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		if of := k.(*kmsg.ProduceRequest).Topics[0]; of.Topic == effectsOf(cfg) || of.TopicID == id {
			begun()
			c.SleepControl(func() { <-released })
		}
		return nil, nil, false
	})
	return began, func() { close(released) }
}

// endOf asks for the end of a partition.
func endOf(t *testing.T, cfg kafka.Config, topic string, p int32) func() int64 {
	admin := kadm.NewClient(brokertest.AnyClient(t, cfg))
	return func() int64 {
		t.Helper()
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(topic, p)
		return end.Offset
	}
}

// takeovers counts the records of a partition of instances that are no instance's.
func takeovers(t *testing.T, cfg kafka.Config, p int32) (n int) {
	t.Helper()
	end := endOf(t, cfg, cfg.Topics.Instances(), p)()
	cl, err := kafka.NewClient(cfg, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		cfg.Topics.Instances(): {p: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for next := int64(0); next < end; {
		fetches := cl.PollFetches(brokertest.Patient(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			next = r.Offset + 1
			if unpack.FromKgo(r).IsTakeover() {
				n++
			}
		}
	}
	return n
}

// A conductor that is cut off from the group's coordinator alone, and from no
// leader, decides nothing once another may have its partitions.
func TestNoTurnsWithoutTheGroup(t *testing.T) {
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		l := newLooping(t, c)
		coordinator := c.CoordinatorFor("g")
		for _, topic := range []string{l.Cfg.Topics.Requests(), l.Cfg.Topics.Reports(), l.Cfg.Topics.Instances()} {
			for p := range int32(2) {
				if err := c.MoveTopicPartition(topic, p, (coordinator+1+p)%3); err != nil {
					t.Fatal(err)
				}
			}
		}
		var last atomic.Pointer[time.Time]
		l.onTurn = func(wire.Turn, *wire.Result) {
			now := time.Now()
			last.Store(&now)
		}
		cut := newDeaf(l.Cfg.Dial, c.ListenAddrs()[coordinator])
		whole := l.Cfg
		l.Cfg.Dial = cut.dial
		l.start(t)
		l.decided(t)
		cut.deaf(true)
		began := time.Now()
		heir := newLedger(t, "heir")
		stop := startLoop(t, whole, heir)
		heir.await(t, "ready 1")
		for range 60 {
			l.loop.Wake()
			brokertest.Passes(500 * time.Millisecond)
		}
		if late := last.Load().Sub(began); late >= DefaultSessionTimeout {
			t.Errorf("it decided %v after it was last heard", late)
		}
		cut.deaf(false)
		l.await(t, "lose 1")
		stop()
		l.await(t, "ready 1")
		l.send(t)
		l.decided(t)
		l.end(t)
	})
}

// startLoop runs another member of group g; what it answers ends it.
func startLoop(t *testing.T, cfg kafka.Config, l *ledger) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- New(cfg, Options{Group: "g"}, l).Run(ctx) }()
	return func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("%s ended with %v", l.name, err)
		}
	}
}

// deaf is a dialer by which one address hears nothing while it is cut off. Nothing
// refuses, as in a network that loses packets.
type deaf struct {
	next    func(ctx context.Context, network, address string) (net.Conn, error)
	address string
	mu      sync.Mutex
	off     bool
	conns   []net.Conn
}

func newDeaf(next func(ctx context.Context, network, address string) (net.Conn, error), address string) *deaf {
	return &deaf{next: next, address: address}
}

// deaf cuts the address off, or ends that.
func (d *deaf) deaf(off bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = off
	for _, conn := range d.conns {
		if !off {
			_ = conn.Close() // what was lost on it stays lost
		}
	}
	d.conns = nil
}

func (d *deaf) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.next(ctx, network, address)
	if err != nil || address != d.address {
		return conn, err
	}
	return deafConn{conn, d}, nil
}

type deafConn struct {
	net.Conn
	d *deaf
}

func (c deafConn) Write(b []byte) (int, error) {
	c.d.mu.Lock()
	off := c.d.off
	if off {
		c.d.conns = append(c.d.conns, c.Conn)
	}
	c.d.mu.Unlock()
	if off {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
