// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Leads says which broker of a cluster has which job, so that a test can take
// away the one that matters. Ask while all brokers serve.
type Leads struct {
	client *kgo.Client
	admin  *kadm.Client
}

// AskLeads asks these brokers.
func AskLeads(addrs []string) (*Leads, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RequestTimeoutOverhead(5*time.Second), kgo.RetryTimeout(time.Minute), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	return &Leads{cl, kadm.NewClient(cl)}, nil
}

// Close ends the connections.
func (l *Leads) Close() { l.client.Close() }

// Leader is the leader of a partition.
func (l *Leads) Leader(ctx context.Context, topic string, partition int32) (int, error) {
	p, err := l.partition(ctx, topic, partition)
	return int(p.Leader), err
}

func (l *Leads) partition(
	ctx context.Context, topic string, partition int32,
) (kmsg.MetadataResponseTopicPartition, error) {
	topics, err := l.metadata(ctx, topic)
	if err != nil {
		return kmsg.MetadataResponseTopicPartition{}, err
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return kmsg.MetadataResponseTopicPartition{}, fmt.Errorf("%s has no partition %d", topic, partition)
}

// metadata asks about a topic, or all, past every cache.
func (l *Leads) metadata(ctx context.Context, names ...string) ([]kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return nil, err
	}
	return resp.Topics, nil
}

// What a coordinator may be for.
const (
	OfGroup int8 = iota
	OfTransaction
	ofShare
)

// Coordinator is the coordinator of a group or a transaction.
func (l *Leads) Coordinator(ctx context.Context, of int8, key string) (int, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = key, []string{key}, of
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Coordinators) == 0 {
		return int(resp.NodeID), kerr.ErrorForCode(resp.ErrorCode)
	}
	return int(resp.Coordinators[0].NodeID), kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
}

// Commit has a consumer group without members say how far it is in a partition. While
// it has members the coordinator refuses.
func (l *Leads) Commit(ctx context.Context, group, topic string, partition int32, at int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, partition, at, -1)
	return l.admin.CommitAllOffsets(ctx, group, offsets)
}

// ShareCoordinator keeps what a share group has finished of a partition.
func (l *Leads) ShareCoordinator(ctx context.Context, group, topic string, partition int32) (int, error) {
	topics, err := l.metadata(ctx, topic)
	if err != nil {
		return 0, err
	}
	id := base64.RawURLEncoding.EncodeToString(topics[0].TopicID[:])
	return l.Coordinator(ctx, ofShare, fmt.Sprintf("%s:%s:%d", group, id, partition))
}

// Controller is the leader of the cluster's metadata. Other requests name any broker.
func (l *Leads) Controller(ctx context.Context) (int, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return 0, errors.Join(errors.New("nobody says who leads the metadata"), kerr.ErrorForCode(resp.ErrorCode))
	}
	return int(resp.Topics[0].Partitions[0].LeaderID), kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// Whole says whether every partition has a leader and all replicas are in sync;
// if not, with one that is not so.
func (l *Leads) Whole(ctx context.Context) (ok bool, why string) {
	topics, err := l.metadata(ctx)
	if err != nil {
		return false, err.Error()
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return false, fmt.Sprintf(
					"%s/%d: leader %d, in sync %v of %v", *t.Topic, p.Partition, p.Leader, p.ISR, p.Replicas,
				)
			}
		}
	}
	if len(topics) == 0 {
		return false, "no topics"
	}
	return true, ""
}

// Spread gives every partition back to the broker that is meant to lead it:
// after a fault the survivors lead everything.
func (l *Leads) Spread(ctx context.Context) error {
	_, err := l.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	if errors.Is(err, kerr.ElectionNotNeeded) {
		return nil
	}
	return err
}

// Most is the broker that leads most partitions of the topics that fit.
func (l *Leads) Most(ctx context.Context, fits func(topic string) bool) (int, error) {
	topics, err := l.metadata(ctx)
	if err != nil {
		return 0, err
	}
	n := map[int]int{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if fits(*t.Topic) {
				n[int(p.Leader)]++
			}
		}
	}
	most, ids := 0, []int{}
	for id := range n {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if n[id] > n[most] {
			most = id
		}
	}
	if most == 0 {
		return 0, errors.New("no topic fits")
	}
	return most, nil
}
