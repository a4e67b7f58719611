// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A process that slept through the loss of its partitions wakes in the middle of
// a turn that has no inputs, only a timer's change: it must not commit.
func TestZombieDoesNotCommit(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
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
		zombie := loop(
			t, cfg,
			Options{SessionTimeout: 60 * time.Second, Heartbeat: 50 * time.Second, TurnTimeout: 60 * time.Second}, l,
		)
		brokertest.Await(t, zombie.Ready(), "the zombie is ready")
		f := feeding(t, cfg, "k")
		f.more(1, 1)
		zombie.await(t, "apply 0 k 1")
		awaitCursor(t, cfg, 1) // everything is committed: no position moves in the turn to come
		zombie.Wake()
		brokertest.Await(t, entered, "its turn began")
		expel(t, cfg)
		heir := loop(t, cfg, Options{}, newLedger(t, "heir"))
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

// What an earlier owner wrote before the takeover counts, its positions with it;
// after that it writes nothing, whatever it believes.
func TestTakeoverEndsTheWritingBefore(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		f := feeding(t, cfg, "k", "report")
		f.more(2, 1)
		before := fencedWriterOf(t, cfg)
		taken := epochsOf(t, before, 0)
		numbers := func(key string, ns ...int) (recs []wire.Record) {
			for _, n := range ns {
				recs = append(recs, wire.Record{Key: []byte(key), Value: fmt.Append(nil, n)})
			}
			return recs
		}
		both := append(numbers("k", 1, 2), numbers("report", 1)...)
		position{at: [inputTopics]int64{2, 1}, cursor: 0}.carry(both)
		e := &entry{epoch: taken[0].epoch, records: both}
		if err := before.write(brokertest.Patient(t), map[int32]*entry{0: e}); err != nil {
			t.Fatal(err)
		}
		// Sent again, as after an answer that was lost, it is not there twice.
		again := &entry{epoch: taken[0].epoch, records: both}
		if err := before.write(
			brokertest.Patient(t), map[int32]*entry{0: again},
		); err != nil || again.offset != e.offset {
			t.Fatalf("again: at %d and %d, %v", e.offset, again.offset, err)
		}
		heir := newLedger(t, "heir")
		a := loop(t, cfg, Options{SessionTimeout: longSession}, heir)
		a.await(t, "apply 0 report 2")
		if heir.cursor[0] != 0 {
			t.Errorf("the cursor was %d", heir.cursor[0])
		}
		late := &entry{epoch: e.epoch.after(3), records: numbers("from the grave", 1)}
		if err := before.write(
			brokertest.Patient(t), map[int32]*entry{0: late},
		); !errors.Is(err, kerr.InvalidProducerEpoch) {
			t.Errorf("the one before wrote: %v", err)
		}
		f.more(1, 1)
		a.await(t, "apply 0 k 3")
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has all", func() bool { return len(instances.recs) >= 6 })
		instances.exact(f.n)
	})
}

// A producer epoch that was renewed is good; one that somebody else took meanwhile is not.
func TestProducerEpochIsRaised(t *testing.T) {
	eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
		s := fencedWriterOf(t, cfg)
		first := epochsOf(t, s, 0, 1)
		had := map[int32]producerEpoch{0: first[0].epoch, 1: first[1].epoch}
		raised, err := s.raise(brokertest.Patient(t), 0, had[0])
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.begin(brokertest.Patient(t), 0, raised)
		if err != nil {
			t.Fatal(err)
		}
		one := func(p producerEpoch) map[int32]*entry {
			return map[int32]*entry{0: {epoch: p, records: []wire.Record{{Key: []byte("k"), Value: []byte("1")}}}}
		}
		if err := s.write(brokertest.Patient(t), one(again.epoch)); err != nil {
			t.Error(err)
		}
		if err := s.write(brokertest.Patient(t), one(had[0])); !errors.Is(err, kerr.InvalidProducerEpoch) {
			t.Errorf("with the producer epoch before: %v", err)
		}
		epochsOf(t, fencedWriterOf(t, cfg), 1)
		if strings.HasSuffix(t.Name(), "kafka") { // kfake raises whatever epoch it is shown
			if _, err := s.raise(brokertest.Patient(t), 1, had[1]); err == nil {
				t.Error("renewed although somebody else has it")
			}
		}
	})
}

// A loop goes on through renewals, without restoring anything.
func TestLoopRenewsItsProducerEpochs(t *testing.T) {
	eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
		a := loop(t, cfg, Options{
			RenewEvery: 50 * time.Millisecond, SessionTimeout: longSession,
			ParkAfter: time.Minute, TurnTimeout: 2 * time.Minute, // what is parked while an epoch is renewed is undone
		}, newLedger(t, "a"))
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k0", "k1")
		instances := openLog(t, cfg, cfg.Topics.Instances())
		for i := range 3 {
			f.more(10, 2)
			instances.until("has all", func() bool { return len(instances.recs) == 20*(i+1) })
		}
		instances.exact(f.n)
		// kfake refuses the old producer epoch at once, Kafka when the new one has written.
		if strings.HasSuffix(t.Name(), "kafka") && (a.gains[0] != 1 || a.gains[1] != 1) {
			t.Errorf("gained %v times", a.gains)
		}
	})
}

// epochsOf takes producer epochs, however young the cluster is.
func epochsOf(t *testing.T, s *fencedWriter, partitions ...int32) map[int32]*entry {
	t.Helper()
	taken, err := retry.Do(
		brokertest.Patient(t),
		s.cfg.Log,
		"waiting for producer epochs",
		nil,
		func() (map[int32]*entry, error) {
			return s.takeOver(brokertest.Patient(t), partitions)
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func fencedWriterOf(t *testing.T, cfg kafka.Config) *fencedWriter {
	t.Helper()
	cfg = cfg.WithDefaults()
	cl, err := kafka.NewClient(cfg, kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s := &fencedWriter{
		cfg: cfg, group: cfg.Topics.ConductorGroup(), most: DefaultTurnBytes, client: cl,
		topic: &fetch.Source{
			Client: cl, Topic: cfg.Topics.Instances(), Log: cfg.Log, Outage: cfg.OutageReporter("write"),
		},
	}
	if err := s.topic.Open(brokertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
	return s
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
		ask, err := kafka.NewClient(kafka.Config{Brokers: []string{"127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, "a")
		var sources [inputTopics]*fetch.Source
		for i := range sources {
			sources[i] = &fetch.Source{Client: ask}
		}
		r := newLoopRun(
			New(kafka.Config{}, Options{}, l), ask, sources, [inputTopics]inputTopic{}, &fetch.Source{Client: ask},
			newOutbox(nil, nil),
		)
		r.group = &membership{client: ask}
		ctx, cancel := context.WithCancel(t.Context())
		r.ctx = ctx
		if err := errors.Join(
			r.assigned(groupNews{fence: fence{"me", 7}, own: []int32{0, 1}}),
			r.assigned(groupNews{fence: c.next, own: []int32{1, 2}}),
		); err != nil {
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
func expel(t *testing.T, cfg kafka.Config) {
	t.Helper()
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	groups, err := kadm.NewClient(cl).DescribeGroups(brokertest.Patient(t), cfg.Topics.ConductorGroup())
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
	resp, err := req.RequestWith(brokertest.Patient(t), cl)
	if err != nil || resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
}

// What cannot be read is written down before it is passed over.
func TestRejectsComeBeforeTheCommit(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		later := cfg.Topics.Prefix + "later"
		l := newLedger(t, "a")
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			for _, rec := range in.Records {
				if string(rec.Value) == "nonsense" {
					res.Rejects = append(res.Rejects, wire.Record{Key: rec.Key, Value: rec.Value}.To(later, 0))
				}
			}
		}
		a := loop(t, cfg, Options{}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		brokertest.Put(t, cfg, cfg.Topics.Requests(), 0, "nonsense")
		f := feeding(t, cfg, "k")
		f.more(1, 1)
		for range 3 { // it tries, and does not get past
			a.await(t, "apply 0 k 1")
			a.await(t, "lose 0")
		}
		if at, _ := committedOf(t, cfg, 0); at[requests] > 0 {
			t.Errorf("committed %v", at)
		}
		brokertest.MakeTopic(t, cfg, later, 1, nil)
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

// What a turn decided of a partition and could not write, or nobody knows whether it
// was written, was not decided: that partition is read from the log again, and goes on.
func TestLoopRestoresAfterAFailedTurn(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.InvalidProducerEpoch, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidRecord,
	} {
		t.Run(code.Message, func(t *testing.T) {
			cluster, cfg := brokertest.FakeCluster(t)
			makeCell(t, cfg, 2)
			id := fencedWriterOf(t, cfg).topic.Current().Id
			a := loop(t, cfg, Options{SessionTimeout: longSession}, newLedger(t, "a"))
			brokertest.Await(t, a.Ready(), "the loop is ready")
			f := feeding(t, cfg, "k0", "k1")
			f.more(3, 2)
			instances := openLog(t, cfg, cfg.Topics.Instances())
			instances.until("has all", func() bool { return len(instances.recs) == 6 })
			refused, of := make(chan struct{}), map[int32]bool{}
			cluster.ControlKey(new(kmsg.ProduceRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
				req := k.(*kmsg.ProduceRequest)
				if req.Topics[0].TopicID != id && req.Topics[0].Topic != cfg.Topics.Instances() {
					return nil, nil, false
				}
				for _, rp := range req.Topics[0].Partitions {
					of[rp.Partition] = true
				}
				close(refused)
				return refusal(req, code), nil, true
			})
			f.more(3, 2)
			brokertest.Await(t, refused, "a turn was refused")
			instances.until("has all", func() bool { return len(instances.recs) >= 12 })
			instances.sync()
			instances.exact(f.n)
			a.stop(t)
			for p := range int32(2) {
				if again := a.gains[p] == 2; again != of[p] || a.gains[p] > 2 {
					t.Errorf("partition %d was gained %d times; refused was %v", p, a.gains[p], of)
				}
			}
		})
	}
}

func refusal(req *kmsg.ProduceRequest, code *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			sp := kmsg.NewProduceResponseTopicPartition()
			sp.Partition, sp.ErrorCode = rp.Partition, code.Code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// A turn that changes more than a batch holds is made smaller until it fits.
func TestLargeTurnsAreCut(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		f := feeding(t, cfg, "k0", "k1")
		f.more(16, 1)
		a := loop(t, cfg, Options{TurnRecords: 32, TurnBytes: 400, SessionTimeout: longSession}, newLedger(t, "a"))
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has all", func() bool { return len(instances.recs) == 32 })
		instances.exact(f.n)
		if a.gained(0) < 2 {
			t.Error("all fitted into one turn")
		}
	})
}

// What follows from no input cannot be cut in inputs: it is written piecemeal,
// and brokers that take less than was thought are heard.
func TestLargeTurnsWithoutInputs(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg kafka.Config) {
		l, many := newLedger(t, "a"), 50
		l.onTurn = func(in wire.Turn, res *wire.Result) {
			if len(in.Records) > 0 {
				return
			}
			for n := range many {
				res.Changes = append(
					res.Changes, wire.Record{Key: []byte("tick"), Value: fmt.Append(nil, n+1), Partition: 0},
				)
			}
			many = 0
		}
		a := loop(t, cfg, Options{TurnBytes: 800, SessionTimeout: longSession}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k")
		f.more(3, 1)
		a.await(t, "apply 0 k 3")
		a.Wake()
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has all", func() bool { return len(instances.recs) == 53 })
		f.n["tick"] = 50
		instances.exact(f.n)
		if a.gains[0] != 1 {
			t.Errorf("gained %v times", a.gains)
		}
	})
}

// The partitions of the three topics must meet.
func TestLoopRefusesTopicsThatDoNotMatch(t *testing.T) {
	b := kafkatest.Embedded(t)
	cfg := brokertest.TestConfig(b)
	brokertest.MakeTopic(t, cfg, cfg.Topics.Requests(), 4, nil)
	brokertest.MakeTopic(t, cfg, cfg.Topics.Reports(), 3, nil)
	brokertest.MakeTopic(t, cfg, cfg.Topics.Instances(), 4, nil)
	err := New(cfg, Options{Group: "g"}, newLedger(t, "a")).Run(brokertest.Patient(t))
	if compute.KindOf(err) != compute.KindConflict || !strings.Contains(err.Error(), cfg.Topics.Reports()) {
		t.Errorf("ended with %v", err)
	}
}
