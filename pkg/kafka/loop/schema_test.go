// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// older is how the version before members said what they read takes part in the group.
type older struct{ coPartitioned }

func (o older) JoinGroupMetadata(topics []string, _ map[string][]int32, generation int32) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics, m.Generation = 3, topics, generation
	return m.AppendTo(nil)
}

func (older) ParseSyncAssignment(b []byte) (map[string][]int32, error) {
	return kgo.ParseConsumerSyncAssignment(b)
}

func (o older) MemberBalancer(
	members []kmsg.JoinGroupResponseMember,
) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(o, members)
	return b, b.MemberTopics(), err
}

func (o older) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	return o.coPartitioned.Balance(b, topics).(agreedPlan).BalancePlan
}

// What is agreed upon is what every member reads, whichever of them shares out, and older members understand what
// they are given.
func TestSchemaIsAgreedUpon(t *testing.T) {
	topics := []string{"reports", "requests"}
	has := func() []int32 { return nil }
	const old = 0
	member := func(reads compute.Schema, agreed *compute.Schema) kgo.GroupBalancer {
		if reads == old {
			return older{coPartitioned{has: has}}
		}
		return coPartitioned{has: has, reads: reads, agreed: func(n compute.Schema) { *agreed = n }}
	}
	for name, c := range map[string]struct {
		members []compute.Schema // what each reads; the first shares out
		want    []compute.Schema // what each is told
	}{
		"alone":               {[]compute.Schema{2}, []compute.Schema{2}},
		"all newer":           {[]compute.Schema{3, 2, 3}, []compute.Schema{2, 2, 2}},
		"an older one":        {[]compute.Schema{2, old, 2}, []compute.Schema{1, 0, 1}},
		"an older one shares": {[]compute.Schema{old, 2, 2}, []compute.Schema{0, 1, 1}},
		"older ones alone":    {[]compute.Schema{old, old}, []compute.Schema{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			agreed := make([]compute.Schema, len(c.members))
			var all []kgo.GroupBalancer
			var joined []kmsg.JoinGroupResponseMember
			for i, reads := range c.members {
				all = append(all, member(reads, &agreed[i]))
				joined = append(joined, kmsg.JoinGroupResponseMember{
					MemberID: string(rune('a' + i)), ProtocolMetadata: all[i].JoinGroupMetadata(topics, nil, 1),
				})
			}
			balancer, _, err := all[0].MemberBalancer(joined)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(
				map[string]int32{"reports": 6, "requests": 6},
			)
			if err != nil {
				t.Fatal(err)
			}
			given := map[int32]bool{}
			for i, a := range plan.IntoSyncAssignment() { // in the order of their names
				own, err := all[i].ParseSyncAssignment(a.MemberAssignment)
				if err != nil || !cmp.Equal(own["reports"], own["requests"]) {
					t.Fatalf("%v, %v", own, err)
				}
				for _, p := range own["reports"] {
					given[p] = true
				}
			}
			if len(given) != 6 {
				t.Errorf("given are %v", given)
			}
			if diff := cmp.Diff(c.want, agreed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSchemaSaid(t *testing.T) {
	for said, want := range map[string]compute.Schema{
		"": 0, "reads=2": 2, "x=3 reads=12 y": 12, "writes=2": 0,
		"reads=": 0, "reads=-1": 0, "reads=4294967296": 0, "\xff\x00": 0,
	} {
		if got := schemaOf(readsWord, []byte(said)); got != want {
			t.Errorf("%q: %d, want %d", said, got, want)
		}
	}
	if got := schemaOf(readsWord, schemaSaid(readsWord, 7)); got != 7 {
		t.Errorf("%d", got)
	}
}

// A loop is told the schema before it is given anything, a lower one when a member joins
// that reads less, and the higher one again when that has left.
func TestLoopsAgreeOnASchema(t *testing.T) {
	eachCell(t, 2, func(t *testing.T, cfg kafka.Config) {
		var a, b *running
		start := func(name string, reads compute.Schema) *running {
			l := newLedger(t, name)
			return loop(t, cfg, Options{
				Reads: reads, Agreed: func(n compute.Schema) { l.say("agreed %d", n) },
				SessionTimeout: longSession, StopTimeout: longStop,
			}, l)
		}
		a = start("a", 2)
		a.await(t, "agreed 2")
		brokertest.Await(t, a.Ready(), "a is ready")
		b = start("b", 1)
		b.await(t, "agreed 1")
		a.await(t, "agreed 1")
		brokertest.Await(t, b.Ready(), "b is ready")
		b.stop(t)
		a.await(t, "agreed 2")
		a.stop(t)
	})
}
