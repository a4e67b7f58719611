package kafka

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
)

// QueueTopics lists every topic of a queue of this cell that exists, with its
// id. It asks the brokers each time: kadm would answer from memory for a while,
// and a topic just made or deleted is what the caller looks for.
func (a *Admin) QueueTopics(ctx context.Context) (map[compute.QueueName]compute.TopicID, error) {
	const op = "list queues"
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all there are
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return nil, classify(op, err)
	}
	queues := map[compute.QueueName]compute.TopicID{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		q, ok := a.cfg.Topics.QueueOf(*t.Topic)
		if !ok {
			continue
		}
		// A topic that is being deleted is gone; any other error may pass.
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) {
			return nil, classify(op+": "+*t.Topic, err)
		}
		if err == nil || errors.Is(err, kerr.LeaderNotAvailable) {
			queues[q] = topicID(t.TopicID)
		}
	}
	return queues, nil
}

// DeleteQueueTopic deletes one incarnation of a queue's topic, by its id: one
// that was made anew meanwhile is not touched, and one that is gone is no error.
func (a *Admin) DeleteQueueTopic(ctx context.Context, id compute.TopicID) error {
	const op = "delete a queue"
	t := kmsg.NewDeleteTopicsRequestTopic()
	if n, err := hex.Decode(t.TopicID[:], []byte(id)); err != nil || n != len(t.TopicID) {
		return compute.Invalid("topic id", string(id), "give the 32 hex digits of the queue's record")
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(a.cfg.RequestTimeout.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return classify(op, err)
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicID) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return classify(op, err)
		}
	}
	return nil
}
