// SPDX-License-Identifier: Apache-2.0

// Package kafkago follows instances with github.com/segmentio/kafka-go.
package kafkago

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/wire"
)

// New follows with the addresses and the transport of a client (nil:
// kafka.DefaultTransport). Of a *kafka.Transport the settings are taken (dial,
// TLS, SASL, client id) and the connections are the follower's own; another
// RoundTripper is used as it is.
//
// kafka-go's own Reader must not be used for this: up to v0.4.51 it takes
// IsolationLevel: kafka.ReadCommitted and hands over the records of aborted
// transactions nevertheless (issue 1332 there). This package asks for the raw
// answers and leaves them out itself.
//
// kafka-go does not know the ids of topics, so a topic that is deleted and made
// again is noticed when it is shorter than what was read, or when a version
// goes backwards, and not before.
func New(client *kafka.Client, o follow.Options) (*follow.Follower, error) {
	if client.Addr == nil {
		return nil, follow.Unfit("Addr", "", "give the client the addresses of some brokers: kafka.TCP(…)")
	}
	a := &adapter{addr: client.Addr, via: client.Transport}
	if a.via == nil {
		a.via = kafka.DefaultTransport
	}
	if t, ok := a.via.(*kafka.Transport); ok {
		a.own = a.transport(t, o.Topics.Instances())
		a.via = a.own
	}
	return follow.New(a, o)
}

// metadataAge is how old what is known of leaders may be: kafka-go asks by
// itself, and cannot be made to ask.
const metadataAge = time.Second

type adapter struct {
	addr  net.Addr
	via   kafka.RoundTripper
	own   *kafka.Transport // nil: via is somebody else's
	conns follow.Conns
}

// transport is one with the settings of another and its own connections.
func (a *adapter) transport(t *kafka.Transport, topic string) *kafka.Transport {
	dial := t.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return &kafka.Transport{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return a.conns.Keep(conn), nil
		},
		DialTimeout: t.DialTimeout, IdleTimeout: t.IdleTimeout, ClientID: t.ClientID, TLS: t.TLS, SASL: t.SASL,
		Resolver: t.Resolver, Context: t.Context, MetadataTTL: metadataAge, MetadataTopics: []string{topic},
	}
}

// Close ends the connections that are the follower's own.
func (a *adapter) Close() error {
	if a.own != nil {
		a.own.CloseIdleConnections()
		a.conns.Close()
	}
	return nil
}

// Leaders answers what the transport has asked in the last second.
func (a *adapter) Leaders(ctx context.Context, topic string) (follow.Leaders, error) {
	resp, err := ask[*metadata.Response](ctx, a, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return follow.Leaders{}, err
	}
	if len(resp.Topics) != 1 {
		return follow.Leaders{}, wire.ErrNoTopic
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		return follow.Leaders{}, follow.Code(code, kafka.Error(code))
	}
	l := follow.Leaders{Of: map[int32]int32{}}
	for _, p := range resp.Topics[0].Partitions {
		l.Of[p.PartitionIndex] = p.LeaderID
	}
	return l, nil
}

// Oldest asks the leaders, one question a partition.
func (a *adapter) Oldest(ctx context.Context, _ int32, topic string, partitions []int32) (map[int32]int64, error) {
	t := listoffsets.RequestTopic{Topic: topic}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, listoffsets.RequestPartition{
			Partition: p, CurrentLeaderEpoch: -1, Timestamp: kafka.FirstOffset,
		})
	}
	resp, err := ask[*listoffsets.Response](ctx, a, &listoffsets.Request{
		ReplicaID: -1, Topics: []listoffsets.RequestTopic{t},
	})
	if err != nil {
		return nil, err
	}
	oldest := map[int32]int64{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := follow.Code(p.ErrorCode, kafka.Error(p.ErrorCode)); err != nil {
				return nil, err
			}
			oldest[p.Partition] = p.Offset
		}
	}
	return oldest, nil
}

// Fetch asks for records. The transport chooses the broker, by what it told Leaders.
func (a *adapter) Fetch(
	ctx context.Context, _ int32, topic string, from map[int32]int64, wait time.Duration,
) ([]follow.Part, error) {
	t := fetch.RequestTopic{Topic: topic}
	for p, offset := range from {
		t.Partitions = append(t.Partitions, fetch.RequestPartition{
			Partition: p, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1,
			PartitionMaxBytes: follow.PartitionBytes,
		})
	}
	resp, err := ask[*fetch.Response](ctx, a, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: follow.FetchBytes,
		IsolationLevel: int8(kafka.ReadCommitted), SessionEpoch: -1, Topics: []fetch.RequestTopic{t},
	})
	if err != nil {
		return nil, err
	}
	if resp.ErrorCode != 0 {
		return nil, follow.Code(resp.ErrorCode, kafka.Error(resp.ErrorCode))
	}
	var parts []follow.Part
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			part, err := parse(topic, &t.Partitions[i])
			if err != nil {
				return parts, fmt.Errorf("partition %d, offset %d: %w", part.Partition, from[part.Partition], err)
			}
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// ask asks and answers with our errors.
func ask[R kafka.Response](ctx context.Context, a *adapter, req kafka.Request) (R, error) {
	var none R
	resp, err := a.via.RoundTrip(ctx, a.addr, req)
	if err != nil {
		return none, classify(err)
	}
	r, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("asked %T and got %T", req, resp)
	}
	return r, nil
}

func parse(topic string, p *fetch.ResponsePartition) (follow.Part, error) {
	part := follow.Part{Partition: p.Partition, Code: p.ErrorCode, Highest: p.HighWatermark, Stable: p.LastStableOffset}
	for _, t := range p.AbortedTransactions {
		part.Aborted = append(part.Aborted, follow.Aborted{Producer: t.ProducerID, First: t.FirstOffset})
	}
	part.Empty = p.RecordSet.Records == nil
	stream, ok := p.RecordSet.Records.(*protocol.RecordStream)
	if p.ErrorCode != 0 || !ok {
		return part, nil
	}
	for _, batch := range stream.Records {
		span, err := parseSpan(topic, p.Partition, batch)
		if err != nil {
			return part, err
		}
		part.Spans = append(part.Spans, span)
	}
	return part, nil
}

// parseSpan reads a batch. kafka-go does not tell where it ends.
func parseSpan(topic string, partition int32, batch protocol.RecordReader) (follow.Span, error) {
	span := follow.Span{Last: -1}
	switch b := batch.(type) {
	case *protocol.RecordBatch:
		span.First, span.Producer, span.Transactional = b.BaseOffset, b.ProducerID, b.Attributes.Transactional()
	case *protocol.ControlBatch:
		span.First, span.Producer, span.Transactional, span.Marker = b.BaseOffset, b.ProducerID, true, true
	default:
		return span, fmt.Errorf("a record batch of a format that no transaction has: %T", batch)
	}
	for {
		k, err := batch.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return span, fmt.Errorf("a record batch cannot be read: %w", err)
		}
		r, err := record(topic, partition, k)
		if err != nil {
			return span, err
		}
		span.Records = append(span.Records, r)
	}
	if n := len(span.Records); span.Marker && n > 0 {
		span.Abort = follow.Aborts(span.Records[0].Key)
	}
	return span, nil
}

// record copies a record out of kafka-go's pages and gives them back.
func record(topic string, partition int32, k *protocol.Record) (wire.Record, error) {
	r := wire.Record{Topic: topic, Partition: partition, Offset: k.Offset, Time: k.Time.UTC()}
	var errs [2]error
	r.Key, errs[0] = copied(k.Key)
	r.Value, errs[1] = copied(k.Value)
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, wire.Header{Key: h.Key, Value: h.Value})
	}
	return r, errors.Join(errs[:]...)
}

func copied(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	all, err := protocol.ReadAll(b)
	return all, errors.Join(err, b.Close())
}

func classify(err error) error {
	var code kafka.Error
	var topic *protocol.TopicError
	switch {
	case errors.As(err, &code):
		return follow.Code(int16(code), err)
	case errors.As(err, &topic) && errors.Is(err, protocol.ErrNoTopic):
		return wire.ErrNoTopic
	}
	return err
}
