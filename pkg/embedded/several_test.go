// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Of several brokers each leads and coordinates its own, and that moves.
func TestSeveralBrokers(t *testing.T) {
	b, err := Start(Options{Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	admin := adminOf(t, b)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if len(b.Addrs()) != 3 || b.Leader("t", 0) < 0 || b.Leader("t", 1) != -1 {
		t.Fatalf("%v, led by %d and %d", b.Addrs(), b.Leader("t", 0), b.Leader("t", 1))
	}
	for _, n := range []int32{0, 1, 2, 0} {
		if err := b.Lead("t", 0, n); err != nil || b.Leader("t", 0) != n {
			t.Errorf("broker %d does not lead: %v", n, err)
		}
	}
	if err := refusedBy(t, b, 1); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("a broker that does not lead answers %v", err)
	}
	was := b.Coordinator("g")
	for range 100 {
		b.MoveCoordinators()
	}
	if was < 0 {
		t.Error("a group has no coordinator")
	}
}

// What is held waits, and nothing else does; then it is carried out.
func TestHold(t *testing.T) {
	b, err := Start(Options{Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	admin := adminOf(t, b)
	for n, topic := range []string{"held", "free"} {
		if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		if err := b.Lead(topic, 0, int32(n)); err != nil {
			t.Fatal(err)
		}
	}
	over, asked := make(chan struct{}), make(chan struct{})
	b.Hold(kmsg.Produce, func(node int32, _ kmsg.Request) func() {
		if node != 0 {
			return nil
		}
		close(asked)
		return func() { <-over }
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	written := make(chan error, 1)
	client.Produce(t.Context(), &kgo.Record{Topic: "held"}, func(_ *kgo.Record, err error) { written <- err })
	<-asked
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "free"}).FirstErr(); err != nil {
		t.Error(err)
	}
	ends, err := admin.ListEndOffsets(t.Context(), "held", "free")
	if err != nil || ends["held"][0].Offset != 0 || ends["free"][0].Offset != 1 {
		t.Errorf("while it is held: %+v, %v", ends, err)
	}
	close(over)
	if err := <-written; err != nil {
		t.Error(err)
	}
	if ends, err = admin.ListEndOffsets(t.Context(), "held"); err != nil || ends["held"][0].Offset != 1 {
		t.Errorf("then: %+v, %v", ends, err)
	}
}

// refusedBy is what a broker answers to a question that is the leader's.
func refusedBy(t *testing.T, b *Broker, node int32) error {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(t.Context()); err != nil { // it learns which brokers there are
		t.Fatal(err)
	}
	req, topic, part := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopic(),
		kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp, topic.Topic = -1, "t"
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := client.Broker(int(node)).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode)
}

// A broker goes away, the others lead, and it comes back where it was. The controller stays.
func TestABrokerLeavesAndReturns(t *testing.T) {
	b, err := Start(Options{Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	admin := adminOf(t, b)
	if _, err := admin.CreateTopic(t.Context(), 5, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	before := b.Addrs()
	if err := b.Leave(2); err == nil {
		t.Error("the controller goes away")
	}
	if err := b.Leave(0); err != nil {
		t.Fatal(err)
	}
	if n := brokersOf(t, adminOf(t, b)); n != 2 {
		t.Errorf("metadata names %d brokers", n)
	}
	for p := range int32(5) {
		if b.Leader("t", p) == 0 {
			t.Errorf("the broker that is away leads partition %d", p)
		}
	}
	if err := b.Return(0); err != nil {
		t.Fatal(err)
	}
	if n := brokersOf(t, adminOf(t, b)); n != 3 {
		t.Errorf("metadata names %d brokers", n)
	}
	if err := b.Lead("t", 0, 0); err != nil {
		t.Error(err)
	}
	if err := refusedBy(t, b, 0); err != nil {
		t.Errorf("on %v, before that on %v, it answers %v", b.Addrs(), before, err)
	}
}

func brokersOf(t *testing.T, admin *kadm.Client) int {
	t.Helper()
	m, err := admin.BrokerMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(m.Brokers)
}

// What a broker answers may be made up, for as long as anything is.
func TestAnswer(t *testing.T) {
	b := start(t, "")
	asked := 0
	b.Answer(kmsg.FindCoordinator, func(node int32, req kmsg.Request) kmsg.Response {
		if asked++; node != 0 || asked > 2 {
			return nil
		}
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		for _, k := range req.(*kmsg.FindCoordinatorRequest).CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.NodeID = k, 42
			resp.Coordinators = append(resp.Coordinators, c)
		}
		return resp
	})
	for _, want := range []int32{42, 42, 0} {
		found := adminOf(t, b).FindGroupCoordinators(t.Context(), "g")
		if got := found["g"].NodeID; got != want {
			t.Errorf("the coordinator is %d, want %d", got, want)
		}
	}
}
