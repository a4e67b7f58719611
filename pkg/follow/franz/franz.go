// SPDX-License-Identifier: Apache-2.0

// Package franz follows instances through a client of
// github.com/twmb/franz-go.
package franz

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/unpack"
	"github.com/berth-project/berth/pkg/wire"
)

// New follows through a client, which stays the caller's to use and to close.
// It must not consume, which is refused, nor serve another follower: franz-go
// has one connection to each broker for fetches, where they wait for each other.
// Nothing else waits behind them, so that a client may publish and follow.
func New(client *kgo.Client, o follow.Options) (*follow.Follower, error) {
	if err := fit(client); err != nil {
		return nil, err
	}
	return follow.New(&adapter{client: client}, o)
}

// fit refuses a client that consumes.
func fit(c *kgo.Client) error {
	topics, _ := c.OptValue(kgo.ConsumeTopics).(map[string]*regexp.Regexp)
	partitions, _ := c.OptValue(kgo.ConsumePartitions).(map[string]map[int32]kgo.Offset)
	group, _ := c.OptValue(kgo.ConsumerGroup).(string)
	share, _ := c.OptValue(kgo.ShareGroup).(string)
	const remedy = "follow with a client of its own: fetches of one client wait for each other"
	switch {
	case group != "":
		return follow.Unfit("ConsumerGroup", group, remedy)
	case share != "":
		return follow.Unfit("ShareGroup", share, remedy)
	case len(topics) > 0:
		return follow.Unfit("ConsumeTopics", names(topics), remedy)
	case len(partitions) > 0:
		return follow.Unfit("ConsumePartitions", names(partitions), remedy)
	}
	return nil
}

func names[V any](topics map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(topics)), ", ")
}

type adapter struct {
	client *kgo.Client
	id     atomic.Pointer[[16]byte] // of the topic, as last heard
	unpack unpack.Reader
}

// Leaders asks a broker, the client's next one in turn.
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
	l := follow.Leaders{ID: found.TopicID, Of: map[int32]int32{}, Epoch: map[int32]int32{}}
	for _, p := range found.Partitions {
		l.Of[p.Partition], l.Epoch[p.Partition] = p.Leader, p.LeaderEpoch
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
	ctx context.Context, broker int32, topic string, from map[int32]int64, room follow.Room,
) ([]follow.Part, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(room.Wait.Milliseconds())
	req.MinBytes, req.MaxBytes = 1, follow.FetchBytes
	req.SessionEpoch = -1 // no session: the request says it all
	req.IsolationLevel = 1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, *a.id.Load()
	for p, offset := range from {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, room.Bytes
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
	return a.parts(topic, resp, from), nil
}

// parts reads an answer; what cannot be read of one partition says nothing about the others.
func (a *adapter) parts(topic string, resp *kmsg.FetchResponse, from map[int32]int64) (parts []follow.Part) {
	room := unpack.NewRoom()
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			parts = append(parts, a.parse(topic, &t.Partitions[i], from[t.Partitions[i].Partition], room))
		}
	}
	return parts
}

// parse leaves out what is not committed, and the markers.
func (a *adapter) parse(
	topic string, p *kmsg.FetchResponseTopicPartition, from int64, room *unpack.Room,
) follow.Part {
	part := follow.Part{Partition: p.Partition, Code: p.ErrorCode, Highest: p.HighWatermark, Stable: p.LastStableOffset}
	part.Empty = len(p.RecordBatches) == 0
	if p.ErrorCode != 0 || part.Empty {
		return part
	}
	read := a.unpack.Part(p, unpack.Asked{Topic: topic, Partition: p.Partition, From: from, Committed: true}, room)
	if read.Err != nil && read.Next == from {
		part.Err = fmt.Errorf("partition %d, offset %d: %w", p.Partition, from, read.Err)
		return part
	}
	if read.Next > from { // else others have used up the room of the answer
		part.Spans = []follow.Span{{First: from, Last: read.Next - 1, Records: read.Records}}
	}
	return part
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
