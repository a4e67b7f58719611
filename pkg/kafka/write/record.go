// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/wire"
)

// toKgo turns a record to send into the client's. It shares the bytes: they
// must not change until the record is acknowledged.
func toKgo(r wire.Record) *kgo.Record {
	k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return k
}

// partitioner sends a record where its Partition says, and AnyPartition where
// the key's hash says, exactly as wire.Partition does.
func partitioner() kgo.Partitioner { return manualOrHash{hash: kgo.StickyKeyPartitioner(nil)} }

type manualOrHash struct{ hash kgo.Partitioner }

func (m manualOrHash) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{hash: m.hash.ForTopic(topic)}
}

type topicPartitioner struct{ hash kgo.TopicPartitioner }

func (*topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition == wire.AnyPartition {
		return t.hash.Partition(r, n)
	}
	return int(r.Partition)
}
