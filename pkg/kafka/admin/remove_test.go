// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A leader is killed with records that nobody else has, and finished records are removed
// before it is back, up to the middle of a batch of the next leader: it is in sync again
// all the same.
func TestALeaderComesBackAfterRecordsWereRemoved(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	cfg := kafka.Config{Brokers: c.Addrs(), Topics: wire.Topics{Prefix: "t."}, RequestTimeout: time.Minute}
	a, queue := adminOf(t, cfg), cfg.Topics.Build("a")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.EnsureQueueTopics(brokertest.Patient(t), []compute.QueueName{"a"}, 3)
	must(err)
	leads, err := kafkatest.AskLeads(c.Addrs())
	must(err)
	defer leads.Close()
	alone := oneReplica(t, cfg, queue)
	put := func(values ...string) {
		t.Helper()
		for _, value := range values {
			must(alone.ProduceSync(brokertest.Patient(t), kgo.StringRecord(value)).FirstErr())
		}
	}
	put("0", "1", "2", "3", "4")
	inSync(t, leads)
	old, err := leads.Leader(brokertest.Patient(t), queue, 0)
	must(err)
	each := func(do func(int) error) {
		for id := 1; id <= c.Nodes(); id++ {
			if id != old {
				must(do(id))
			}
		}
	}
	each(c.Pause)
	// The first goes into fetches that are open; what follows is the leader's alone.
	put("fetched", "lost", "lost", "lost")
	must(c.Kill(old))
	each(c.Resume)
	first := batch(t, cfg, queue, 10)
	within := map[compute.QueueName]int64{"a": first + 1}
	must(a.DeleteRecordsBelow(brokertest.Patient(t), within))
	if at := logStart(t, a, queue); at != 0 {
		t.Errorf("records below %d are removed while broker %d is away", at, old)
	}
	must(c.Restart(t.Context(), old))
	inSync(t, leads)
	for ctx := brokertest.Patient(t); logStart(t, a, queue) != first+1; { // its leader hears of it a moment later
		must(a.DeleteRecordsBelow(ctx, within))
		must(ctx.Err())
	}
	inSync(t, leads)
}

// oneReplica is a producer that waits for the leader alone, record by record.
func oneReplica(t *testing.T, cfg kafka.Config, topic string) *kgo.Client {
	t.Helper()
	cl, err := kafka.NewClient(cfg, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.DisableIdempotentWrite(), kgo.ProducerLinger(0), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// batch writes one batch of so many records, and answers the offset of the first.
func batch(t *testing.T, cfg kafka.Config, topic string, n int) int64 {
	t.Helper()
	cl, err := kafka.NewClient(cfg, kgo.DefaultProduceTopic(topic), kgo.ManualFlushing())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var first kgo.Record
	for i := range n {
		rec := kgo.StringRecord("kept")
		cl.Produce(t.Context(), rec, func(r *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
			if i == 0 {
				first = *r
			}
		})
	}
	if err := cl.Flush(brokertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
	return first.Offset
}

func logStart(t *testing.T, a *Admin, topic string) int64 {
	t.Helper()
	starts, err := a.kadm.ListStartOffsets(brokertest.Patient(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := starts.Lookup(topic, 0)
	return at.Offset
}

// inSync waits until every replica of everything is in sync.
func inSync(t *testing.T, leads *kafkatest.Leads) {
	t.Helper()
	ctx := brokertest.Patient(t)
	for {
		ok, why := leads.Whole(ctx)
		if ok {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(why)
		}
	}
}
