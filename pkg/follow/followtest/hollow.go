// SPDX-License-Identifier: Apache-2.0

package followtest

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Hollow says whether a reader from the start of a topic of one partition, which
// goes by records, gets an answer that holds batches and no record.
func Hollow(ctx context.Context, t testing.TB, brokers []string, topic string) bool {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	defer cl.Close()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	known, err := meta.RequestWith(ctx, cl)
	must(t, err)
	for at, end := int64(0), int64(1); at < end; {
		p := fetch(ctx, t, cl, kmsg.FetchRequestTopic{Topic: topic, TopicID: known.Topics[0].TopicID}, at)
		end = p.HighWatermark
		next := afterRecords(t, p.RecordBatches)
		if next == 0 && len(p.RecordBatches) > 0 {
			return true
		}
		at = max(at+1, next)
	}
	return false
}

func fetch(
	ctx context.Context, t testing.TB, cl *kgo.Client, of kmsg.FetchRequestTopic, from int64,
) kmsg.FetchResponseTopicPartition {
	t.Helper()
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = from, 1<<20
	of.Partitions = append(of.Partitions, part)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch, req.IsolationLevel = 1<<20, -1, 1
	req.Topics = append(req.Topics, of)
	resp, err := req.RequestWith(ctx, cl)
	must(t, err)
	p := resp.Topics[0].Partitions[0]
	must(t, kerr.ErrorForCode(p.ErrorCode))
	return p
}

// afterRecords is the offset behind the last batch that has a record; 0: none has.
func afterRecords(t testing.TB, all []byte) (next int64) {
	t.Helper()
	for len(all) > 0 {
		var b kmsg.RecordBatch
		must(t, b.ReadFrom(all))
		if b.NumRecords > 0 {
			next = b.FirstOffset + int64(b.LastOffsetDelta) + 1
		}
		all = all[12+b.Length:]
	}
	return next
}
