// SPDX-License-Identifier: Apache-2.0

// Package kafkago follows instances with github.com/segmentio/kafka-go.
package kafkago

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
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
		a.fresh = func() transport { return a.transport(t, o.Topics.Instances()) }
		a.own, a.looked = a.fresh(), time.Now()
	}
	return follow.New(a, o)
}

// metadataAge is how old what is known of leaders may be: kafka-go asks by
// itself, and cannot be made to ask.
const metadataAge = time.Second

// lookAfter is how long one broker alone may be asked which of them lead: a follower that hears nothing else for 10 s
// may believe that records are lost. lookWithin is how long another one may take to answer.
const (
	lookAfter  = 2 * time.Second
	lookWithin = 3 * time.Second
)

type adapter struct {
	addr  net.Addr
	via   kafka.RoundTripper // the client's
	fresh func() transport   // makes one like it; nil: via is used as it is
	conns follow.Conns

	mu     sync.Mutex
	own    transport // what fresh made last
	looked time.Time // when another was made, to ask for the leaders
}

// transport is a *kafka.Transport.
type transport interface {
	kafka.RoundTripper
	CloseIdleConnections()
}

// used is what questions go through, and what is to be called after them: if another transport has taken its place
// meanwhile, they may have made it connect again.
func (a *adapter) used() (via kafka.RoundTripper, done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own == nil {
		return a.via, func() {}
	}
	own := a.own
	return own, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.own != own {
			own.CloseIdleConnections()
		}
	}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own != nil {
		a.own.CloseIdleConnections()
		a.conns.Close()
	}
	return nil
}

// Leaders answers what the transport has asked in the last second. A transport asks over one connection for as long as
// that lives, perhaps a broker that is cut off from the others. So now and then another one is made, which asks at one
// of the client's addresses; if that knows of a newer leader, it takes the place of the first.
func (a *adapter) Leaders(ctx context.Context, topic string) (follow.Leaders, error) {
	via, done := a.used()
	defer done()
	known, err := leaders(ctx, a.addr, via, topic)
	if !a.lookDue() {
		return known, err
	}
	other := a.fresh()
	ctx, stop := context.WithTimeout(ctx, lookWithin)
	defer stop()
	said, failed := leaders(ctx, a.addr, other, topic)
	if failed == nil && (err != nil || newer(said, known)) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.own = other // done ends the connections of the one before
		return said, nil
	}
	other.CloseIdleConnections()
	return known, err
}

func (a *adapter) lookDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fresh == nil || time.Since(a.looked) < lookAfter {
		return false
	}
	a.looked = time.Now()
	return true
}

// newer says whether one broker has heard of a leader of which another has not.
func newer(said, known follow.Leaders) bool {
	for p, epoch := range said.Epoch {
		if epoch > known.Epoch[p] {
			return true
		}
	}
	return false
}

func leaders(ctx context.Context, addr net.Addr, via kafka.RoundTripper, topic string) (follow.Leaders, error) {
	resp, err := ask[*metadata.Response](ctx, addr, via, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return follow.Leaders{}, err
	}
	if len(resp.Topics) != 1 {
		return follow.Leaders{}, wire.ErrNoTopic
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		return follow.Leaders{}, follow.Code(code, kafka.Error(code))
	}
	l := follow.Leaders{Of: map[int32]int32{}, Epoch: map[int32]int32{}}
	for _, p := range resp.Topics[0].Partitions {
		l.Of[p.PartitionIndex], l.Epoch[p.PartitionIndex] = p.LeaderID, p.LeaderEpoch
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
	via, done := a.used()
	defer done()
	resp, err := ask[*listoffsets.Response](ctx, a.addr, via, &listoffsets.Request{
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

// Fetch asks for records. The transport chooses the broker, by what it told Leaders: where another leads by now than
// the one that is meant, the log may be another, and the follower must look before it goes on. So the transport's
// leaders are looked at before and after.
func (a *adapter) Fetch(
	ctx context.Context, broker int32, topic string, from map[int32]int64, room follow.Room,
) ([]follow.Part, error) {
	via, done := a.used()
	defer done()
	stay, err := a.leads(ctx, via, broker, topic)
	if err != nil {
		return nil, err
	}
	t := fetch.RequestTopic{Topic: topic}
	for p, offset := range from {
		if !stay[p] {
			continue
		}
		t.Partitions = append(t.Partitions, fetch.RequestPartition{
			Partition: p, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1,
			PartitionMaxBytes: room.Bytes,
		})
	}
	if len(t.Partitions) == 0 {
		return elsewhere(from, stay), nil
	}
	resp, err := ask[*fetch.Response](ctx, a.addr, via, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(room.Wait.Milliseconds()), MinBytes: 1, MaxBytes: follow.FetchBytes,
		IsolationLevel: int8(kafka.ReadCommitted), SessionEpoch: -1, Topics: []fetch.RequestTopic{t},
	})
	if err != nil {
		return nil, err
	}
	if resp.ErrorCode != 0 {
		return nil, follow.Code(resp.ErrorCode, kafka.Error(resp.ErrorCode))
	}
	still, err := a.leads(ctx, via, broker, topic)
	if err != nil {
		return nil, err
	}
	for p := range stay {
		stay[p] = still[p]
	}
	parts := elsewhere(from, stay)
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			if stay[t.Partitions[i].Partition] {
				parts = append(parts, parse(topic, &t.Partitions[i], from[t.Partitions[i].Partition]))
			}
		}
	}
	return parts, nil
}

// leads is which partitions a transport takes a broker to lead.
func (a *adapter) leads(
	ctx context.Context, via kafka.RoundTripper, broker int32, topic string,
) (map[int32]bool, error) {
	known, err := leaders(ctx, a.addr, via, topic)
	if err != nil {
		return nil, err
	}
	leads := map[int32]bool{}
	for p, leader := range known.Of {
		leads[p] = leader == broker
	}
	return leads, nil
}

// elsewhere is the answer about what the broker does not lead.
func elsewhere(from map[int32]int64, leads map[int32]bool) (parts []follow.Part) {
	for p := range from {
		if !leads[p] {
			parts = append(parts, follow.Part{Partition: p, Code: int16(kafka.NotLeaderForPartition)})
		}
	}
	return parts
}

// ask asks and answers with our errors.
func ask[R kafka.Response](ctx context.Context, addr net.Addr, via kafka.RoundTripper, req kafka.Request) (R, error) {
	var none R
	resp, err := via.RoundTrip(ctx, addr, req)
	if err != nil {
		return none, classify(err)
	}
	r, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("asked %T and got %T", req, resp)
	}
	return r, nil
}

func parse(topic string, p *fetch.ResponsePartition, from int64) follow.Part {
	part := follow.Part{
		Partition: p.Partition, Code: p.ErrorCode, Highest: p.HighWatermark, Stable: p.LastStableOffset,
	}
	for _, t := range p.AbortedTransactions {
		part.Aborted = append(part.Aborted, follow.Aborted{Producer: t.ProducerID, First: t.FirstOffset})
	}
	part.Empty = p.RecordSet.Records == nil
	stream, ok := p.RecordSet.Records.(*protocol.RecordStream)
	if p.ErrorCode != 0 || !ok {
		return part
	}
	for _, batch := range stream.Records {
		span, err := parseSpan(topic, part.Partition, batch)
		if err != nil {
			part.Err = fmt.Errorf("partition %d, offset %d: %w", part.Partition, from, err)
			return part
		}
		part.Spans = append(part.Spans, span)
	}
	return part
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
