// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
)

func TestCommitted(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		group, topic := b.Prefix+"readers", b.Prefix+"requests"
		committed := func(when string, want map[int32]int64) {
			t.Helper()
			// A new client each time: the last may remember that there was no topic.
			at, err := adminOf(t, cfg).Committed(brokertest.Patient(t), group, topic)
			if diff := cmp.Diff(want, at, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%s: %v\n%s", when, err, diff)
			}
		}
		committed("of no topic", nil)
		brokertest.MakeTopic(t, cfg, topic, 3, nil)
		committed("of a group that never was", nil)
		var at kadm.Offsets
		at.AddOffset(topic, 0, 0, -1)
		at.AddOffset(topic, 2, 7, -1)
		if err := adminOf(t, cfg).kadm.CommitAllOffsets(brokertest.Patient(t), group, at); err != nil {
			t.Fatal(err)
		}
		committed("of two partitions of three", map[int32]int64{0: 0, 2: 7})
	})
}

// On a cluster where no group ever was there is no coordinator yet: the first
// question makes the brokers find one, and is refused until they have; the
// client does not try again by itself.
func TestCommittedOnAYoungCluster(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	brokertest.MakeTopic(t, cfg, "requests", 1, nil)
	const refusals = 4
	n := 0
	cluster.ControlKey(new(kmsg.FindCoordinatorRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		if n++; n > refusals {
			return nil, nil, false
		}
		cluster.KeepControl()
		req := k.(*kmsg.FindCoordinatorRequest)
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		for _, key := range req.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.NodeID, c.ErrorCode = key, -1, kerr.CoordinatorNotAvailable.Code
			resp.Coordinators = append(resp.Coordinators, c)
		}
		return resp, nil, true
	})
	if at, err := adminOf(t, cfg).Committed(brokertest.Patient(t), "readers", "requests"); err != nil || len(at) > 0 {
		t.Errorf("committed at %v: %v", at, err)
	}
	if n <= refusals {
		t.Errorf("asked %d times", n)
	}
}

func TestCommittedForbidden(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	brokertest.MakeTopic(t, cfg, "requests", 1, nil)
	cluster.ControlKey(new(kmsg.OffsetFetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := k.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.ErrorCode = g.Group, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, rg)
		}
		return resp, nil, true
	})
	_, err := adminOf(t, cfg).Committed(brokertest.Patient(t), "readers", "requests")
	if compute.KindOf(err) != compute.KindForbidden {
		t.Errorf("a group that may not be read: %v", err)
	}
}
