// SPDX-License-Identifier: Apache-2.0

// Package sarama publishes requests to Berth through a client of
// github.com/IBM/sarama.
package sarama

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/IBM/sarama"

	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/wire"
)

// Configure sets what Berth needs in the settings of a client that is still to
// be made, where sarama's defaults differ: acks of all replicas in sync, the
// idempotent producer (and with it one open request a connection), Kafka's own
// partitioner, no topics made by the way, and an answer for every message.
func Configure(c *sarama.Config, o publish.Options) {
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Producer.Partitioner = Partitioner(o, c.Producer.Partitioner)
	c.Producer.Return.Successes = true
	c.Producer.Return.Errors = true
	c.Metadata.AllowAutoTopicCreation = false
}

// New publishes through a client, which stays the caller's to use and to close;
// first close the publisher.
//
// The client must have been made with what Configure sets; one with other
// settings is refused. sarama's producers do not say how they were made, so New
// takes the client and makes a SyncProducer of its own with it. That shares the
// client's connections: one open request each, so a Consumer on the same client
// would hold requests up for as long as its fetches wait. Give consumers a
// client of their own.
//
// sarama cannot be told to give up a message. One for which Publish has ended
// with KindTimeout goes on being tried as long as the client's Producer.Retry
// says; Close waits for that.
func New(client sarama.Client, o publish.Options) (*publish.Publisher, error) {
	s := &sender{client: client, slots: make(chan struct{}, maxCalls)}
	if err := s.fit(o.Topics.Requests()); err != nil {
		return nil, err
	}
	var err error
	if s.producer, err = sarama.NewSyncProducerFromClient(client); err != nil {
		return nil, classify(err)
	}
	return publish.New(s, o), nil
}

// Partitioner sends requests where the publisher says, and the messages of all
// other topics where others says.
func Partitioner(o publish.Options, others sarama.PartitionerConstructor) sarama.PartitionerConstructor {
	return func(topic string) sarama.Partitioner {
		if topic == o.Topics.Requests() {
			return sarama.NewManualPartitioner(topic)
		}
		return others(topic)
	}
}

// maxCalls is how many calls may wait for sarama, which knows no contexts.
const maxCalls = 10_000

type sender struct {
	client   sarama.Client
	producer sarama.SyncProducer
	chooses  bool
	slots    chan struct{}

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// fit refuses settings that would lose, double, misplace or keep back requests.
func (s *sender) fit(topic string) error {
	c := s.client.Config()
	const remedy = "make the client with a configuration that went through Configure of this package"
	switch {
	case c.Producer.RequiredAcks != sarama.WaitForAll:
		return publish.Unfit("Producer.RequiredAcks", fmt.Sprint(c.Producer.RequiredAcks), remedy)
	case !c.Producer.Idempotent:
		return publish.Unfit("Producer.Idempotent", "false", remedy)
	case c.Producer.Transaction.ID != "":
		return publish.Unfit("Producer.Transaction.ID", c.Producer.Transaction.ID,
			"use a client of its own for publishing: a request must not wait for a transaction")
	case !c.Producer.Return.Successes || !c.Producer.Return.Errors:
		return publish.Unfit("Producer.Return", "false", remedy)
	case c.Metadata.AllowAutoTopicCreation:
		return publish.Unfit("Metadata.AllowAutoTopicCreation", "true", remedy)
	}
	// Without a Frequency, sarama keeps what has not come to Messages or Bytes for ever, and its Close waits for that. No
	// message waits where Messages is 1.
	if f := c.Producer.Flush; f.Frequency == 0 && (f.Messages > 1 || f.Messages == 0 && f.Bytes > 0) {
		return publish.Unfit("Producer.Flush.Frequency", "0",
			"set it, as to time.Millisecond, or leave Messages and Bytes 0 as well: fewer than these would never be sent")
	}
	p := c.Producer.Partitioner(topic)
	var err error
	const setting = "Producer.Partitioner"
	const choose = "set it with Partitioner of this package, or to sarama.NewManualPartitioner or " +
		"sarama.NewMurmur2Partitioner"
	s.chooses, err = publish.Probe(setting, choose, func(key []byte, partition, n int32) (int32, bool) {
		m := &sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder(key), Partition: partition}
		at, err := p.Partition(m, n)
		all := p.RequiresConsistency()
		if d, ok := p.(sarama.DynamicConsistencyPartitioner); ok {
			all = d.MessageRequiresConsistency(m)
		}
		return at, err == nil && all
	})
	return err
}

// Chooses says whether the client goes by the message's partition.
func (s *sender) Chooses() bool { return s.chooses }

// Close waits for what was handed over and ends the producer.
func (s *sender) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	return s.producer.Close()
}

// Partitions asks the client, which answers from what it remembers once it has
// heard of the topic.
func (s *sender) Partitions(ctx context.Context, topic string) (int32, error) {
	return s.call(ctx, func() (int32, error) {
		all, err := s.client.Partitions(topic)
		return int32(len(all)), err
	})
}

// Send hands a record to the producer and waits for what becomes of it.
func (s *sender) Send(ctx context.Context, rec wire.Record) (int32, error) {
	m := &sarama.ProducerMessage{
		Topic: rec.Topic, Partition: rec.Partition, Key: sarama.ByteEncoder(rec.Key),
		Value: sarama.ByteEncoder(rec.Value),
	}
	for _, h := range rec.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return s.call(ctx, func() (int32, error) {
		at, _, err := s.producer.SendMessage(m)
		return at, err
	})
}

type answer struct {
	at  int32
	err error
}

// call waits for f no longer than ctx; f goes on.
func (s *sender) call(ctx context.Context, f func() (int32, error)) (int32, error) {
	done := make(chan answer, 1)
	if err := s.begin(func() {
		at, err := f()
		done <- answer{at, err}
	}); err != nil {
		return 0, err
	}
	select {
	case a := <-done:
		if a.err != nil {
			return 0, classify(a.err)
		}
		return a.at, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// begin runs f beside, unless too many run already.
func (s *sender) begin(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return publish.Unreached(errors.New("the publisher is closed"))
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return publish.Busy(fmt.Errorf("%d calls", maxCalls))
	}
	s.calls.Go(func() {
		f()
		<-s.slots
	})
	return nil
}

func classify(err error) error {
	var (
		code     sarama.KError
		settings sarama.ConfigurationError
	)
	switch {
	case errors.As(err, &code):
		return publish.Refused(int16(code), err)
	case errors.As(err, &settings): // sarama's word for a message above Producer.MaxMessageBytes
		return publish.Refused(int16(sarama.ErrMessageSizeTooLarge), err)
	}
	return publish.Unreached(err)
}
