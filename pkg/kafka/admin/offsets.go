// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
)

// Committed asks how far a consumer group has read a topic: for each partition
// with a committed position, the offset it goes on at. A group that never
// committed answers nothing, without error. It tries again until it is answered
// or ctx ends: a cluster where no group ever was first makes the topic its
// coordinators need.
func (a *Admin) Committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	log := a.cfg.Log.With(zap.String("group", group))
	at, err := retry.Do(ctx, log, "waiting for committed offsets", nil, func() (map[int32]int64, error) {
		ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
		defer cancel()
		all, err := a.kadm.FetchOffsetsForTopics(ctx, group, topic)
		if err == nil {
			err = all.Error()
		}
		if errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return positionsOf(all[topic]), nil
	})
	return at, a.cfg.Classify("ask for committed offsets", err,
		access.To(access.Describe, access.Group, group), describes(topic))
}

// positionsOf leaves out the partitions where nothing was ever committed.
func positionsOf(all map[int32]kadm.OffsetResponse) map[int32]int64 {
	at := map[int32]int64{}
	for _, o := range all {
		if o.At >= 0 {
			at[o.Partition] = o.At
		}
	}
	return at
}

// youngTopic is how long brokers may take to hear of a topic that was just made.
const youngTopic = 5 * time.Second

// Partitions asks how many partitions a topic has. One that nobody has heard of
// is asked for again for a while: it may be new.
func (a *Admin) Partitions(ctx context.Context, topic string) (int32, error) {
	const op = "ask for partitions"
	young, cancel := context.WithTimeout(ctx, youngTopic)
	defer cancel()
	var last error
	n, err := retry.Do(young, a.cfg.Log, "waiting for the brokers to know a new topic", nil, func() (int32, error) {
		topics, err := a.kadm.ListTopics(ctx, topic)
		if err == nil {
			err = topics[topic].Err
		}
		last = err
		return int32(len(topics[topic].Partitions)), err
	})
	if err != nil {
		return 0, a.cfg.Classify(op, last, describes(topic))
	}
	return n, nil
}

// TopicID asks for the id of a topic, which one of the same name that is made anew does not have. It tries again until
// it is answered or ctx ends, also where nobody has heard of the topic: it may be new.
func (a *Admin) TopicID(ctx context.Context, topic string) (compute.TopicID, error) {
	log := a.cfg.Log.With(zap.String("topic", topic))
	id, err := retry.Do(ctx, log, "waiting for the id of a topic", nil, func() (compute.TopicID, error) {
		ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
		defer cancel()
		topics, err := a.kadm.ListTopics(ctx, topic)
		if err == nil {
			err = topics[topic].Err
		}
		return topicID(topics[topic].ID), err
	})
	return id, a.cfg.Classify("ask for the id of a topic", err, describes(topic))
}
