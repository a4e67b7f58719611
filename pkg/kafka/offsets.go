package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Committed asks how far a consumer group has read a topic: for each partition
// with a committed position, the offset it goes on at. A group that never
// committed answers nothing, without error.
func (a *Admin) Committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	const op = "ask for committed offsets"
	all, err := a.kadm.FetchOffsetsForTopics(ctx, group, topic)
	if errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(op, err)
	}
	at := map[int32]int64{}
	for _, o := range all[topic] {
		if o.Err == nil && o.At >= 0 {
			at[o.Partition] = o.At
		}
	}
	return at, nil
}

// Partitions asks how many partitions a topic has.
func (a *Admin) Partitions(ctx context.Context, topic string) (int32, error) {
	const op = "ask for partitions"
	topics, err := a.kadm.ListTopics(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	if err != nil {
		return 0, classify(op, err)
	}
	return int32(len(topics[topic].Partitions)), nil
}
