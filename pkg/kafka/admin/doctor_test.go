// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// Of a topic is told how short of replicas its worst partition is; one without a leader is told as that alone.
func TestTopicFacts(t *testing.T) {
	topic := kmsg.MetadataResponseTopic{Topic: kmsg.StringPtr("t")}
	for i, in := range [][]int32{{1, 2, 3}, {2}, {1, 2}, nil} {
		p := kmsg.MetadataResponseTopicPartition{Partition: int32(i), Leader: 2, Replicas: []int32{1, 2, 3}, ISR: in}
		if in == nil {
			p.Leader = -1
		}
		topic.Partitions = append(topic.Partitions, p)
	}
	got := topicFacts(topic)
	got.ID = ""
	want := TopicFacts{
		Name: "t", Partitions: 4, Replicas: 3, InSync: 1, Under: []int32{1, 2}, Offline: []int32{3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Positions behind the end are told, and partitions that no member has, but not while they are being shared out.
func TestPositionsAstray(t *testing.T) {
	lag := map[int32]kadm.GroupMemberLag{}
	for p, at := range []int64{7, 8, -1, 9} {
		lag[int32(p)] = kadm.GroupMemberLag{
			Member: &kadm.DescribedGroupMember{}, Topic: "t", Partition: int32(p),
			Commit: kadm.Offset{At: at}, End: kadm.ListedOffset{Offset: 7},
		}
	}
	free, unknown := lag[2], lag[3]
	free.Member, unknown.Member, unknown.Err = nil, nil, kerr.LeaderNotAvailable
	lag[2], lag[3] = free, unknown
	for state, want := range map[string][]GroupPosition{
		"Stable": {{"t", 2, -1, 7}}, "PreparingRebalance": nil,
	} {
		beyond, unowned := astray(kadm.DescribedGroupLag{State: state, Lag: kadm.GroupLag{"t": lag}})
		if diff := cmp.Diff([]GroupPosition{{"t", 1, 8, 7}}, beyond); diff != "" {
			t.Error(state, diff)
		}
		if diff := cmp.Diff(want, unowned); diff != "" {
			t.Error(state, diff)
		}
	}
}

// Of topics and brokers whose settings are refused that is told, and of others the settings.
func TestSettingsThatMayNotBeDescribed(t *testing.T) {
	topics := wire.Topics{Prefix: "c."}
	u := kafkatest.User{Name: "u", Password: "pw"}
	b := kafkatest.Locked(t, u)
	root := adminOf(t, signedIn(b, topics, b.Root))
	must(t, root.EnsureTopics(brokertest.Patient(t), 1, 1))
	must(t, root.Allow(brokertest.Patient(t), "User:u", []access.Right{
		access.ToAll(access.Describe, access.Topic, topics.Prefix),
		access.To(access.DescribeConfigs, access.Topic, topics.Requests()),
	}))
	a := adminOf(t, signedIn(b, topics, u))
	facts, _, err := a.DescribeTopics(brokertest.Patient(t), topics.Catalog(), topics.Requests(), topics.Tokens())
	must(t, err)
	if f := facts[topics.Requests()]; f.SettingsErr != nil || f.Settings["cleanup.policy"] != "delete" {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{topics.Catalog(), topics.Tokens()} {
		if f := facts[name]; compute.KindOf(f.SettingsErr) != compute.KindForbidden || f.Partitions != 1 ||
			!strings.Contains(f.SettingsErr.Error(), " may not DescribeConfigs topic c.…") {
			t.Errorf("%+v", f)
		}
	}
	cluster, err := a.DescribeCluster(brokertest.Patient(t))
	must(t, err)
	for _, f := range cluster.Brokers {
		if compute.KindOf(f.SettingsErr) != compute.KindForbidden || f.Err != "" || f.Version == "" {
			t.Errorf("%+v", f)
		}
	}
	if len(cluster.Brokers) == 0 {
		t.Error("no broker")
	}
}

// A topic that may not be described is told apart from one that does not exist.
func TestATopicThatMayNotBeDescribed(t *testing.T) {
	topics := wire.Topics{Prefix: "c."}
	u := kafkatest.User{Name: "u", Password: "pw"}
	b := kafkatest.Locked(t, u)
	root := adminOf(t, signedIn(b, topics, b.Root))
	must(t, root.EnsureTopics(brokertest.Patient(t), 1, 1))
	needs, err := access.Rights(access.Operator, topics, "")
	must(t, err)
	must(t, root.Allow(brokertest.Patient(t), "User:u", needs))
	facts, refused, err := adminOf(t, signedIn(b, topics, u)).DescribeTopics(
		brokertest.Patient(t), topics.Requests(), topics.Build("none"), "__transaction_state",
	)
	must(t, err)
	if len(facts) != 1 || facts[topics.Requests()].Partitions != 1 {
		t.Errorf("%+v", facts)
	}
	if diff := cmp.Diff([]string{"__transaction_state"}, refused); diff != "" {
		t.Error(diff)
	}
}
