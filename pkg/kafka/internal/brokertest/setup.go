// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// VirtualCell is a broker and the topics of a loop inside a bubble.
func VirtualCell(t *testing.T) kafka.Config {
	t.Helper()
	var network kfake.VirtualNetwork
	b, err := embedded.Start(
		embedded.Options{Listen: network.Listen, Configs: map[string]string{"group.min.session.timeout.ms": "1000"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cfg := kafka.Config{Brokers: b.Addrs(), Topics: wire.Topics{Prefix: "v."}, Dial: network.DialContext}
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close() // clients end before the broker
	for _, topic := range []string{cfg.Topics.Requests(), cfg.Topics.Reports(), cfg.Topics.Instances()} {
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 2, 1
		req.Topics = append(req.Topics, rt)
		if _, err := req.RequestWith(t.Context(), cl); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

func FakeCluster(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, kafka.Config{Brokers: c.ListenAddrs(), Topics: wire.Topics{Prefix: "t."}}
}

// Transact writes values in one transaction for each list and ends it as told.
func Transact(t *testing.T, cfg kafka.Config, topic string, commit kgo.TransactionEndTry, values ...string) {
	t.Helper()
	begun := Begin(t, cfg, topic, values...)
	begun(commit)
}

// Begin writes values in a transaction that stays open until the answer is called.
func Begin(t *testing.T, cfg kafka.Config, topic string, values ...string) func(kgo.TransactionEndTry) {
	t.Helper()
	cl, err := kafka.NewClient(
		cfg, kgo.TransactionalID(topic+"-"+t.Name()), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		rec := &kgo.Record{Topic: topic, Key: []byte(v), Value: []byte(v)}
		if err := cl.ProduceSync(Patient(t), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return func(commit kgo.TransactionEndTry) {
		t.Helper()
		if err := kafkatest.EndTransaction(Patient(t), cl, topic, commit); err != nil {
			t.Fatal(err)
		}
	}
}

func RemoveBelow(t *testing.T, cfg kafka.Config, topic string, offset int64) {
	t.Helper()
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var os kadm.Offsets
	os.AddOffset(topic, 0, offset, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(Patient(t), os); err != nil {
		t.Fatal(err)
	}
}

// TestConfig is a cell of this test alone at a broker.
func TestConfig(b kafkatest.Broker) kafka.Config {
	return kafka.Config{Brokers: b.Addrs, Topics: wire.Topics{Prefix: b.Prefix}}
}

// Patient is how long these tests wait for what must happen.
func Patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func Await(t testing.TB, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-Patient(t).Done():
		t.Fatalf("waited in vain until %s", what)
	}
}

// LogTo makes the clients log, and answers what they logged and a channel that
// is closed with the first line.
func LogTo(cfg *kafka.Config) (*observer.ObservedLogs, <-chan struct{}) {
	first := make(chan struct{})
	var once sync.Once
	core, logs := observer.New(zap.InfoLevel)
	cfg.Log = zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error {
		once.Do(func() { close(first) })
		return nil
	}))
	return logs, first
}

// AnyClient is a client until the test ends.
func AnyClient(t testing.TB, cfg kafka.Config) *kgo.Client {
	t.Helper()
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func MakeTopic(t testing.TB, cfg kafka.Config, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	cl := AnyClient(t, cfg)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(Patient(t), partitions, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
	for ctx := Patient(t); ; { // a broker hears late of a new topic
		if _, err := Describe(ctx, cl, topic); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		service.Sleep(ctx, 50*time.Millisecond)
	}
}

// Describe asks a broker for the leaders of a topic's partitions.
func Describe(ctx context.Context, cl *kgo.Client, topic string) (kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	return resp.Topics[0], kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// Put writes values to a partition, one after the other. A broker hears late of a new topic.
func Put(t testing.TB, cfg kafka.Config, topic string, partition int32, values ...string) {
	t.Helper()
	cl, err := kafka.NewClient(
		cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.UnknownTopicRetries(-1),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, v := range values {
		rec := &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k" + v), Value: []byte(v)}
		if err := cl.ProduceSync(Patient(t), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
