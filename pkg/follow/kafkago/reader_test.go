// SPDX-License-Identifier: Apache-2.0

package kafkago_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow/followtest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) {
	os.Exit(leaktest.Main(func() int { return kafkatest.Main(m) }))
}

// Why this adapter asks for raw answers: kafka-go's Reader hands over what was
// aborted, whatever its isolation level. When this test fails, kafka-go has
// mended it (issue 1332 there), and docs/PUBLISHING.md must say so.
func TestKafkaGosOwnReaderShowsWhatWasAborted(t *testing.T) {
	b := kafkatest.Kafka(t)
	topics := wire.Topics{Prefix: b.Prefix}
	followtest.Topic(t, b.Addrs, topics.Instances(), 1, 1, nil)
	w := followtest.NewWriter(t, b.Addrs, topics, 1, "conductor")
	w.Write(followtest.Instance("p", 1, 1))
	w.Abort(followtest.Instance("p", 1, 2))
	w.Write(followtest.Instance("p", 1, 3))
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: b.Addrs, Topic: topics.Instances(), IsolationLevel: kafka.ReadCommitted,
		MaxWait: 100 * time.Millisecond,
		Dialer:  &kafka.Dialer{Timeout: 10 * time.Second},
	})
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen []compute.Version
	for !slices.Contains(seen, 3) {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("%v, after %v", err, seen)
		}
		if inst, err := wire.DecodeInstance(wire.Record{Key: m.Key, Value: m.Value}); err == nil {
			seen = append(seen, inst.Version)
		}
	}
	if !slices.Equal(seen, []compute.Version{1, 2, 3}) {
		t.Errorf("versions %v: version 2 was aborted; this version of kafka-go shows it no more?", seen)
	}
}
