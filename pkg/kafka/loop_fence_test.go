package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A process that slept through the loss of its partitions wakes in the middle of
// a turn that has no inputs, only a timer's change: it must not commit.
func TestZombieDoesNotCommit(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		l := newLedger(t, "zombie")
		entered, proceed, armed := make(chan struct{}), make(chan struct{}), true
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if armed && len(in.Records) == 0 {
				armed = false
				close(entered)
				<-proceed
				res.Changes = []wire.Record{{Key: []byte("from the grave"), Value: []byte("1"), Partition: 0}}
			}
		}
		// It does not notice in time: its heart beats too slowly.
		zombie := loop(t, cfg, LoopOptions{SessionTimeout: 60 * time.Second, Heartbeat: 50 * time.Second, TransactionTimeout: 60 * time.Second}, l)
		await(t, zombie.Ready(), "the zombie is ready")
		f := feeding(t, cfg, "k")
		f.more(1, 1)
		zombie.await(t, "apply 0 k 1")
		awaitCursor(t, cfg, 1) // everything is committed: no position moves in the turn to come
		zombie.Wake()
		await(t, entered, "its turn began")
		expel(t, cfg)
		heir := loop(t, cfg, LoopOptions{}, newLedger(t, "heir"))
		heir.await(t, "ready 0")
		f.more(1, 1)
		heir.await(t, "apply 0 k 2")
		close(proceed)
		zombie.await(t, "lose 0")
		f.more(1, 1)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has the third", func() bool { return len(instances.seen["k"]) == 3 })
		instances.sync()
		instances.exact(f.n)
		if n := len(instances.seen["from the grave"]); n > 0 {
			t.Error("the zombie wrote")
		}
	})
}

// The log must say what was decided before the positions are believed: an open
// transaction of the owner before is waited for, and what it decided counts.
func TestGainWaitsForAnOpenTransaction(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		f := feeding(t, cfg, "k")
		f.more(2, 1)
		before := &transactor{cfg: cfg.withDefaults(), opts: LoopOptions{Group: cfg.Topics.ConductorGroup(), TransactionalID: cfg.Topics.Prefix + "before"}.withDefaults()}
		before.topics = inputTopicsOf(t, cfg)
		if err := before.open(patient(t)); err != nil {
			t.Fatal(err)
		}
		defer before.discard(context.Background())
		if err := before.client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var changes []wire.Record
		for n := range 2 {
			changes = append(changes, wire.Record{Key: []byte("k"), Value: fmt.Append(nil, n+1)}.To(cfg.Topics.Instances(), 0))
		}
		if _, err := before.produce(patient(t), changes); err != nil {
			t.Fatal(err)
		}
		if err := before.commitOffsets(patient(t), fence{generation: -1}, []position{{at: [inputTopics]int64{2, 0}}}); err != nil {
			t.Fatal(err)
		}
		heir := newLedger(t, "heir")
		asked, dial := counter(cfg, new(kmsg.OffsetFetchRequest).Key(), 8, new(kmsg.FetchRequest).Key(), 2)
		loopCfg := cfg
		loopCfg.Dial = dial
		a := loop(t, loopCfg, LoopOptions{}, heir)
		await(t, asked, "it has asked for positions again and again, or begun to read")
		if err := before.client.EndTransaction(patient(t), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		f.more(1, 1)
		a.await(t, "apply 0 k 3")
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has the third", func() bool { return len(instances.recs) >= 3 })
		instances.exact(f.n)
	})
}

// counter is a dialer that closes the channel once so many requests of one or
// of the other kind were written.
func counter(cfg Config, one int16, ones int, other int16, others int) (<-chan struct{}, func(context.Context, string, string) (net.Conn, error)) {
	c, done, n, mu := newCutter(cfg.Dial), make(chan struct{}), map[int16]int{}, new(sync.Mutex)
	enough := sync.OnceFunc(func() { close(done) })
	c.on(func(b []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(b) < 6 {
			return false
		}
		if key := int16(b[4])<<8 | int16(b[5]); key == one || key == other {
			if n[key]++; n[one] >= ones || n[other] >= others {
				enough()
			}
		}
		return false
	})
	return done, c.dial
}

func inputTopicsOf(t *testing.T, cfg Config) (topics [inputTopics]inputTopic) {
	t.Helper()
	cl, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i, name := range []string{cfg.Topics.Requests(), cfg.Topics.Reports()} {
		d, err := describeTopic(patient(t), cl, name)
		if err != nil {
			t.Fatal(err)
		}
		topics[i] = inputTopic{name, d.TopicID}
	}
	return topics
}

// What was ours in the generation just before goes on; after any other, somebody
// may have had it between.
func TestOnlyTheNextGenerationKeepsPartitions(t *testing.T) {
	for _, c := range []struct {
		next fence
		keep bool
	}{
		{fence{"me", 8}, true},
		{fence{"me", 9}, false},
		{fence{"me", 7}, false},
		{fence{"me anew", 8}, false},
	} {
		ask, err := newClient(Config{Brokers: []string{"127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, "a")
		var sources [inputTopics]*source
		for i := range sources {
			sources[i] = &source{client: ask}
		}
		r := newLoopRun(NewLoop(Config{}, LoopOptions{}, l), ask, sources, [inputTopics]inputTopic{}, newOutbox(nil))
		ctx, cancel := context.WithCancel(t.Context())
		r.ctx = ctx
		if err := errors.Join(r.assigned(groupNews{fence: fence{"me", 7}, own: []int32{0, 1}}), r.assigned(groupNews{fence: c.next, own: []int32{1, 2}})); err != nil {
			t.Fatal(err)
		}
		want := map[int32]int{0: 1, 1: 2, 2: 1}
		if c.keep {
			want[1] = 1
		}
		if diff := cmp.Diff(want, l.gains); diff != "" {
			t.Errorf("generation %v after 7: %s", c.next, diff)
		}
		cancel()
		r.gains.Wait()
		ask.Close()
	}
}

// expel removes the only member of the conductors' group behind its back.
func expel(t *testing.T, cfg Config) {
	t.Helper()
	cl, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	groups, err := kadm.NewClient(cl).DescribeGroups(patient(t), cfg.Topics.ConductorGroup())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = cfg.Topics.ConductorGroup()
	for _, m := range groups[req.Group].Members {
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.MemberID = m.MemberID
		req.Members = append(req.Members, rm)
	}
	if len(req.Members) != 1 {
		t.Fatalf("%d members", len(req.Members))
	}
	resp, err := req.RequestWith(patient(t), cl)
	if err != nil || resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
}

// What cannot be read is written down before it is passed over.
func TestRejectsComeBeforeTheCommit(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		later := cfg.Topics.Prefix + "later"
		l := newLedger(t, "a")
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			for _, rec := range in.Records {
				if string(rec.Value) == "nonsense" {
					res.Rejects = append(res.Rejects, wire.Record{Key: rec.Key, Value: rec.Value}.To(later, 0))
				}
			}
		}
		a := loop(t, cfg, LoopOptions{}, l)
		await(t, a.Ready(), "the loop is ready")
		put(t, cfg, cfg.Topics.Requests(), 0, "nonsense")
		f := feeding(t, cfg, "k")
		f.more(1, 1)
		for range 3 { // it tries, and does not get past
			a.await(t, "apply 0 k 1")
			a.await(t, "lose 0")
		}
		if at, _ := committedOf(t, cfg, 0); at[requests] > 0 {
			t.Errorf("committed %v", at)
		}
		makeTopic(t, cfg, later, 1, nil)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has the change", func() bool { return len(instances.recs) > 0 })
		instances.exact(f.n)
		rejected := openLog(t, cfg, later)
		rejected.sync()
		if len(rejected.recs) == 0 {
			t.Error("passed over and not written down")
		}
	})
}

// A transaction whose end is refused or unknown is no transaction: everything is
// read from the log again, and goes on.
func TestLoopRestoresAfterAFailedTransaction(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.UnknownServerError, kerr.ProducerFenced} {
		for _, at := range []kmsg.Request{new(kmsg.EndTxnRequest), new(kmsg.TxnOffsetCommitRequest)} {
			t.Run(fmt.Sprintf("%s %s", kmsg.NameForKey(at.Key()), code.Message), func(t *testing.T) {
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				cfg := Config{Brokers: cluster.ListenAddrs(), Topics: wire.Topics{Prefix: "f."}}
				makeCell(t, cfg, 2)
				a := loop(t, cfg, LoopOptions{SessionTimeout: 10 * time.Second}, newLedger(t, "a"))
				await(t, a.Ready(), "the loop is ready")
				f := feeding(t, cfg, "k0", "k1")
				f.more(3, 2)
				instances := openLog(t, cfg, cfg.Topics.Instances())
				instances.until("has all", func() bool { return len(instances.recs) == 6 })
				cluster.ControlKey(at.Key(), func(k kmsg.Request) (kmsg.Response, error, bool) { return refusal(k, code), nil, true })
				f.more(3, 2)
				instances.until("has all", func() bool { return len(instances.recs) >= 12 })
				instances.sync()
				instances.exact(f.n)
				a.stop(t)
				if a.gains[0] != 2 || a.gains[1] != 2 {
					t.Errorf("gained %v times, want twice each", a.gains)
				}
			})
		}
	}
}

func refusal(k kmsg.Request, code *kerr.Error) kmsg.Response {
	switch req := k.(type) {
	case *kmsg.EndTxnRequest:
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = code.Code
		return resp
	case *kmsg.TxnOffsetCommitRequest:
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewTxnOffsetCommitResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, code.Code
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp
	}
	return nil
}

// A configured name fences its own orphan: the restarted process does not wait
// until the transaction of the killed one times out.
func TestRestartUnderTheSameNameEndsItsOrphan(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		opts := LoopOptions{TransactionalID: cfg.Topics.Prefix + "conductor-1", TransactionTimeout: 10 * time.Minute, StopTimeout: 100 * time.Millisecond}
		a := loop(t, cfg, opts, newLedger(t, "a"))
		await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k")
		f.more(1, 1)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has the first", func() bool { return len(instances.recs) == 1 })
		endTxn := byte(new(kmsg.EndTxnRequest).Key())
		a.wire.on(func(b []byte) bool { return len(b) > 6 && b[4] == 0 && b[5] == endTxn })
		f.more(1, 1)
		a.await(t, "apply 0 k 2")
		await(t, a.wire.fell, "its last request was cut off")
		a.kill(t)
		b := loop(t, cfg, opts, newLedger(t, "b"))
		b.await(t, "apply 0 k 2")
		instances.until("has both", func() bool { return len(instances.recs) == 2 })
		instances.exact(f.n)
	})
}

// The partitions of the three topics must meet.
func TestLoopRefusesTopicsThatDoNotMatch(t *testing.T) {
	b := kafkatest.Embedded(t)
	cfg := testConfig(b)
	makeTopic(t, cfg, cfg.Topics.Requests(), 4, nil)
	makeTopic(t, cfg, cfg.Topics.Reports(), 3, nil)
	makeTopic(t, cfg, cfg.Topics.Instances(), 4, nil)
	err := NewLoop(cfg, LoopOptions{Group: "g"}, newLedger(t, "a")).Run(patient(t))
	if compute.KindOf(err) != compute.KindConflict || !strings.Contains(err.Error(), cfg.Topics.Reports()) {
		t.Errorf("ended with %v", err)
	}
}
