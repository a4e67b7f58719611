// SPDX-License-Identifier: Apache-2.0

// Package sarama follows instances with github.com/IBM/sarama.
package sarama

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/wire"
)

// New follows with the brokers and the network settings of a client (TLS, SASL,
// proxy, time-outs), which stays the caller's to use and to close. The
// connections are the follower's own: on the client's, everything else would
// wait for as long as a fetch does.
//
// Any client will do. sarama's own consumer reads committed records rightly, but
// never says how far it has come where no record is for it, as at the end of
// every transaction; so brokers are asked directly.
func New(client sarama.Client, o follow.Options) (*follow.Follower, error) {
	return follow.New(&adapter{
		client: client, patience: patience, brokers: map[key]*broker{}, addrs: map[int32]string{},
	}, o)
}

// patience is how long a broker is waited for while there are others to ask.
const patience = 5 * time.Second

// Leaders asks one broker after the other, in any order, until one answers.
func (a *adapter) Leaders(ctx context.Context, topic string) (follow.Leaders, error) {
	var errs []error
	known, left := a.known(), 0
	for _, addrs := range known {
		left += len(addrs)
	}
	for id, addrs := range known {
		for _, addr := range addrs {
			ctx, stop := ctx, func() {}
			if left--; left > 0 { // a frozen broker leaves time for the others
				ctx, stop = context.WithTimeout(ctx, a.patience)
			}
			resp, err := ask(ctx, a, key{id: id}, addr, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
				return b.GetMetadata(sarama.NewMetadataRequest(version(a.client), []string{topic}))
			})
			stop()
			if err == nil {
				return a.learn(resp)
			}
			errs = append(errs, err)
		}
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		a.look()
	}
	return follow.Leaders{}, fmt.Errorf("no broker answers: %w", errors.Join(errs...))
}

// learn reads which brokers lead, and where they are.
func (a *adapter) learn(resp *sarama.MetadataResponse) (follow.Leaders, error) {
	addrs := map[int32]string{}
	for _, b := range resp.Brokers {
		addrs[b.ID()] = b.Addr()
	}
	a.replace(addrs)
	if len(resp.Topics) != 1 {
		return follow.Leaders{}, wire.ErrNoTopic
	}
	t := resp.Topics[0]
	if t.Err != sarama.ErrNoError && len(t.Partitions) == 0 {
		return follow.Leaders{}, follow.Code(int16(t.Err), t.Err)
	}
	l := follow.Leaders{ID: t.Uuid, Of: map[int32]int32{}, Epoch: map[int32]int32{}}
	for _, p := range t.Partitions {
		l.Of[p.ID], l.Epoch[p.ID] = p.Leader, p.LeaderEpoch
	}
	return l, nil
}

// Oldest asks the leader.
func (a *adapter) Oldest(ctx context.Context, id int32, topic string, partitions []int32) (map[int32]int64, error) {
	req := sarama.NewOffsetRequest(version(a.client))
	for _, p := range partitions {
		req.AddBlock(topic, p, sarama.OffsetOldest, 1)
	}
	offsets := func(b *sarama.Broker) (*sarama.OffsetResponse, error) { return b.GetAvailableOffsets(req) }
	resp, err := ask(ctx, a, key{id: id}, a.addr(id), offsets)
	if err != nil {
		return nil, err
	}
	oldest := map[int32]int64{}
	for _, p := range partitions {
		block := resp.GetBlock(topic, p)
		if block == nil {
			return nil, sarama.ErrIncompleteResponse
		}
		if err := follow.Code(int16(block.Err), block.Err); err != nil {
			return nil, err
		}
		oldest[p] = block.Offset
	}
	return oldest, nil
}

// Fetch asks the broker for records.
func (a *adapter) Fetch(
	ctx context.Context, id int32, topic string, from map[int32]int64, room follow.Room,
) ([]follow.Part, error) {
	req := &sarama.FetchRequest{ // without a rack: a leader that knows it may answer only which replica is nearer
		Version: 11, MaxWaitTime: int32(room.Wait.Milliseconds()), MinBytes: 1, MaxBytes: follow.FetchBytes,
		Isolation: sarama.ReadCommitted, SessionEpoch: -1,
	}
	for p, offset := range from {
		req.AddBlock(topic, p, offset, room.Bytes, -1)
	}
	fetch := func(b *sarama.Broker) (*sarama.FetchResponse, error) { return b.Fetch(req) }
	resp, err := ask(ctx, a, key{id: id, fetches: true}, a.addr(id), fetch)
	if err != nil {
		return nil, err
	}
	if resp.ErrorCode != 0 {
		return nil, follow.Code(resp.ErrorCode, sarama.KError(resp.ErrorCode))
	}
	var parts []follow.Part
	for p, block := range resp.Blocks[topic] {
		part, whole := parse(topic, p, block)
		if whole {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// parse reads an answer; one that has only half a batch says nothing, nor does
// one that names a replica to read from instead, which has no records. sarama
// leaves out batches that kept no record after compaction, so that one without
// any looks like one with only such: Empty is never said.
func parse(topic string, partition int32, b *sarama.FetchResponseBlock) (part follow.Part, whole bool) {
	part = follow.Part{
		Partition: partition, Code: int16(b.Err), Highest: b.HighWaterMarkOffset, Stable: b.LastStableOffset,
	}
	for _, t := range b.AbortedTransactions {
		part.Aborted = append(part.Aborted, follow.Aborted{Producer: t.ProducerID, First: t.FirstOffset})
	}
	for _, r := range b.RecordsSet {
		if r.RecordBatch == nil || r.RecordBatch.PartialTrailingRecord {
			return part, len(part.Spans) > 0
		}
		part.Spans = append(part.Spans, span(topic, partition, r.RecordBatch))
	}
	elsewhere := b.PreferredReadReplica != noReplica && len(part.Spans) == 0 && b.Err == sarama.ErrNoError
	return part, !b.Partial && !elsewhere
}

// noReplica is no preferred replica.
const noReplica = -1

func span(topic string, partition int32, b *sarama.RecordBatch) follow.Span {
	s := follow.Span{
		First: b.FirstOffset, Last: b.LastOffset(), Producer: b.ProducerID, Transactional: b.IsTransactional,
		Marker: b.Control,
	}
	for _, k := range b.Records {
		r := wire.Record{
			Topic: topic, Partition: partition, Offset: b.FirstOffset + k.OffsetDelta, Key: k.Key, Value: k.Value,
			Time: b.FirstTimestamp.Add(k.TimestampDelta).UTC(),
		}
		for _, h := range k.Headers {
			r.Headers = append(r.Headers, wire.Header{Key: string(h.Key), Value: h.Value})
		}
		s.Records = append(s.Records, r)
	}
	s.Abort = s.Marker && len(s.Records) > 0 && follow.Aborts(s.Records[0].Key)
	return s
}
