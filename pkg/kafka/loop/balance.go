// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
)

// coPartitioned is the group's assignor: partition p of every topic goes to one member, members have equally many,
// give or take one, and a member keeps the partitions that it has as far as that allows: restoring costs more than
// sharing.
//
// The client knows of nothing to keep, because an eager assignor's members give
// everything up before they join again; so the loop says what it has.
//
// Members say, too, which schema of records they read up to, and the one that shares
// out tells all which one they may write: the newest that each of them reads. Both are
// in user data, of which older versions say nothing and read nothing.
type coPartitioned struct {
	has    func() []int32
	reads  compute.Schema
	agreed func(compute.Schema) // is told what this member may write
}

var _ kgo.GroupBalancer = coPartitioned{}

// ProtocolName is what all members must have in common.
func (coPartitioned) ProtocolName() string { return "berth-together" }

// IsCooperative is false: all members give everything up, for a moment, and
// each goes on with what it gets back (see session.assigned).
func (coPartitioned) IsCooperative() bool { return false }

// JoinGroupMetadata says what this member has.
func (t coPartitioned) JoinGroupMetadata(topics []string, _ map[string][]int32, generation int32) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = 3
	m.Topics, m.Generation, m.UserData = topics, generation, schemaSaid(readsWord, t.reads)
	has := t.has()
	for _, topic := range topics {
		o := kmsg.NewConsumerMemberMetadataOwnedPartition()
		o.Topic, o.Partitions = topic, has
		m.OwnedPartitions = append(m.OwnedPartitions, o)
	}
	return m.AppendTo(nil)
}

// ParseSyncAssignment reads what the leader made.
func (t coPartitioned) ParseSyncAssignment(b []byte) (map[string][]int32, error) {
	t.agreed(agreedIn(b))
	return kgo.ParseConsumerSyncAssignment(b)
}

// MemberBalancer is for the leader.
func (t coPartitioned) MemberBalancer(
	members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error,
) {
	b, err := kgo.NewConsumerBalancer(t, members)
	return b, b.MemberTopics(), err
}

// Balance shares out as many partitions as every topic has; where one has more
// there is nothing to go with them.
func (coPartitioned) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	claims, reads := make([]claim, len(b.Members())), make([]compute.Schema, len(b.Members()))
	for i := range claims {
		member, meta := b.MemberAt(i)
		reads[i] = schemaOf(readsWord, meta.UserData)
		claims[i] = claim{member: member.MemberID, generation: meta.Generation, has: common(meta)}
	}
	n := int32(-1)
	for _, partitions := range topics {
		if n < 0 || partitions < n {
			n = partitions
		}
	}
	plan := b.NewPlan()
	of := plan.AsMemberIDMap()
	for member, partitions := range share(max(n, 0), claims) {
		for topic := range topics {
			of[member][topic] = slices.Clone(partitions)
		}
	}
	return agreedPlan{plan, compute.ReadByAll(reads...)}
}

// common is the partitions a member has of the first topic it names; it has
// the same of the others.
func common(meta *kmsg.ConsumerMemberMetadata) []int32 {
	for _, o := range meta.OwnedPartitions {
		return o.Partitions
	}
	return nil
}

// claim is what a member says it has, since which generation.
type claim struct {
	member     string
	generation int32
	has        []int32
}

// share gives n partitions to members. Of two members that claim one partition, the one that had it last keeps it.
func share(n int32, claims []claim) map[string][]int32 {
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(
			cmp.Compare(b.generation, a.generation), cmp.Compare(len(b.has), len(a.has)),
			cmp.Compare(a.member, b.member),
		)
	})
	given, out := make([]bool, n), map[string][]int32{}
	for i, c := range claims {
		room := quota(n, len(claims), i)
		for _, p := range c.has {
			if len(out[c.member]) < room && p < n && !given[p] {
				given[p] = true
				out[c.member] = append(out[c.member], p)
			}
		}
	}
	free := int32(0)
	for i, c := range claims {
		for len(out[c.member]) < quota(n, len(claims), i) {
			for given[free] {
				free++
			}
			given[free] = true
			out[c.member] = append(out[c.member], free)
		}
		slices.Sort(out[c.member])
	}
	return out
}

// quota is how many of n partitions the i-th of several members has.
func quota(n int32, members, i int) int {
	q := int(n) / members
	if i < int(n)%members {
		q++
	}
	return q
}

// rebalanceTimeout outlasts the longest turn.
func rebalanceTimeout(o Options) time.Duration { return o.TurnTimeout + o.SessionTimeout }
