// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// led is an answer to a question for the leaders of a topic, by partition.
func led(leaders ...Leader) *kmsg.MetadataResponse {
	m := kmsg.NewPtrMetadataResponse()
	t := kmsg.NewMetadataResponseTopic()
	name := "t"
	t.Topic = &name
	for p, l := range leaders {
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Partition, rp.Leader, rp.LeaderEpoch = int32(p), l.Broker, l.Epoch
		t.Partitions = append(t.Partitions, rp)
	}
	m.Topics = append(m.Topics, t)
	return m
}

// A partition without a leader keeps the one that it had, the answer of a broker that is behind counts for nothing, and
// what is new of others is learned.
func TestAPartitionWithoutALeaderHidesNoOther(t *testing.T) {
	s := &Source{Topic: "t"}
	if _, err := s.Learn(led(Leader{1, 1}, Leader{-1, 1}), s.asked); !errors.Is(err, kerr.LeaderNotAvailable) {
		t.Errorf("the first answer has no leader of one partition: %v", err)
	}
	if s.Current().Leaders != nil {
		t.Errorf("and %v is learned of it", s.Current())
	}
	learn := func(m *kmsg.MetadataResponse, wantErr error, want ...Leader) {
		t.Helper()
		_, err := s.Learn(m, s.asked)
		if !errors.Is(err, wantErr) {
			t.Errorf("%v, want %v", err, wantErr)
		}
		got := s.Current().Leaders
		for p, l := range want {
			if diff := cmp.Diff(l, got[int32(p)]); diff != "" {
				t.Errorf("partition %d: %s", p, diff)
			}
		}
	}
	learn(led(Leader{1, 1}, Leader{1, 1}), nil, Leader{1, 1}, Leader{1, 1})
	moved := s.change(s.Current())
	learn(led(Leader{2, 2}, Leader{-1, 2}), kerr.LeaderNotAvailable, Leader{2, 2}, Leader{1, 1})
	select {
	case <-moved:
	default:
		t.Error("those that wait for another leader do not hear of it")
	}
	learn(led(Leader{1, 1}, Leader{3, 3}), nil, Leader{2, 2}, Leader{3, 3})
}
