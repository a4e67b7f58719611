// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// What a doctor looks at: plain data, without any judgement. Nothing here
// changes anything.

// ClusterFacts are the brokers and what they have agreed on.
type ClusterFacts struct {
	ID         string
	Controller int32 // the leader of the controllers; -1: not known
	Brokers    []BrokerFacts
	Features   map[string]int16 // finalized levels
}

// BrokerFacts are one broker.
type BrokerFacts struct {
	ID       int32
	Address  string
	Rack     string            // empty: none
	Version  string            // a guess by its API: "v4.3"
	Lacks    string            // what Berth needs of its API and it has not; empty: nothing
	Settings map[string]string // in effect now; without secrets
	Err      string            // why nothing is known of it
}

// DescribeCluster asks every broker.
func (a *Admin) DescribeCluster(ctx context.Context) (ClusterFacts, error) {
	const op = "look at the brokers"
	needs := access.To(access.DescribeConfigs, access.Cluster, access.ClusterName)
	meta, err := a.kadm.BrokerMetadata(ctx)
	if err != nil {
		return ClusterFacts{}, a.cfg.Classify(op, err, needs)
	}
	facts := ClusterFacts{ID: meta.Cluster, Controller: a.quorumLeader(ctx), Features: map[string]int16{}}
	versions, err := a.kadm.ApiVersions(ctx)
	if err != nil {
		return facts, a.cfg.Classify(op, err, needs)
	}
	settings, err := a.kadm.DescribeBrokerConfigs(ctx, meta.Brokers.NodeIDs()...)
	if err != nil && len(settings) == 0 { // of some brokers is better than of none
		return facts, a.cfg.Classify(op, err, needs)
	}
	for _, b := range meta.Brokers {
		facts.Brokers = append(facts.Brokers, brokerFacts(b, versions[b.NodeID], settings))
		for _, f := range features(versions[b.NodeID]) {
			facts.Features[f.Name] = f.MaxVersionLevel
		}
	}
	return facts, nil
}

func features(v kadm.BrokerApiVersions) []kmsg.ApiVersionsResponseFinalizedFeature {
	if v.Err != nil || v.Raw() == nil {
		return nil
	}
	return v.Raw().FinalizedFeatures
}

func brokerFacts(b kadm.BrokerDetail, v kadm.BrokerApiVersions, settings kadm.ResourceConfigs) BrokerFacts {
	facts := BrokerFacts{ID: b.NodeID, Address: fmt.Sprintf("%s:%d", b.Host, b.Port), Settings: map[string]string{}}
	if b.Rack != nil {
		facts.Rack = *b.Rack
	}
	if v.Err != nil {
		facts.Err = v.Err.Error()
		return facts
	}
	facts.Version = v.VersionGuess()
	if err := suits(v.NodeID, v.Raw()); err != nil {
		facts.Lacks = err.Message
	}
	i := slices.IndexFunc(settings, func(r kadm.ResourceConfig) bool { return r.Name == fmt.Sprint(b.NodeID) })
	switch {
	case i < 0:
		facts.Err = "it does not tell its settings"
	case settings[i].Err != nil:
		facts.Err = settings[i].Err.Error()
	default:
		facts.Settings = valuesOf(settings[i])
	}
	return facts
}

func valuesOf(r kadm.ResourceConfig) map[string]string {
	out := make(map[string]string, len(r.Configs))
	for _, c := range r.Configs {
		if c.Value != nil && !c.Sensitive {
			out[c.Key] = *c.Value
		}
	}
	return out
}

// quorumLeader is the controller that leads; -1 if nobody says.
func (a *Admin) quorumLeader(ctx context.Context) int32 {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil || resp.ErrorCode != 0 {
		return -1 // it is told for interest; nothing hangs on it
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				return p.LeaderID
			}
		}
	}
	return -1
}

// TopicFacts are one topic.
type TopicFacts struct {
	Name       string
	ID         compute.TopicID
	Partitions int
	Replicas   int     // of the partition with the fewest
	InSync     int     // replicas in sync, of the partition with the fewest of those that have a leader
	Under      []int32 // partitions with replicas that are not in sync
	Offline    []int32 // partitions without a leader
	Settings   map[string]string
}

// DescribeTopics asks for topics. One that does not exist is not in the answer; one that this process may not describe
// is refused, whether it exists or not.
func (a *Admin) DescribeTopics(
	ctx context.Context, topics ...string,
) (facts map[string]TopicFacts, refused []string, err error) {
	const op = "look at topics"
	needs := access.ToAll(access.DescribeConfigs, access.Topic, a.cfg.Topics.Prefix)
	facts = map[string]TopicFacts{}
	topics = slices.Compact(slices.Sorted(slices.Values(topics))) // asked twice, Kafka answers once
	for piece := range pieces(topics) {
		found, err := fetch.DescribeTopics(ctx, a.client, piece...)
		if err != nil {
			return nil, nil, a.cfg.Classify(op, err, needs)
		}
		var there []string
		for _, t := range found {
			switch kerr.ErrorForCode(t.ErrorCode) {
			case nil:
				there = append(there, *t.Topic)
				facts[*t.Topic] = topicFacts(t)
			case kerr.TopicAuthorizationFailed:
				refused = append(refused, *t.Topic)
			}
		}
		if len(there) == 0 {
			continue
		}
		settings, err := a.kadm.DescribeTopicConfigs(ctx, there...)
		if err != nil {
			return nil, nil, a.cfg.Classify(op, err, needs)
		}
		for _, r := range settings {
			if f, ok := facts[r.Name]; ok && r.Err == nil {
				f.Settings = valuesOf(r)
				facts[r.Name] = f
			}
		}
	}
	return facts, refused, nil
}

func topicFacts(t kmsg.MetadataResponseTopic) TopicFacts {
	f := TopicFacts{Name: *t.Topic, ID: topicID(t.TopicID), Partitions: len(t.Partitions)}
	for _, p := range t.Partitions {
		if f.Replicas == 0 || len(p.Replicas) < f.Replicas {
			f.Replicas = len(p.Replicas)
		}
		if p.Leader < 0 {
			f.Offline = append(f.Offline, p.Partition)
			continue
		}
		if f.InSync == 0 || len(p.ISR) < f.InSync {
			f.InSync = len(p.ISR)
		}
		if len(p.ISR) < len(p.Replicas) {
			f.Under = append(f.Under, p.Partition)
		}
	}
	slices.Sort(f.Under)
	slices.Sort(f.Offline)
	return f
}

// CellTopics lists every topic that exists and begins with the cell's prefix.
func (a *Admin) CellTopics(ctx context.Context) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all there are
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return nil, a.cfg.Classify("list topics", err)
	}
	var names []string
	for _, t := range resp.Topics {
		if t.Topic != nil && !t.IsInternal && strings.HasPrefix(*t.Topic, a.cfg.Topics.Prefix) {
			names = append(names, *t.Topic)
		}
	}
	slices.Sort(names)
	return names, nil
}
