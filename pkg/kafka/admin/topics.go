// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/wire"
)

// DefaultPartitions is how many partitions requests, reports and instances get
// if nobody says otherwise. They cannot change later: the partition of a
// project would.
const DefaultPartitions int32 = 8

// EnsureTopics makes the cell's own topics where they are missing: requests,
// reports, instances and rejected with that many partitions, the others with one. Topics
// that exist stay as they are. If some of the three exist, the missing get as
// many as those have; if they do not agree, that is a KindConflict.
// partitions 0 is DefaultPartitions; replication 0 is the brokers' default.
func (a *Admin) EnsureTopics(ctx context.Context, partitions int32, replication int16) error {
	const op = "make the cell's topics"
	t := a.cfg.Topics
	if partitions == 0 {
		partitions = DefaultPartitions
	}
	found, err := a.agreed(ctx)
	if err != nil {
		return err
	}
	if found > 0 {
		partitions = found
	}
	for _, p := range ownTopics(t, partitions, replication) {
		if _, err := a.create(ctx, op, p.partitions, replication, p.settings, p.topics); err != nil {
			return err
		}
	}
	_, err = a.agreed(ctx)
	return err
}

// EnsureTopic makes one of the cell's own topics of one partition if it is missing, with the settings that
// EnsureTopics gives it: cells of before there was such a topic have none, and no process of theirs misses it.
func (a *Admin) EnsureTopic(ctx context.Context, topic string, replication int16) error {
	for _, p := range ownTopics(a.cfg.Topics, 1, replication) {
		if slices.Contains(p.topics, topic) {
			_, err := a.create(ctx, "make a topic of the cell", p.partitions, replication, p.settings, []string{topic})
			return err
		}
	}
	return compute.Invalid("topic", topic, "name one of the cell's own topics")
}

// alike are topics with the same settings.
type alike struct {
	partitions int32
	settings   settings
	topics     []string
}

// ownTopics are the cell's own, with that many partitions where it matters.
func ownTopics(t wire.Topics, partitions int32, replication int16) []alike {
	return []alike{
		{partitions, retained(replication, inputRetention), []string{t.Requests(), t.Reports(), t.Rejected()}},
		{
			partitions,
			compacted(replication).with("max.message.bytes", strconv.Itoa(kafka.MaxTurnBytes)),
			[]string{t.Instances()},
		},
		{1, remembered(replication, tableRetention), []string{t.Catalog(), t.Hosts(), t.Queues()}},
		{1, remembered(replication, tokenRetention), []string{t.Tokens()}},
		{1, retained(replication, auditRetention), []string{t.Audit()}},
		{1, retained(replication, adviceRetention), []string{t.Advice()}},
		{1, passing(replication), []string{t.Consoles()}},
	}
}

// agreed answers how many partitions requests, reports and instances have, 0
// if none of them exists.
func (a *Admin) agreed(ctx context.Context) (int32, error) {
	t := a.cfg.Topics
	topics := []string{t.Requests(), t.Reports(), t.Instances()}
	found, err := fetch.DescribeTopics(ctx, a.client, topics...)
	if err != nil {
		return 0, a.cfg.Classify("look at the cell's topics", err)
	}
	return agree(t, found)
}

// agree is how many partitions requests, reports and instances have by an answer, 0 if
// none of them exists; the answer may be about other topics too.
func agree(t wire.Topics, found []kmsg.MetadataResponseTopic) (int32, error) {
	var agreed int32
	var seen []string
	differ := false
	for _, f := range found {
		n := int32(len(f.Partitions))
		if n == 0 || !slices.Contains([]string{t.Requests(), t.Reports(), t.Instances()}, *f.Topic) {
			continue
		}
		seen = append(seen, fmt.Sprintf("%s has %d", *f.Topic, n))
		differ = differ || agreed != 0 && agreed != n
		agreed = n
	}
	if differ {
		return 0, compute.Conflict(
			"partitions", strings.Join(seen, ", "),
			"requests, reports and instances must have the same number of partitions",
			"choose another topic prefix, or delete the topics if the cell is empty",
		)
	}
	return agreed, nil
}

// EnsureQueueTopics makes the topics of these queues where they are missing and
// answers the id of each.
func (a *Admin) EnsureQueueTopics(
	ctx context.Context, queues []compute.QueueName, replication int16) (map[compute.QueueName]compute.TopicID, error,
) {
	topics := make([]string, len(queues))
	for i, q := range queues {
		topics[i] = a.cfg.Topics.Build(q)
	}
	ids, err := a.create(ctx, "make queues", 1, replication, retained(replication, queueRetention), topics)
	if err != nil {
		return nil, err
	}
	byQueue := make(map[compute.QueueName]compute.TopicID, len(queues))
	for i, q := range queues {
		byQueue[q] = ids[topics[i]]
	}
	return byQueue, nil
}

// EnsureHostTopic makes the command stream of a host if it is missing.
func (a *Admin) EnsureHostTopic(ctx context.Context, host compute.HostID, replication int16) error {
	_, err := a.create(
		ctx, "make the stream of a host", 1, replication, retained(replication, inputRetention),
		[]string{a.cfg.Topics.Host(host)},
	)
	return err
}

// create makes topics and answers their ids. It does not look first: whether a
// topic exists only the controller knows for sure.
func (a *Admin) create(
	ctx context.Context, op string, partitions int32, replication int16, s settings, topics []string,
) (map[string]compute.TopicID, error) {
	if replication == 0 {
		replication = -1
	}
	ids := make(map[string]compute.TopicID, len(topics))
	for piece := range pieces(topics) {
		made, err := a.kadm.CreateTopics(ctx, partitions, replication, s, piece...)
		if err != nil {
			return nil, a.cfg.Classify(op, err)
		}
		var there []string
		for _, topic := range piece {
			answer, ok := made[topic]
			switch {
			case !ok:
				return nil, a.cfg.Classify(op, kerr.UnknownServerError)
			case answer.Err == nil:
				ids[topic] = topicID(answer.ID)
			case errors.Is(answer.Err, kerr.TopicAlreadyExists):
				there = append(there, topic)
			default:
				needs := access.To(access.Create, access.Topic, topic)
				return nil, a.cfg.Classify(strings.TrimSuffix(op+": "+topic+": "+answer.ErrMessage, ": "), answer.Err, needs)
			}
		}
		if err := a.addIDs(ctx, op, ids, there); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// addIDs finds the ids of topics that exist for sure, however long the brokers
// take to hear of them.
func (a *Admin) addIDs(ctx context.Context, op string, ids map[string]compute.TopicID, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*a.cfg.RequestTimeout)
	defer cancel()
	_, err := retry.Do(ctx, a.cfg.Log, "waiting for the brokers to know a new topic", nil, func() (int, error) {
		found, err := a.TopicIDs(ctx, topics...)
		if err != nil {
			return 0, err
		}
		for _, topic := range topics {
			if found[topic] == "" {
				return 0, kerr.UnknownTopicOrPartition
			}
			ids[topic] = found[topic]
		}
		return len(found), nil
	})
	return a.cfg.Classify(op, err)
}

// DeleteTopics removes topics; those that do not exist are no error. A broker
// may know a removed topic for a moment longer.
func (a *Admin) DeleteTopics(ctx context.Context, topics ...string) error {
	const op = "delete topics"
	for piece := range pieces(topics) {
		answers, err := a.kadm.DeleteTopics(ctx, piece...)
		if err != nil {
			return a.cfg.Classify(op, err)
		}
		for _, d := range answers {
			if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
				return a.cfg.Classify(op+": "+d.Topic, d.Err, access.To(access.Delete, access.Topic, d.Topic))
			}
		}
	}
	return nil
}

// TopicIDs answers the ids of topics; one that does not exist is not in the answer.
func (a *Admin) TopicIDs(ctx context.Context, topics ...string) (map[string]compute.TopicID, error) {
	const op = "look at topics"
	ids := make(map[string]compute.TopicID, len(topics))
	for piece := range pieces(topics) {
		found, err := fetch.DescribeTopics(ctx, a.client, piece...)
		if err != nil {
			return nil, a.cfg.Classify(op, err)
		}
		for _, t := range found {
			if err := kerr.ErrorForCode(t.ErrorCode); err == nil {
				ids[*t.Topic] = topicID(t.TopicID)
			} else if !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return nil, a.cfg.Classify(op+": "+*t.Topic, err, describes(*t.Topic))
			}
		}
	}
	return ids, nil
}

func topicID(id kadm.TopicID) compute.TopicID { return compute.TopicID(hex.EncodeToString(id[:])) }

// OffsetsSince are the offsets of a topic's first records since a time; where there is none, of the next. It is
// KindNotFound if the topic does not exist.
func (a *Admin) OffsetsSince(ctx context.Context, topic string, since time.Time) (map[int32]int64, error) {
	return a.listed(ctx, topic, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		after := max(0, since.UnixMilli()) // what is negative has meanings of its own
		return a.kadm.ListOffsetsAfterMilli(ctx, after, topics...)
	})
}
