// SPDX-License-Identifier: Apache-2.0

// Package franz follows instances through a client of
// github.com/twmb/franz-go.
package franz

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/wire"
)

// New follows through a client, which stays the caller's to use and to close.
// Any client will do: what it consumes and how plays no part, for brokers are
// asked directly. Fetches have connections of their own in franz-go, so nothing
// waits behind them.
func New(client *kgo.Client, o follow.Options) (*follow.Follower, error) {
	return follow.New(&adapter{client: client}, o)
}

type adapter struct {
	client *kgo.Client
	id     atomic.Pointer[[16]byte] // of the topic, as last heard
	unpack unpack.Reader
}

// Leaders asks a broker.
func (a *adapter) Leaders(ctx context.Context, topic string) (follow.Leaders, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return follow.Leaders{}, classify(err)
	}
	if len(resp.Topics) != 1 {
		return follow.Leaders{}, wire.ErrNoTopic
	}
	found := resp.Topics[0]
	if err := classify(kerr.ErrorForCode(found.ErrorCode)); err != nil {
		return follow.Leaders{}, err
	}
	a.id.Store(&found.TopicID)
	l := follow.Leaders{ID: found.TopicID, Of: map[int32]int32{}}
	for _, p := range found.Partitions {
		l.Of[p.Partition] = p.Leader
	}
	return l, nil
}

// Oldest asks the leader.
func (a *adapter) Oldest(ctx context.Context, broker int32, topic string, partitions []int32) (map[int32]int64, error) {
	const earliest = -2
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, earliest
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := a.client.Broker(int(broker)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, classify(err)
	}
	oldest := map[int32]int64{}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := classify(kerr.ErrorForCode(p.ErrorCode)); err != nil {
				return nil, err
			}
			oldest[p.Partition] = p.Offset
		}
	}
	return oldest, nil
}

// Fetch asks the broker for records.
func (a *adapter) Fetch(
	ctx context.Context, broker int32, topic string, from map[int32]int64, wait time.Duration,
) ([]follow.Part, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.MinBytes, req.MaxBytes = 1, follow.FetchBytes
	req.SessionEpoch = -1 // no session: the request says it all
	req.IsolationLevel = 1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, *a.id.Load()
	for p, offset := range from {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, follow.PartitionBytes
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	kresp, err := a.client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, classify(err)
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := classify(kerr.ErrorForCode(resp.ErrorCode)); err != nil {
		return nil, err
	}
	room := unpack.NewRoom()
	var parts []follow.Part
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			part, err := a.parse(topic, &t.Partitions[i], from[t.Partitions[i].Partition], room)
			if err != nil {
				return parts, err
			}
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// parse leaves out what is not committed, and the markers.
func (a *adapter) parse(
	topic string, p *kmsg.FetchResponseTopicPartition, from int64, room *unpack.Room,
) (follow.Part, error) {
	part := follow.Part{Partition: p.Partition, Code: p.ErrorCode, Highest: p.HighWatermark, Stable: p.LastStableOffset}
	part.Empty = len(p.RecordBatches) == 0
	if p.ErrorCode != 0 || part.Empty {
		return part, nil
	}
	read := a.unpack.Part(p, unpack.Asked{Topic: topic, Partition: p.Partition, From: from, Committed: true}, room)
	if read.Err != nil && read.Next == from {
		return part, fmt.Errorf("partition %d, offset %d: %w", p.Partition, from, read.Err)
	}
	part.Spans = []follow.Span{{First: from, Last: read.Next - 1, Records: read.Records}}
	return part, nil
}

// Close does nothing: all is the caller's.
func (a *adapter) Close() error { return nil }

func classify(err error) error {
	var code *kerr.Error
	if errors.As(err, &code) {
		return follow.Code(code.Code, err)
	}
	return err
}
