// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/wire"
)

// Records reads what a topic has now from its beginning to its end, without any of Berth's own readers: those of a
// partition are in order.
func Records(ctx context.Context, addrs []string, topic string) ([]wire.Record, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	open := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			open[o.Partition] = o.Offset
		}
	})
	var all []wire.Record
	for len(open) > 0 {
		fetched := cl.PollFetches(ctx)
		if err := fetched.Err0(); err != nil {
			return nil, err
		}
		fetched.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			rec := wire.Record{Key: r.Key, Value: r.Value, Time: r.Timestamp}.At(topic, r.Partition, r.Offset)
			for _, h := range r.Headers {
				rec.Headers = append(rec.Headers, wire.Header{Key: h.Key, Value: h.Value})
			}
			all = append(all, rec)
		})
	}
	return all, nil
}

// RemoveRecords removes all that partition 0 of a topic has, as retention does. The answer is where it begins now.
func RemoveRecords(ctx context.Context, addrs []string, topic string) (begin int64, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.DisableClientMetrics())
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	removed, err := kadm.NewClient(cl).DeleteRecords(ctx, ends.Offsets())
	if err != nil {
		return 0, err
	}
	at, _ := removed.Lookup(topic, 0)
	return at.LowWatermark, at.Err
}
