// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A reader that is slower than retention goes on with what there is, and says so.
func TestReaderSkipsWhatWasRemovedBeforeIt(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "advice"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		brokertest.Put(t, cfg, topic, 0, "0")
		logs, _ := brokertest.LogTo(&cfg)
		batches, proceed := make(chan Batch), make(chan struct{})
		var missed []int64
		r := reader(cfg, Options{Topic: topic, MaxWait: 100 * time.Millisecond, Handle: func(b Batch) {
			batches <- b
			<-proceed
		}, Missed: func(_ int32, next int64) { missed = append(missed, next) }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		<-batches // the reader now hangs in Handle
		brokertest.Put(t, cfg, topic, 0, "1", "2", "3")
		brokertest.RemoveBelow(t, cfg, topic, 3)
		close(proceed)
		if got := <-batches; len(got.Records) != 1 || string(got.Records[0].Value) != "3" || !got.End {
			t.Errorf("got %+v", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := logs.FilterMessage("records were removed before they were read").Len(); n != 1 {
			t.Errorf("said so %d times: %v", n, logs.All())
		}
		if !slices.Equal(missed, []int64{3}) {
			t.Errorf("missed %v, want 3", missed)
		}
	})
}

// A log that is shorter than what was read is another log.
func TestReaderEndsWhenTheLogLostRecords(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	brokertest.MakeTopic(t, cfg, "t", 1, nil)
	brokertest.Put(t, cfg, "t", 0, "0", "1", "2")
	r := read(t, cfg, Options{Topic: "t", MaxWait: 100 * time.Millisecond})
	r.upTo(t, "2")
	cluster.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return outOfRange(k.(*kmsg.FetchRequest)), nil, true
	})
	cluster.ControlKey(new(kmsg.ListOffsetsRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return offsetOne(k.(*kmsg.ListOffsetsRequest)), nil, true
	})
	select {
	case err := <-r.stopped:
		if compute.KindOf(err) != compute.KindConflict {
			t.Errorf("ended with %v", err)
		}
	case <-brokertest.Patient(t).Done():
		t.Fatal("reads on as if nothing were")
	}
}

func outOfRange(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.ErrorCode = kerr.OffsetOutOfRange.Code
	rt := kmsg.NewFetchResponseTopic()
	rt.TopicID, rt.Partitions = req.Topics[0].TopicID, []kmsg.FetchResponseTopicPartition{rp}
	resp.Topics = append(resp.Topics, rt)
	return resp
}

func offsetOne(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	rp := kmsg.NewListOffsetsResponseTopicPartition()
	rp.Offset = 1
	rt := kmsg.NewListOffsetsResponseTopic()
	rt.Topic, rt.Partitions = req.Topics[0].Topic, []kmsg.ListOffsetsResponseTopicPartition{rp}
	resp.Topics = append(resp.Topics, rt)
	return resp
}

// Compaction can leave a log without its last records: a fetch below the end brings nothing, and the end is reached
// all the same.
func TestReaderReachesAnEndWithoutRecords(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	brokertest.MakeTopic(t, cfg, "t", 2, nil)
	brokertest.Put(t, cfg, "t", 0, "0", "1")
	brokertest.Put(t, cfg, "t", 1, "other")
	cluster.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := k.(*kmsg.FetchRequest)
		asks0 := slices.ContainsFunc(
			req.Topics[0].Partitions,
			func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == 0 && p.FetchOffset < 2 },
		)
		if !asks0 {
			return nil, nil, false
		}
		resp := outOfRange(req)
		resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[0].HighWatermark = 0, 2
		return resp, nil, true
	})
	r := read(t, cfg, Options{Topic: "t", MaxWait: 100 * time.Millisecond})
	brokertest.Await(t, r.Ready(), "the reader is ready")
	syncUp(t, r)
	if got, end := r.now(); !cmp.Equal(got, []string{"other"}) || !end {
		t.Errorf("got %q, end %t", got, end)
	}
}

func TestClientsLeaveNothingBehind(t *testing.T) {
	b := kafkatest.Embedded(t)
	cfg := brokertest.TestConfig(b)
	before := goleak.IgnoreCurrent()
	for i := range 5 {
		topic := fmt.Sprint(b.Prefix, i)
		a, err := kafka.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kadm.NewClient(a).CreateTopic(brokertest.Patient(t), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		p, err := write.NewProducer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := reader(cfg, Options{Topic: topic, Handle: func(Batch) {}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		if err := p.Send(brokertest.Patient(t), wire.Record{Value: []byte("x")}.To(topic, 0)); err != nil {
			t.Fatal(err)
		}
		if err := r.Sync(brokertest.Patient(t)); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p.Close()
		a.Close()
	}
	brokertest.LeavesNothing(t, before)
}

// A leader that freezes keeps its connections and says nothing. Another leads
// after a while, and the reader must find out, long before its request times
// out.
func TestFrozenLeader(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	cfg := kafka.Config{Brokers: c.Addrs(), Topics: wire.Topics{Prefix: "frozen."}}
	topic := "frozen.table"
	if _, err := kadm.NewClient(brokertest.AnyClient(t, cfg)).CreateTopic(
		brokertest.Patient(t), 1, 3, nil, topic,
	); err != nil {
		t.Fatal(err)
	}
	patience := cfg
	patience.RequestTimeout = 10 * time.Minute // a reader that waits for it waits in vain
	r := read(t, patience, Options{Topic: topic, MaxWait: time.Second})
	brokertest.Put(t, cfg, topic, 0, "before")
	r.upTo(t, "before")
	frozen := leaderOf(t, brokertest.AnyClient(t, cfg), topic)
	live := cfg
	live.Brokers = slices.Delete(slices.Clone(cfg.Brokers), int(frozen)-1, int(frozen))
	live.RequestTimeout = 2 * time.Second
	other := brokertest.AnyClient(t, live)
	if err := c.Pause(int(frozen)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for leaderOf(t, other, topic) == frozen {
		if err := pace.Sleep(brokertest.Patient(t), 50*time.Millisecond); err != nil {
			t.Fatal("nobody else leads")
		}
	}
	t.Logf("another leads after %v", time.Since(begun).Round(time.Millisecond))
	brokertest.Put(t, live, topic, 0, "after") // by a client that never met the frozen one
	written := time.Now()
	r.upTo(t, "after")
	t.Logf("read %v later", time.Since(written).Round(time.Millisecond))
	if err := c.Resume(int(frozen)); err != nil {
		t.Fatal(err)
	}
	syncUp(t, r)
}

// leaderOf asks until some broker answers.
func leaderOf(t *testing.T, cl *kgo.Client, topic string) int32 {
	t.Helper()
	found, err := retry.Do(brokertest.Patient(t), zap.NewNop(), "", nil, func() (kmsg.MetadataResponseTopic, error) {
		return brokertest.Describe(brokertest.Patient(t), cl, topic)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found.Partitions[0].Leader
}
