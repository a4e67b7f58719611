// SPDX-License-Identifier: Apache-2.0

// Package franz publishes requests to Berth through a client of
// github.com/twmb/franz-go.
package franz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/wire"
)

// New publishes through a client, which stays the caller's to use and to close.
//
// franz-go's defaults are what Berth needs: acks of all replicas in sync, the
// idempotent producer, no topics made by the way, no flushing by hand, Kafka's own partitioner. A
// client with other settings of these is refused, and so is a transactional
// one. ProducerLinger(0) saves the 10 ms for which franz-go otherwise waits for
// company. What a client may keep waiting for brokers is its own
// MaxBufferedRecords and MaxBufferedBytes; beyond that, publishing answers
// KindUnavailable at once.
//
// A record that the client has sent and that was not answered is kept and sent
// again until it is, also after Publish has ended with KindTimeout. A client
// made with RecordDeliveryTimeout and AllowIdempotentProduceCancellation gives
// up; that harms nobody either.
func New(client *kgo.Client, o publish.Options) (*publish.Publisher, error) {
	s := &sender{client: client}
	if err := s.fit(o.Topics.Requests()); err != nil {
		return nil, err
	}
	return publish.New(s, o), nil
}

// Partitioner sends requests where the publisher says, and the records of all
// other topics where others says (nil: where franz-go's default does). A client
// needs it only to publish fence and forget, which go to every partition.
func Partitioner(o publish.Options, others kgo.Partitioner) kgo.Partitioner {
	if others == nil {
		others = kgo.StickyKeyPartitioner(nil)
	}
	return partitioner{requests: o.Topics.Requests(), others: others}
}

type partitioner struct {
	requests string
	others   kgo.Partitioner
}

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if topic == p.requests {
		return kgo.ManualPartitioner().ForTopic(topic)
	}
	return p.others.ForTopic(topic)
}

// partitionsAge is how old what the client knows of a topic may be. Partitions
// are added to requests never, or once in years.
const partitionsAge = time.Minute

type sender struct {
	client  *kgo.Client
	chooses bool
}

// fit refuses settings that would lose, double or misplace requests.
func (s *sender) fit(topic string) error {
	c := s.client
	if acks := c.OptValue(kgo.RequiredAcks); acks != kgo.AllISRAcks() {
		return publish.Unfit("RequiredAcks", fmt.Sprint(acks),
			"make the client with kgo.RequiredAcks(kgo.AllISRAcks()), its default")
	}
	if off, _ := c.OptValue(kgo.DisableIdempotentWrite).(bool); off {
		return publish.Unfit("DisableIdempotentWrite", "true", "make the client without it")
	}
	if on, _ := c.OptValue(kgo.AllowAutoTopicCreation).(bool); on {
		return publish.Unfit("AllowAutoTopicCreation", "true",
			"make the client without it: Berth makes its topics with their settings")
	}
	if on, _ := c.OptValue(kgo.ManualFlushing).(bool); on {
		return publish.Unfit("ManualFlushing", "true",
			"make the client without it: nobody would flush, and no request be sent")
	}
	if id, _ := c.OptValue(kgo.TransactionalID).(string); id != "" {
		return publish.Unfit("TransactionalID", id,
			"use a client of its own for publishing: a request must not wait for a transaction")
	}
	p, _ := c.OptValue(kgo.RecordPartitioner).(kgo.Partitioner)
	if p == nil {
		return publish.Unfit("RecordPartitioner", "",
			"make the client with a version of franz-go that can be asked for it")
	}
	t := p.ForTopic(topic)
	var err error
	const remedy = "make the client with franz.Partitioner, kgo.ManualPartitioner or franz-go's default"
	s.chooses, err = publish.Probe("RecordPartitioner", remedy, func(key []byte, partition, n int32) (int32, bool) {
		r := &kgo.Record{Topic: topic, Key: key, Partition: partition}
		if !t.RequiresConsistency(r) {
			return 0, false
		}
		if b, ok := t.(kgo.TopicBackupPartitioner); ok {
			return int32(b.PartitionByBackup(r, int(n), noBackup{})), true
		}
		return int32(t.Partition(r, int(n))), true
	})
	return err
}

// noBackup says that nothing waits for any partition. Only where a record goes
// by its key it is passed, and then nobody asks it.
type noBackup struct{}

func (noBackup) Next() (partition int, records int64) { return 0, 0 }
func (noBackup) Rem() int                             { return 0 }

// Chooses says whether the client goes by the record's partition.
func (s *sender) Chooses() bool { return s.chooses }

// Close does nothing: all is the caller's.
func (s *sender) Close() error { return nil }

// Partitions asks what the client remembers.
func (s *sender) Partitions(ctx context.Context, topic string) (int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := s.client.RequestCachedMetadata(ctx, req, partitionsAge)
	if err != nil {
		return 0, classify(err)
	}
	if len(resp.Topics) != 1 {
		return 0, wire.ErrNoTopic
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return 0, classify(err)
	}
	return int32(len(resp.Topics[0].Partitions)), nil
}

// Send hands a record to the client and waits for what becomes of it.
func (s *sender) Send(ctx context.Context, rec wire.Record) (int32, error) {
	k := &kgo.Record{Topic: rec.Topic, Partition: rec.Partition, Key: rec.Key, Value: rec.Value}
	for _, h := range rec.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	done := make(chan error, 1)
	// Not under ctx: its end would fail everything that waits for the same
	// partition, whichever caller sent it.
	s.client.TryProduce(context.WithoutCancel(ctx), k, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		if err == nil {
			return k.Partition, nil
		}
		err = classify(err)
		if errors.Is(err, wire.ErrNoTopic) {
			// The client would stand by the topic's old id if it is made again.
			s.client.PurgeTopicsFromProducing(rec.Topic)
		}
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func classify(err error) error {
	var code *kerr.Error
	var ours *compute.Error
	switch {
	case errors.As(err, &ours):
		return err
	case errors.Is(err, kgo.ErrMaxBuffered):
		return publish.Busy(err)
	case errors.As(err, &code):
		return publish.Refused(code.Code, err)
	}
	return publish.Unreached(err)
}
