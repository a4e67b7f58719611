// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// What waits for a frozen broker goes on once another leads, however patient its client is: a frozen broker owes an
// answer that never comes.
func TestFrozenBrokerIsDropped(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Heap: "256m", Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	cfg := kafka.Config{Brokers: c.Addrs(), Topics: wire.Topics{Prefix: "frozen."}, RequestTimeout: 5 * time.Minute}
	cl, topic := brokertest.AnyClient(t, cfg), "frozen.table"
	if _, err := kadm.NewClient(cl).CreateTopic(brokertest.Patient(t), 1, 3, nil, topic); err != nil {
		t.Fatal(err)
	}
	p, err := write.NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	ctx := brokertest.Patient(t)
	err = p.Send(ctx, wire.Record{Topic: topic, Value: []byte("before")})
	for errors.Is(err, wire.ErrNoTopic) && ctx.Err() == nil { // a broker hears late of a new topic
		err = p.Send(ctx, wire.Record{Topic: topic, Value: []byte("before")})
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := brokertest.Describe(brokertest.Patient(t), cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	leader := int(m.Partitions[0].Leader)
	if err := c.Pause(leader); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := p.Send(brokertest.Patient(t), wire.Record{Topic: topic, Value: []byte("after")}); err != nil {
		t.Fatal(err)
	}
	t.Logf("written after %v", time.Since(begun).Round(time.Millisecond))
	if err := c.Resume(leader); err != nil {
		t.Fatal(err)
	}
}
