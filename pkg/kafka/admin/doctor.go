// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
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
	// SettingsErr says that this process may not ask for them; nil: it may.
	SettingsErr error
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
	ids := make([]string, 0, len(meta.Brokers))
	for _, id := range meta.Brokers.NodeIDs() {
		ids = append(ids, fmt.Sprint(id))
	}
	settings, err := a.settings(ctx, kmsg.ConfigResourceTypeBroker, ids...)
	if err != nil && len(settings) == 0 { // of some brokers is better than of none
		return facts, a.cfg.Classify(op, err, needs)
	}
	for _, b := range meta.Brokers {
		f := brokerFacts(b, versions[b.NodeID], settings)
		if err := settings[fmt.Sprint(b.NodeID)].err; kafka.IsDenied(err) {
			f.SettingsErr = a.cfg.Classify(op, err, needs)
		}
		facts.Brokers = append(facts.Brokers, f)
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

func brokerFacts(b kadm.BrokerDetail, v kadm.BrokerApiVersions, settings map[string]toldSettings) BrokerFacts {
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
	switch told, answered := settings[fmt.Sprint(b.NodeID)]; {
	case !answered:
		facts.Err = "it does not tell its settings"
	case told.err == nil:
		facts.Settings = told.values
	case !kafka.IsDenied(told.err):
		facts.Err = told.err.Error()
	}
	return facts
}

// toldSettings are what a broker answers about the settings of one thing.
type toldSettings struct {
	values map[string]string // without secrets
	err    error             // why there are none
}

var errNoSettings = errors.New("no broker says anything about the settings")

// settings asks for the settings of things of one kind, and answers what was said of each by its name. The error is
// that of the last broker that could not be asked. kadm's calls end with the first thing that is refused, and leave out
// what was told of the others.
func (a *Admin) settings(
	ctx context.Context, kind kmsg.ConfigResourceType, names ...string,
) (told map[string]toldSettings, err error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		req.Resources = append(req.Resources, r)
	}
	told = map[string]toldSettings{}
	for _, shard := range a.client.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.DescribeConfigsResponse)
		if shard.Err != nil || !ok {
			err = cmp.Or(shard.Err, errNoSettings)
			continue
		}
		for _, r := range resp.Resources {
			told[r.ResourceName] = toldSettings{valuesOf(r), kerr.ErrorForCode(r.ErrorCode)}
		}
	}
	return told, err
}

func valuesOf(r kmsg.DescribeConfigsResponseResource) map[string]string {
	out := make(map[string]string, len(r.Configs))
	for _, c := range r.Configs {
		if c.Value != nil && !c.IsSensitive {
			out[c.Name] = *c.Value
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
	// SettingsErr is why Settings are not known, KindForbidden where this process may not ask for them; nil: they are.
	SettingsErr error
}

// DescribeTopics asks for topics. One that does not exist is not in the answer; one that this process may not describe
// is refused, whether it exists or not.
func (a *Admin) DescribeTopics(
	ctx context.Context, topics ...string,
) (facts map[string]TopicFacts, refused []string, err error) {
	const op = "look at topics"
	needs := a.describesSettings(a.cfg.Topics.Prefix)
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
		settings, err := a.settings(ctx, kmsg.ConfigResourceTypeTopic, there...)
		if err != nil {
			return nil, nil, a.cfg.Classify(op, err, needs)
		}
		for _, name := range there {
			f, told, err := facts[name], settings[name], errNoSettings
			if told.values != nil {
				err = told.err
			}
			f.Settings, f.SettingsErr = told.values, a.cfg.Classify(op, err, a.describesSettings(name))
			facts[name] = f
		}
	}
	return facts, refused, nil
}

// describesSettings is the right to ask for the settings of a topic: of one of the cell's it is given for all of them.
func (a *Admin) describesSettings(topic string) access.Right {
	if strings.HasPrefix(topic, a.cfg.Topics.Prefix) {
		return access.ToAll(access.DescribeConfigs, access.Topic, a.cfg.Topics.Prefix)
	}
	return access.To(access.DescribeConfigs, access.Topic, topic)
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
