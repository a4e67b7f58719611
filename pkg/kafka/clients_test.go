// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/internal/readtest"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// A broker that takes connections and never says a word holds up no caller that has given up.
func TestFrozenBrokerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }() // as the buffers of a real connection
			return ours, nil
		}
		a, err := admin.New(kafka.Config{Brokers: []string{"localhost:9092"}, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := a.WaitReachable(ctx); compute.KindOf(err) != compute.KindTimeout {
			t.Errorf("got %v of a broker that says nothing", err)
		}
		a.Close()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("given up after 1 s, and it took %s", took)
		}
	})
}

func TestMetricsOfProducersAndReaders(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, reg := brokertest.Counting(brokertest.TestConfig(b))
		brokertest.MakeTopic(t, cfg, cfg.Topics.Hosts(), 1, nil)
		one, two := clienttest.Producer(t, cfg), clienttest.Producer(t, cfg)
		for _, p := range []*write.Producer{one, two} {
			if err := p.Send(
				brokertest.Patient(t), wire.Record{Key: []byte("h"), Value: []byte("v")}.To(cfg.Topics.Hosts(), 0),
			); err != nil {
				t.Fatal(err)
			}
		}
		if err := one.Send(
			brokertest.Patient(t), wire.Record{Key: []byte("h")}.To(cfg.Topics.Build("none"), 0),
		); !errors.Is(err, wire.ErrNoTopic) {
			t.Fatal(err)
		}
		telemetrytest.Is(t, reg, 2, "berth_produce_duration_seconds")
		telemetrytest.Is(t, reg, 1, "berth_produce_errors_total", "kind", "no-topic")
		brokertest.Becomes(t, reg, 0, "berth_produce_buffered_records") // counted a moment after the sender was told
		r := readtest.Follow(t, cfg, read.Options{Topic: cfg.Topics.Hosts()})
		brokertest.Await(t, r.Ready(), "the topic is read")
		telemetrytest.Is(t, reg, 2, "berth_read_records_total", "topic", "hosts")
		telemetrytest.Is(t, reg, 0, "berth_read_behind", "topic", "hosts")
		if sent, _ := telemetrytest.Value(t, reg, "berth_kafka_sent_bytes_total"); sent < 100 {
			t.Errorf("%v bytes sent", sent)
		}
	})
}
