// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A broker that has not heard says what was, and does not know what is new.
func TestStaleAnswers(t *testing.T) {
	known := kmsg.NewMetadataResponseTopic()
	known.Topic, known.TopicID = kmsg.StringPtr("old"), [16]byte{1}
	leaders := &kmsg.MetadataResponse{Topics: []kmsg.MetadataResponseTopic{known}}
	v := &view{leaders: leaders, coordinators: map[string]int32{"g": 2}}
	req := kmsg.NewPtrMetadataRequest()
	if resp := v.metadata(req).(*kmsg.MetadataResponse); len(resp.Topics) != 1 {
		t.Errorf("of all topics it says %v", resp.Topics)
	}
	byName, byID := kmsg.NewMetadataRequestTopic(), kmsg.NewMetadataRequestTopic()
	fresh := kmsg.NewMetadataRequestTopic()
	byName.Topic, byID.TopicID, fresh.Topic = kmsg.StringPtr("old"), [16]byte{1}, kmsg.StringPtr("new")
	req.Topics = []kmsg.MetadataRequestTopic{byName, byID, fresh}
	resp := v.metadata(req).(*kmsg.MetadataResponse)
	unknown := kerr.UnknownTopicOrPartition.Code
	if got := resp.Topics; len(got) != 3 || got[0].ErrorCode+got[1].ErrorCode != 0 || got[2].ErrorCode != unknown {
		t.Errorf("of three it says %v", resp.Topics)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	found := v.found(find).(*kmsg.FindCoordinatorResponse).Coordinators
	if found[0].NodeID != 2 || found[0].Port != schedule.FirstPort+2 {
		t.Errorf("the coordinator was %+v", found)
	}
	find.CoordinatorKeys = []string{"g", "h"}
	if found := v.found(find); found != nil {
		t.Errorf("it knows of a group that nobody had looked for: %+v", found)
	}
}

// What needs several brokers is left out where there is one.
func TestWithOneBroker(t *testing.T) {
	s := schedule.Schedule{
		World: schedule.World{Brokers: 3},
		Faults: []schedule.Fault{
			{Kind: schedule.FaultLink, Key: schedule.LinkDeaf},
			{Kind: schedule.FaultKill},
			{Kind: schedule.FaultNode},
		},
	}
	if !s.Has("brokers") || !s.Has("link deaf") || s.Has("link mute") {
		t.Error("it does not say what it has")
	}
	if one := s.WithOneBroker(); len(one.Faults) != 1 || one.Has("brokers") || len(one.World.Seeds()) != 1 ||
		len(s.Faults) != 3 {
		t.Errorf("got %+v", one)
	}
}
