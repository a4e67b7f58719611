// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/access"
)

// GroupFacts are one consumer group.
type GroupFacts struct {
	Name    string
	State   string          // as Kafka calls it: Stable, Empty, …
	Members []string        // client id and where from
	Working int             // members with partitions
	Lag     int64           // records that are not yet dealt with, over all partitions
	Beyond  []GroupPosition // behind the end of their topic: records are gone that had been dealt with
	Unowned []GroupPosition // that no member has, though there are members, and partitions are not being shared out
}

// GroupPosition is where a group goes on in one partition, and where that ends.
type GroupPosition struct {
	Topic     string
	Partition int32
	At, End   int64
}

// DescribeGroup asks for a consumer group. A group that nobody has ever joined has
// no members.
func (a *Admin) DescribeGroup(ctx context.Context, group string) (GroupFacts, error) {
	facts := GroupFacts{Name: group}
	lags, err := a.kadm.Lag(ctx, group)
	if err != nil {
		return facts, a.cfg.Classify("look at a group", err, access.To(access.Describe, access.Group, group))
	}
	l := lags[group]
	switch err := l.Error(); {
	case errors.Is(err, kerr.GroupIDNotFound):
		return facts, nil
	case err != nil:
		return facts, a.cfg.Classify("look at a group", err, access.To(access.Describe, access.Group, group))
	}
	facts.State, facts.Lag = l.State, max(0, l.Lag.Total())
	facts.Beyond, facts.Unowned = astray(l)
	for _, m := range l.Members {
		facts.Members = append(facts.Members, m.ClientID+" "+m.ClientHost)
		if c, ok := m.Assigned.AsConsumer(); ok && len(c.Topics) > 0 {
			facts.Working++
		}
	}
	return facts, nil
}

// astray are the positions that are not as they should be. kadm takes one behind the end for no lag.
func astray(l kadm.DescribedGroupLag) (beyond, unowned []GroupPosition) {
	for _, p := range l.Lag.Sorted() {
		if p.Err != nil {
			continue
		}
		at := GroupPosition{p.Topic, p.Partition, p.Commit.At, p.End.Offset}
		if at.At > at.End {
			beyond = append(beyond, at)
		}
		if p.Member == nil && l.State == "Stable" {
			unowned = append(unowned, at)
		}
	}
	return beyond, unowned
}

// DescribeShareGroup answers the settings of a share group.
func (a *Admin) DescribeShareGroup(ctx context.Context, group string) (map[string]string, error) {
	const op = "look at a share group"
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return nil, a.cfg.Classify(op, err, access.To(access.DescribeConfigs, access.Group, group))
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, a.cfg.Classify(op, err, access.To(access.DescribeConfigs, access.Group, group))
		}
		for _, c := range r.Configs {
			if c.Value != nil {
				out[c.Name] = *c.Value
			}
		}
	}
	return out, nil
}

// ShareGroupSettings are what DescribeShareGroup should find.
func ShareGroupSettings() map[string]string {
	return map[string]string{
		"share.delivery.count.limit": deliveryLimit, "share.record.lock.duration.ms": lockMillis,
		"share.partition.max.record.locks": lockLimit,
	}
}

// TopicPlan is how a topic should be.
type TopicPlan struct {
	Name       string
	Partitions int32 // 0: as many as the requests have
	Settings   map[string]string
}

// Plans are how the cell's own topics should be if they have that many replicas, whether or not Berth made them.
func (a *Admin) Plans(replicas int16) []TopicPlan {
	var plans []TopicPlan
	for _, p := range ownTopics(a.cfg.Topics, 0, replicas) {
		for _, name := range p.topics {
			plans = append(plans, plan(name, p.partitions, p.settings))
		}
	}
	return plans
}

// Plan is how one topic of a queue or of a host should be; false if it is
// neither.
func (a *Admin) Plan(topic string, replicas int16) (TopicPlan, bool) {
	if _, ok := a.cfg.Topics.QueueOf(topic); ok {
		return plan(topic, 1, retained(replicas, queueRetention)), true
	}
	if _, ok := a.cfg.Topics.HostOf(topic); ok {
		return plan(topic, 1, retained(replicas, inputRetention)), true
	}
	return TopicPlan{}, false
}

func plan(name string, partitions int32, s settings) TopicPlan {
	p := TopicPlan{Name: name, Partitions: partitions, Settings: map[string]string{}}
	for k, v := range s {
		p.Settings[k] = *v
	}
	return p
}
