// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// DeleteRecordsBelow removes the records of queues below these offsets, which must not
// be above QueueProgress.Written. Queues that do not exist, queues of which a replica is
// not in sync, and queues that another broker leads meanwhile are left as they are: that is no
// error, and they are asked for again some time.
//
// # Why every replica must be in sync
//
// A leader that was killed comes back with records that nobody else has. It asks the new
// leader where its epoch ended, to cut them off. If records were removed meanwhile up to
// an offset behind that end, the new leader has forgotten it and names the offset of the
// removal instead, which may lie within a batch: the replica then keeps a few records too
// many, is sent a batch that begins before its end, and gives the partition up for good
// (UnexpectedAppendOffsetException, Kafka 4.3.1). It is never in sync again by itself, and
// the next broker that dies stops the queue. What was removed while all replicas were in
// sync lies below every later epoch. So the leader itself is asked whether they are, for
// another broker may know an older leader, and the removal goes to the same broker
// without the retries of a client, which would find the next leader.
func (a *Admin) DeleteRecordsBelow(ctx context.Context, below map[compute.QueueName]int64) error {
	const op = "remove finished records"
	var all []error
	for piece := range pieces(slices.Sorted(maps.Keys(below))) {
		topics := make([]string, len(piece))
		offsets := map[string]int64{}
		for i, q := range piece {
			topics[i] = a.cfg.Topics.Build(q)
			offsets[topics[i]] = below[q]
		}
		all = append(all, a.deleteFinished(ctx, topics, offsets))
	}
	return a.cfg.Classify(op, errors.Join(all...), access.ToAll(access.Delete, access.Topic, a.cfg.Topics.Build("")))
}

// deleteFinished asks any broker which one leads each topic, and then all leaders together. A broker that is
// cut off holds up those alone that it leads.
func (a *Admin) deleteFinished(ctx context.Context, topics []string, below map[string]int64) error {
	m, err := fetch.Metadata(ctx, a.client, topics...)
	if err != nil {
		return err
	}
	byLeader := map[int32][]string{}
	for _, t := range m.Topics {
		if t.ErrorCode == 0 && len(t.Partitions) > 0 && t.Partitions[0].ErrorCode == 0 {
			byLeader[t.Partitions[0].Leader] = append(byLeader[t.Partitions[0].Leader], *t.Topic)
		}
	}
	errs := make(chan error, len(byLeader))
	for leader, topics := range byLeader {
		go func() { errs <- a.deleteAt(ctx, leader, topics, below) }()
	}
	var all []error
	for range byLeader {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// deleteAt has one broker remove records of those topics that it says that it leads with all replicas in sync.
func (a *Admin) deleteAt(ctx context.Context, leader int32, topics []string, below map[string]int64) error {
	m, err := fetch.Metadata(ctx, a.client.Broker(int(leader)), topics...)
	if err != nil {
		return err
	}
	if topics = inSyncAt(m.Topics, leader); len(topics) == 0 {
		return nil
	}
	return a.deleteRecords(ctx, leader, topics, below)
}

// inSyncAt are the topics of one partition that a broker leads with all replicas in sync.
func inSyncAt(topics []kmsg.MetadataResponseTopic, leader int32) (out []string) {
	for _, t := range topics {
		if t.ErrorCode != 0 || len(t.Partitions) == 0 {
			continue
		}
		if p := t.Partitions[0]; p.ErrorCode == 0 && p.Leader == leader && len(p.ISR) == len(p.Replicas) {
			out = append(out, *t.Topic)
		}
	}
	return out
}

// deleteRecords asks one broker to remove records of topics that it leads.
func (a *Admin) deleteRecords(ctx context.Context, leader int32, topics []string, below map[string]int64) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(a.cfg.RequestTimeout / time.Millisecond)
	for _, topic := range topics {
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Offset = below[topic]
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic, rt.Partitions = topic, []kmsg.DeleteRecordsRequestTopicPartition{rp}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, a.client.Broker(int(leader)))
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !leftAsItIs(err) {
				return kafka.Lacking(errors.Join(errors.New(t.Topic), err), access.To(access.Delete, access.Topic, t.Topic))
			}
		}
	}
	return nil
}

// leftAsItIs says that a queue is gone, or has another leader now.
func leftAsItIs(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.NotLeaderForPartition)
}
