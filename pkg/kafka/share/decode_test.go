// SPDX-License-Identifier: Apache-2.0

package share

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A batch holds many records and is sent as it was written; each fetch brings
// one of them.
func TestRecordsOfCompressedBatches(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
				cfg := brokertest.TestConfig(b)
				q := initialised(t, cfg, b.Prefix+"g", "a")[0]
				values := []string{"0", strings.Repeat("1", 100_000), "", "3"}
				putBatch(t, cfg, cfg.Topics.Build("a"), codec, values)
				p := pull(t, cfg, Options{MaxWait: short})
				for i, v := range values {
					r := p.record(t, q)
					if string(r.Record.Value) != v || string(r.Record.Header("h")) != fmt.Sprint(i) ||
						r.Ref.Offset != int64(i) ||
						r.Ref.Delivery != 1 ||
						r.Record.Offset != int64(i) ||
						r.Record.Time.IsZero() {
						t.Errorf("record %d: %+v, %d bytes", i, r.Ref, len(r.Record.Value))
					}
					p.Ack(r.Ref, wire.AckAccept)
				}
				if c := p.settled(t, 4); c.AcksDone != 4 {
					t.Errorf("more was acquired than asked for: %+v", c)
				}
			})
		})
	}
}

// putBatch writes values as one batch.
func putBatch(t *testing.T, cfg kafka.Config, topic string, codec kgo.CompressionCodec, values []string) {
	t.Helper()
	cl, err := kafka.NewClient(
		cfg, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(500*time.Millisecond), kgo.RequiredAcks(kgo.AllISRAcks()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var recs []*kgo.Record
	for i, v := range values {
		recs = append(
			recs,
			&kgo.Record{
				Topic: topic, Value: []byte(v), Headers: []kgo.RecordHeader{{Key: "h", Value: fmt.Append(nil, i)}},
			},
		)
	}
	if err := cl.ProduceSync(brokertest.Patient(t), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
