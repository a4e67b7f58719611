// SPDX-License-Identifier: Apache-2.0

// Package kafkago publishes requests to Berth through a writer of
// github.com/segmentio/kafka-go.
package kafkago

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/wire"
)

// New publishes through a writer, which stays the caller's to use and to close.
// Its settings must not change any more.
//
// kafka-go's defaults are not what Berth needs. The writer must have
//
//	RequiredAcks: kafka.RequireAll,      // the default waits for nobody
//	Balancer:     kafkago.Balancer{},    // or kafka.Murmur2Balancer{}; the default goes round
//	Topic:        "",                    // or the requests topic
//	BatchTimeout: time.Millisecond,      // not needed, but the default waits a second for company
//
// and neither Async nor AllowAutoTopicCreation; anything else is refused. Its
// transport, if it has one, should name the requests topic in MetadataTopics:
// kafka-go otherwise asks for the metadata of every topic there is every few
// seconds, and Berth has one for each queue and host.
//
// kafka-go has no idempotent producer (issue 233 there): when an answer is
// lost, the writer sends again what may have been written. The instance id, chosen
// before the first try, makes that harmless: a conductor that reads it twice boots once. The
// same holds for an OpReboot and its command.
func New(w *kafka.Writer, o publish.Options) (*publish.Publisher, error) {
	s := &sender{writer: w}
	if err := s.fit(o.Topics.Requests()); err != nil {
		return nil, err
	}
	return publish.New(s, o), nil
}

// Balancer sends requests where the publisher says, and all other messages
// where Others says.
type Balancer struct {
	Others kafka.Balancer // nil: kafka.Murmur2Balancer, which goes by the key
}

// target is a message's WriterData: where it shall go.
type target int32

// Balance chooses the partition of a message.
func (b Balancer) Balance(msg kafka.Message, partitions ...int) int {
	if t, ok := msg.WriterData.(target); ok {
		return int(t)
	}
	if b.Others == nil {
		return kafka.Murmur2Balancer{}.Balance(msg, partitions...)
	}
	return b.Others.Balance(msg, partitions...)
}

type sender struct {
	writer  *kafka.Writer
	chooses bool
}

// fit refuses settings that would lose or misplace requests.
func (s *sender) fit(topic string) error {
	w := s.writer
	switch {
	case w.Addr == nil:
		return publish.Unfit("Addr", "", "give the writer the addresses of some brokers: kafka.TCP(…)")
	case w.RequiredAcks != kafka.RequireAll:
		return publish.Unfit("RequiredAcks", w.RequiredAcks.String(), "set it to kafka.RequireAll")
	case w.Async:
		return publish.Unfit("Async", "true", "set it to false: nobody would hear of a request that was lost")
	case w.AllowAutoTopicCreation:
		return publish.Unfit("AllowAutoTopicCreation", "true",
			"set it to false: Berth makes its topics with their settings")
	case w.Topic != "" && w.Topic != topic:
		return publish.Unfit("Topic", w.Topic, "leave it empty or set it to "+topic)
	case w.Balancer == nil:
		return publish.Unfit("Balancer", "", "set it to kafkago.Balancer{}")
	}
	var err error
	const remedy = "set it to kafkago.Balancer{} or kafka.Murmur2Balancer{}"
	s.chooses, err = publish.Probe("Balancer", remedy, func(key []byte, partition, n int32) (int32, bool) {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		m := kafka.Message{Topic: topic, Key: key, WriterData: target(partition)}
		return int32(w.Balancer.Balance(m, all...)), true
	})
	return err
}

// Chooses says whether the writer goes by the record's partition.
func (s *sender) Chooses() bool { return s.chooses }

// Close does nothing: all is the caller's.
func (s *sender) Close() error { return nil }

// Partitions asks the transport, which answers from what it remembers.
func (s *sender) Partitions(ctx context.Context, topic string) (int32, error) {
	transport := s.writer.Transport
	if transport == nil {
		transport = kafka.DefaultTransport
	}
	resp, err := transport.RoundTrip(ctx, s.writer.Addr, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return 0, classify(err)
	}
	known, ok := resp.(*metadata.Response)
	if !ok || len(known.Topics) != 1 {
		return 0, wire.ErrNoTopic
	}
	if code := known.Topics[0].ErrorCode; code != 0 {
		return 0, publish.Refused(code, kafka.Error(code))
	}
	return int32(len(known.Topics[0].Partitions)), nil
}

// Send hands a record to the writer and waits for what becomes of it. The
// writer does not say where it put it; fit has seen to that.
func (s *sender) Send(ctx context.Context, rec wire.Record) (int32, error) {
	m := kafka.Message{Key: rec.Key, Value: rec.Value, WriterData: target(rec.Partition)}
	if s.writer.Topic == "" {
		m.Topic = rec.Topic
	}
	for _, h := range rec.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	if err := s.writer.WriteMessages(ctx, m); err != nil {
		return 0, classify(err)
	}
	return rec.Partition, nil
}

func classify(err error) error {
	var all kafka.WriteErrors
	if errors.As(err, &all) {
		for _, one := range all {
			if one != nil {
				return classify(one)
			}
		}
	}
	var (
		code  kafka.Error
		large kafka.MessageTooLargeError
		topic *protocol.TopicError
	)
	switch {
	case errors.As(err, &code):
		return publish.Refused(int16(code), err)
	case errors.As(err, &large):
		return publish.Refused(int16(kafka.MessageSizeTooLarge),
			fmt.Errorf("larger than the writer's BatchBytes: %w", err))
	case errors.As(err, &topic) && errors.Is(err, protocol.ErrNoTopic):
		return wire.ErrNoTopic
	}
	return publish.Unreached(err)
}
