package kafka

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// testConfig is a cell of this test alone at a broker.
func testConfig(b kafkatest.Broker) Config {
	return Config{Brokers: b.Addrs, Topics: wire.Topics{Prefix: b.Prefix}}
}

// patient is how long these tests wait for what must happen.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func await(t testing.TB, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-patient(t).Done():
		t.Fatalf("waited in vain until %s", what)
	}
}

// logTo makes the clients log, and answers what they logged and a channel that
// is closed with the first line.
func logTo(cfg *Config) (*observer.ObservedLogs, <-chan struct{}) {
	first := make(chan struct{})
	var once sync.Once
	core, logs := observer.New(zap.InfoLevel)
	cfg.Log = zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error {
		once.Do(func() { close(first) })
		return nil
	}))
	return logs, first
}

// anyClient is a client until the test ends.
func anyClient(t testing.TB, cfg Config) *kgo.Client {
	t.Helper()
	cl, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func makeTopic(t testing.TB, cfg Config, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	cl := anyClient(t, cfg)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(patient(t), partitions, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
	for ctx := patient(t); ; { // a broker hears late of a new topic
		if _, err := describe(ctx, cl, topic); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		service.Sleep(ctx, 50*time.Millisecond)
	}
}

// describe asks a broker who leads the partitions of a topic.
func describe(ctx context.Context, cl *kgo.Client, topic string) (kmsg.MetadataResponseTopic, error) {
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

func put(t testing.TB, cfg Config, topic string, partition int32, values ...string) {
	t.Helper()
	cl, err := newClient(cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, v := range values {
		rec := &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k" + v), Value: []byte(v)}
		if err := cl.ProduceSync(patient(t), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func producer(t testing.TB, cfg Config) *Producer {
	t.Helper()
	p, err := NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func adminOf(t testing.TB, cfg Config) *Admin {
	t.Helper()
	a, err := NewAdmin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}
