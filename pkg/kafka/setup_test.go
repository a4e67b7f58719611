package kafka

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/kafkatest"
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

func makeTopic(t testing.TB, cfg Config, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	cl, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(patient(t), partitions, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
	if _, err := retry(patient(t), zap.NewNop(), "", nil, func() (*kmsg.MetadataResponseTopic, error) {
		return describeTopic(patient(t), cl, topic) // a broker hears late of a new topic
	}); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, cfg Config, topic string, partition int32, values ...string) {
	t.Helper()
	p := producer(t, cfg)
	for _, v := range values {
		if err := p.Send(patient(t), wire.Record{Key: []byte("k" + v), Value: []byte(v)}.To(topic, partition)); err != nil {
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

func admin(t testing.TB, cfg Config) *Admin {
	t.Helper()
	a, err := NewAdmin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}
