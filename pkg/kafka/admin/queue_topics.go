// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
)

// QueueTopics lists every topic of a queue of this cell that exists, with its
// id. It asks the brokers each time: kadm would answer from memory for a while,
// and a topic just made or deleted is what the caller looks for.
func (a *Admin) QueueTopics(ctx context.Context) (map[compute.QueueName]compute.TopicID, error) {
	return topicsFor(ctx, a, "list queues", a.cfg.Topics.QueueOf)
}

// topicsFor lists the topics of one kind, by what they are for.
func topicsFor[K comparable](
	ctx context.Context, a *Admin, op string, of func(topic string) (K, bool)) (map[K]compute.TopicID, error,
) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all there are
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return nil, a.cfg.Classify(op, err)
	}
	found := map[K]compute.TopicID{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		k, ok := of(*t.Topic)
		if !ok {
			continue
		}
		// A topic that is being deleted is gone; any other error may pass.
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) {
			return nil, a.cfg.Classify(op+": "+*t.Topic, err, describes(*t.Topic))
		}
		if err == nil || errors.Is(err, kerr.LeaderNotAvailable) {
			found[k] = topicID(t.TopicID)
		}
	}
	return found, nil
}

// DeleteQueueTopic deletes one incarnation of a queue's topic, by its id: one
// that was made anew meanwhile is not touched, and one that is gone is no error.
func (a *Admin) DeleteQueueTopic(ctx context.Context, id compute.TopicID) error {
	return a.deleteTopic(ctx, "delete a queue", id)
}

func (a *Admin) deleteTopic(ctx context.Context, op string, id compute.TopicID) error {
	t := kmsg.NewDeleteTopicsRequestTopic()
	if n, err := hex.Decode(t.TopicID[:], []byte(id)); err != nil || n != len(t.TopicID) {
		return compute.Invalid("topic id", string(id), "give its 32 hex digits")
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(a.cfg.RequestTimeout.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return a.cfg.Classify(op, err)
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicID) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return a.cfg.Classify(op, err, access.ToAll(access.Delete, access.Topic, a.cfg.Topics.Prefix))
		}
	}
	return nil
}
