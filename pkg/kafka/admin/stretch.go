// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/wire"
)

// Ends are where a topic's partitions end: the offsets that their next records get. It is KindNotFound if the topic
// does not exist.
func (a *Admin) Ends(ctx context.Context, topic string) (map[int32]int64, error) {
	return a.listed(ctx, topic, a.kadm.ListEndOffsets)
}

// Starts are the offsets of the oldest records of a topic's partitions, with the errors of Ends.
func (a *Admin) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return a.listed(ctx, topic, a.kadm.ListStartOffsets)
}

// listed asks for offsets of a topic that must exist.
func (a *Admin) listed(
	ctx context.Context, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error),
) (map[int32]int64, error) {
	op := "look at " + topic
	ids, err := a.TopicIDs(ctx, topic)
	if err != nil {
		return nil, err
	}
	if ids[topic] == "" {
		return nil, &compute.Error{
			Op: op, Kind: compute.KindNotFound, Field: "topic", Value: topic, Message: "does not exist",
		}
	}
	all, err := list(ctx, topic)
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, a.cfg.Classify(op, err, describes(topic))
	}
	offsets := map[int32]int64{}
	for _, at := range all[topic] {
		offsets[at.Partition] = at.Offset
	}
	return offsets, nil
}

// Stretch reads what one partition has from an offset up to another, which it does not read; less where the partition
// ends before it, or has removed some. Where that is more than so many bytes it reads the last part alone, of one
// record at least, and says where it began. It tries again until ctx ends where brokers do not answer.
func (a *Admin) Stretch(
	ctx context.Context, topic string, p int32, from, to int64, most int,
) (begin int64, recs []wire.Record, err error) {
	for {
		recs, fits, err := a.stretch(ctx, topic, p, from, to, most)
		if err != nil || fits || to-from <= 1 {
			return from, recs, err
		}
		from = to - max(1, (to-from)/4)
	}
}

// stretch reads from an offset up to another, and stops with what does not fit.
func (a *Admin) stretch(
	ctx context.Context, topic string, p int32, from, to int64, most int,
) (all []wire.Record, fits bool, err error) {
	src := &fetch.Source{Client: a.client, Topic: topic, Only: []int32{p}, Log: a.cfg.Log}
	at := &fetch.Cursor{Next: from, End: -1}
	bytes := 0
	log := a.cfg.Log.With(zap.String("topic", topic))
	_, err = retry.Do(ctx, log, "reading a part of a topic", nil, func() (struct{}, error) {
		v, err := src.Refresh(ctx)
		for err == nil && bytes <= most && at.Next < to && (at.End < 0 || at.Next < at.End) {
			var more []wire.Record
			more, err = a.next(ctx, src, v, p, at)
			for _, rec := range more {
				if rec.Offset < to {
					all = append(all, rec)
					bytes += len(rec.Key) + len(rec.Value)
				}
			}
		}
		return struct{}{}, err
	})
	return all, bytes <= most, a.cfg.Classify("read "+topic, err, access.To(access.Read, access.Topic, topic))
}

// next is what one fetch of one partition brings.
func (a *Admin) next(
	ctx context.Context, src *fetch.Source, v fetch.View, p int32, at *fetch.Cursor) ([]wire.Record, error,
) {
	req := fetch.At(v.Leaders[p].Broker, v)
	req.Add(p, at)
	got := src.Fetch(ctx, req, false)
	if got.Err != nil {
		return nil, got.Err
	}
	var all []wire.Record
	for _, part := range got.Parts {
		if part.Err != nil {
			return nil, part.Err
		}
		all = append(all, part.Records...)
		at.Advance(part)
	}
	return all, nil
}
