// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire"
)

// PassingErrors are the errors after which a loop goes on by itself, in every kind of
// request that it makes.
var PassingErrors = []Refusals{
	{kmsg.Metadata, []*kerr.Error{kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable}},
	{
		kmsg.FindCoordinator,
		[]*kerr.Error{
			kerr.UnknownServerError,
			kerr.CoordinatorLoadInProgress,
			kerr.CoordinatorNotAvailable,
			kerr.NotCoordinator,
		},
	},
	{kmsg.JoinGroup, []*kerr.Error{
		kerr.UnknownServerError, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.GroupMaxSizeReached,
	}},
	{kmsg.SyncGroup, []*kerr.Error{
		kerr.UnknownServerError, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.IllegalGeneration,
	}},
	{kmsg.Heartbeat, []*kerr.Error{
		kerr.UnknownServerError, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.IllegalGeneration,
	}},
	{kmsg.InitProducerID, []*kerr.Error{
		kerr.UnknownServerError, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
	}},
	{kmsg.OffsetFetch, []*kerr.Error{
		kerr.UnknownServerError, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnstableOffsetCommit, kerr.UnknownTopicOrPartition,
	}},
	{kmsg.ListOffsets, []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable,
	}},
	{kmsg.Fetch, []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID,
		kerr.NotLeaderForPartition, kerr.ReplicaNotAvailable,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.KafkaStorageError,
		kerr.CorruptMessage,
	}},
	{kmsg.Produce, []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
		kerr.RequestTimedOut, kerr.NotEnoughReplicas,
		kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.OutOfOrderSequenceNumber,
		kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidRecord,
		kerr.InvalidTimestamp,
		kerr.MessageTooLarge, kerr.RecordListTooLarge,
	}},
	{kmsg.OffsetCommit, []*kerr.Error{
		kerr.UnknownServerError, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.UnknownMemberID, kerr.IllegalGeneration,
		kerr.RebalanceInProgress, kerr.RequestTimedOut, kerr.OffsetMetadataTooLarge,
	}},
}

// What every part does when a broker answers with an error. docs/KAFKA-ERRORS.md
// says it in words.

// Refusing is a broker in a bubble that can be made to answer with errors.
type Refusing struct {
	*kfake.Cluster
	Cfg kafka.Config
}

func WithRefusing(t *testing.T, brokers int, do func(t *testing.T, c Refusing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		ports := []int{9092, 9093, 9094}[:brokers]
		c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(ports...), kfake.ListenFn(network.Listen),
			kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
		if err != nil {
			t.Fatal(err)
		}
		defer time.Sleep(time.Second) // kgo does not wait for a connection that it was opening
		defer c.Close()
		do(
			t,
			Refusing{
				c,
				kafka.Config{
					Brokers: c.ListenAddrs(), Topics: wire.Topics{Prefix: "r."}, Dial: network.DialContext, As: Someone(),
				},
			},
		)
	})
}

// Whole are the requests with one error for the whole answer.
var Whole = map[kmsg.Key]bool{
	kmsg.ShareFetch: true, kmsg.ShareAcknowledge: true, kmsg.InitProducerID: true, kmsg.Heartbeat: true,
	kmsg.JoinGroup: true, kmsg.SyncGroup: true, kmsg.LeaveGroup: true,
}

// Refuse has the next n requests of a kind answered with an error.
func (c Refusing) Refuse(key kmsg.Key, code *kerr.Error, n int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: n, TopLevel: Whole[key]})
}

// Refusals are errors of one kind of request.
type Refusals struct {
	Key   kmsg.Key
	Codes []*kerr.Error
}

// Refuse is these errors of a kind of request.
func Refuse(key kmsg.Key, codes ...*kerr.Error) Refusals { return Refusals{key, codes} }

func (r Refusals) Each(t *testing.T, do func(t *testing.T, code *kerr.Error)) {
	for _, code := range r.Codes {
		t.Run(kmsg.NameForKey(int16(r.Key))+"/"+code.Message, func(t *testing.T) { do(t, code) })
	}
}

// HitBy says that requests were refused as they should be.
func HitBy(t *testing.T, h *kfake.FaultHandle, n int) {
	t.Helper()
	if h.Hits() != n {
		t.Errorf("%d requests were refused, want %d", h.Hits(), n)
	}
}

func WantKind(t *testing.T, err error, want compute.Kind) {
	t.Helper()
	if err == nil || compute.KindOf(err) != want {
		t.Errorf("got %v (%v), want kind %v", err, compute.KindOf(err), want)
	}
	if want == compute.KindForbidden && err != nil {
		SaysWhatLacks(t, err.Error())
	}
}

// Someone is the user that brokers refuse.
func Someone() access.Identity {
	return access.Identity{Principal: func() string { return "User:someone" }}
}

// saysWhatLacks is how a refusal names principal, operation, kind and resource, and then what to do.
var saysWhatLacks = regexp.MustCompile(
	`User:someone may not [A-Z]\w+ (topic|group|transactional-id|cluster) [\w.…-]+; give it this right: "berth acl print"`,
)

// SaysWhatLacks checks that a text about a refusal says which user lacks which right, and the remedy.
func SaysWhatLacks(t *testing.T, text string) {
	t.Helper()
	if !saysWhatLacks.MatchString(text) {
		t.Errorf("the refusal does not say who may not do what with which thing: %s", text)
	}
}

// Passes lets time pass in the bubble.
func Passes(d time.Duration) { time.Sleep(d) }

// ProducePasses are the errors of a write that pass.
func ProducePasses() []*kerr.Error {
	return []*kerr.Error{
		kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.RequestTimedOut,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.KafkaStorageError, kerr.UnknownTopicID, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID,
		kerr.InvalidProducerEpoch,
	}
}
