package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestEndingOf(t *testing.T) {
	o := openTxn{producer: 7, epoch: 3}
	for _, c := range []struct {
		state    string
		producer int64
		epoch    int16
		want     ending
	}{
		{"CompleteCommit", 7, 4, commits},
		{"CompleteAbort", 7, 4, aborts},
		{"CompleteCommit", 7, 5, unknown}, // it speaks of the next one
		{"CompleteCommit", 7, 3, unknown}, // epochs do not rise there: it may speak of any
		{"CompleteAbort", 8, 4, unknown},
		{"Ongoing", 7, 3, pending},
		{"Ongoing", 7, 4, unknown},
		{"PrepareCommit", 7, 3, pending},
		{"PrepareCommit", 7, 4, pending},
		{"PrepareAbort", 7, 4, pending},
		{"PrepareCommit", 7, 5, unknown},
		{"Empty", 7, 4, unknown},
		{"Dead", 7, 4, unknown},
		{"", 7, 4, unknown},
	} {
		if got := endingOf(o, kadm.DescribedTransaction{State: c.state, ProducerID: c.producer, ProducerEpoch: c.epoch}); got != c.want {
			t.Errorf("%s of producer %d in epoch %d: %d, want %d", c.state, c.producer, c.epoch, got, c.want)
		}
	}
}

func TestJavaHash(t *testing.T) {
	for s, want := range map[string]int32{"": 0, "abc": 96354, "berth.conductor": javaHashByHand("berth.conductor"), "zzzzzzzz": 0x7fffffff & javaHashByHand("zzzzzzzz")} {
		if got := javaHash(s); got != want || got < 0 {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// javaHashByHand is s[0]*31^(n-1) + … + s[n-1] as Java defines it.
func javaHashByHand(s string) int32 {
	sum := int32(0)
	for i := range len(s) {
		term := int32(s[i])
		for range len(s) - 1 - i {
			term *= 31
		}
		sum += term
	}
	return sum & 0x7fffffff
}

// A partition without a leader is not told how a transaction ended, and Kafka
// does not tell it later: only that makes this test one. Whoever begins a new
// epoch tells it, and so does whoever waits for the partition.
func TestForgottenEndsAreWritten(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	cfg := Config{Brokers: c.Addrs(), Topics: wire.Topics{Prefix: "t."}}.withDefaults()
	const lost = 3 // the broker that will be away
	makeTopic(t, cfg, cfg.Topics.Requests(), 3, nil)
	makeTopic(t, cfg, cfg.Topics.Reports(), 3, nil)
	makeTopic(t, cfg, cfg.Topics.Rejected(), 3, nil)
	makeTopic(t, cfg, effectsOf(cfg), 3, nil)
	placeTopic(t, cfg, cfg.Topics.Instances(), 3, lost)
	f := feeding(t, cfg, "a", "b", "c")
	f.more(2, 3)
	var ids []string
	var left []*transactor
	for p := range 3 {
		ids = append(ids, coordinatedElsewhere(t, cfg, fmt.Sprintf("t.%d-", p), lost))
		left = append(left, begun(t, cfg, ids[p], int32(p), f.keys[p]))
		defer left[p].discard(context.Background())
	}
	if err := c.Kill(lost); err != nil {
		t.Fatal(err)
	}
	awaitLeaderless(t, cfg, cfg.Topics.Instances())
	for p, tx := range left {
		if err := tx.client.EndTransaction(patient(t), kgo.TransactionEndTry(p != 1)); err != nil {
			t.Fatal(err)
		}
		awaitComplete(t, cfg, ids[p])
	}
	if err := c.Restart(patient(t), lost); err != nil {
		t.Fatal(err)
	}
	m := menderOf(t, cfg)
	until(t, "all partitions can be asked", func() error {
		open, unasked, err := m.open(patient(t))
		if err == nil && unasked == nil && len(open) != 3 {
			t.Fatalf("%+v are open, want all three: has Kafka changed?", open)
		}
		return errors.Join(err, unasked)
	})

	for _, p := range []int{0, 1} { // each by who begins anew under its id
		tx := &transactor{cfg: cfg, opts: left[p].opts, topics: left[p].topics}
		if err := tx.open(patient(t)); err != nil {
			t.Fatal(err)
		}
		tx.discard(context.Background())
	}
	if open, _, err := m.open(patient(t)); err != nil || len(open) != 1 || open[0].partition != 2 {
		t.Fatalf("open are %+v, want that of partition 2; %v", open, err)
	}
	heir := loop(t, cfg, LoopOptions{}, newLedger(t, "heir")) // and the third by who waits for it
	f.more(1, 3)
	heir.await(t, "apply 2 c 3")
	instances := openLog(t, cfg, cfg.Topics.Instances())
	instances.until("has all", func() bool { return len(instances.recs) >= 9 })
	instances.exact(f.n)
}

// placeTopic makes a topic with one replica of each partition, all on one broker.
func placeTopic(t *testing.T, cfg Config, topic string, partitions, broker int32) {
	t.Helper()
	cl := clientOf(t, cfg)
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	for p := range partitions {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = p, []int32{broker}
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(patient(t), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the topic is known", func() error {
		_, err := describeTopic(patient(t), cl, topic)
		return err
	})
}

// coordinatedElsewhere is a transactional id that some other broker coordinates.
func coordinatedElsewhere(t *testing.T, cfg Config, name string, than int32) string {
	t.Helper()
	admin := kadm.NewClient(clientOf(t, cfg))
	for i := 0; ; i++ {
		id := fmt.Sprint(name, i)
		var at int32
		until(t, "there is a coordinator", func() error {
			found := admin.FindTxnCoordinators(patient(t), id)[id]
			at = found.NodeID
			return found.Err
		})
		if at != than {
			return id
		}
	}
}

// begun is a transaction with two changes and their positions, and no end.
func begun(t *testing.T, cfg Config, id string, p int32, key string) *transactor {
	t.Helper()
	tx := &transactor{cfg: cfg, opts: LoopOptions{Group: cfg.Topics.ConductorGroup(), TransactionalID: id, TransactionTimeout: time.Minute}.withDefaults(), topics: inputTopicsOf(t, cfg)}
	if err := tx.open(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := tx.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	var changes []wire.Record
	for n := range 2 {
		changes = append(changes, wire.Record{Key: []byte(key), Value: fmt.Append(nil, n+1)}.To(cfg.Topics.Instances(), p))
	}
	if _, err := tx.produce(patient(t), changes); err != nil {
		t.Fatal(err)
	}
	if err := tx.commitOffsets(patient(t), fence{generation: -1}, []position{{partition: p, at: [inputTopics]int64{2, 0}}}); err != nil {
		t.Fatal(err)
	}
	return tx
}

// awaitLeaderless waits until all brokers that live know that nobody leads.
func awaitLeaderless(t *testing.T, cfg Config, topic string) {
	t.Helper()
	cl := clientOf(t, cfg)
	until(t, "nobody leads", func() error {
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
		for _, b := range []int{1, 2} {
			resp, err := cl.Broker(b).RetriableRequest(patient(t), req)
			if err != nil {
				return err
			}
			for _, p := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
				if p.Leader >= 0 {
					return errors.New("somebody leads")
				}
			}
		}
		return nil
	})
}

func awaitComplete(t *testing.T, cfg Config, id string) {
	t.Helper()
	admin := kadm.NewClient(clientOf(t, cfg))
	until(t, "the transaction is complete", func() error {
		all, err := admin.DescribeTransactions(patient(t), id)
		if s := all[id].State; err == nil && s != "CompleteCommit" && s != "CompleteAbort" {
			err = errors.New(s)
		}
		return err
	})
}

func menderOf(t *testing.T, cfg Config) *mender {
	t.Helper()
	m, err := newMender(patient(t), clientOf(t, cfg), cfg.Log, cfg.Topics.Instances(), cfg.Topics.ConductorGroup())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func clientOf(t *testing.T, cfg Config) *kgo.Client {
	t.Helper()
	cl, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// until asks again until it is so.
func until(t *testing.T, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a broker may be starting
	defer cancel()
	if _, err := retry(ctx, zap.NewNop(), "", nil, func() (struct{}, error) { return struct{}{}, ask() }); err != nil {
		t.Fatalf("waited in vain until %s: %v", what, err)
	}
}
