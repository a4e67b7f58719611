// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

var (
	alterKey    = new(kmsg.AlterShareGroupOffsetsRequest).Key()
	describeKey = new(kmsg.DescribeShareGroupOffsetsRequest).Key()
)

// warm answers when the brokers have made their internal topics and all of them
// know these queues, so that what comes next works at the first try: another
// group's state of the same queues is then initialised.
func warm(t testing.TB, a *Admin, names ...compute.QueueName) {
	t.Helper()
	group := a.cfg.Topics.ShareGroup(99)
	queueIn(t, a, group, names...)
	if err := a.InitShareState(brokertest.Patient(t), group, names); err != nil {
		t.Fatal(err)
	}
}

// queueIn makes queues of a group and answers refs to them.
func queueIn(t testing.TB, a *Admin, group string, names ...compute.QueueName) []wire.QueueRef {
	t.Helper()
	ids, err := a.EnsureQueueTopics(brokertest.Patient(t), names, 1)
	if err != nil {
		t.Fatal(err)
	}
	var refs []wire.QueueRef
	for _, n := range names {
		refs = append(refs, wire.QueueRef{Name: n, Group: group, TopicID: ids[n]})
	}
	return refs
}

func TestShareStateIsInitialisedOnce(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		cfg.Dial = tap.Dial
		a, ctx, group := adminOf(t, cfg), brokertest.Patient(t), cfg.Topics.ShareGroup(1)
		warm(t, a, "a", "b", "c")
		warmed := tap.Count(alterKey)
		refs := queueIn(t, a, group, "a", "b")
		if before := progress(t, a, refs); before[0].Start != -1 || before[1].Start != -1 {
			t.Fatalf("initialised before: %+v", before)
		}
		for range 3 {
			if err := a.InitShareState(ctx, group, []compute.QueueName{"a", "b"}); err != nil {
				t.Fatal(err)
			}
			if n := tap.Count(alterKey) - warmed; n != 1 {
				t.Fatalf("AlterShareGroupOffsets was sent %d times, want once", n)
			}
		}
		refs = append(refs, queueIn(t, a, group, "c")...)
		if err := a.InitShareState(ctx, group, []compute.QueueName{"a", "b", "c"}); err != nil {
			t.Fatal(err)
		}
		if n := tap.Count(alterKey) - warmed; n != 2 {
			t.Errorf("for a third queue it was sent %d times more, want once", n-1)
		}
		for _, p := range progress(t, a, refs) {
			if p.Start != 0 || p.Err != nil {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestShareStateOfATopicMadeAgain(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		cfg.Dial = tap.Dial
		a, ctx, group := adminOf(t, cfg), brokertest.Patient(t), cfg.Topics.ShareGroup(1)
		for range 2 {
			warm(t, a, "a")
			warmed := tap.Count(alterKey)
			refs := queueIn(t, a, group, "a")
			if err := a.InitShareState(ctx, group, []compute.QueueName{"a"}); err != nil {
				t.Fatal(err)
			}
			if n := tap.Count(alterKey) - warmed; n != 1 {
				t.Fatalf("for this incarnation sent %d times, want once", n)
			}
			if p := progress(t, a, refs)[0]; p.Start != 0 || p.TopicID != refs[0].TopicID {
				t.Errorf("%+v", p)
			}
			if err := a.DeleteTopics(ctx, cfg.Topics.Build("a")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The answer is lost, the work is done: it must be asked for, not done again.
func TestLostAnswerToInitialising(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		cfg.Dial = tap.Dial
		a, group := adminOf(t, cfg), cfg.Topics.ShareGroup(1)
		a.share.settle = time.Second
		warm(t, a, "a")
		alters, asks := tap.Count(alterKey), tap.Count(describeKey)
		tap.Mu.Lock()
		tap.Swallow = alterKey
		tap.Mu.Unlock()
		if err := a.InitShareState(brokertest.Patient(t), group, []compute.QueueName{"a"}); err != nil {
			t.Fatal(err)
		}
		if n := tap.Count(alterKey) - alters; n != 1 {
			t.Errorf("altered %d times, want once", n)
		}
		if n := tap.Count(describeKey) - asks; n != 2 {
			t.Errorf("asked %d times, want before and after", n)
		}
	})
}

// The embedded broker gives a member's queues a state at once, so nothing would
// be left to refuse.
func TestGroupWithMembersIsRefused(t *testing.T) {
	cfg := brokertest.TestConfig(kafkatest.Kafka(t))
	a, group := adminOf(t, cfg), cfg.Topics.ShareGroup(1)
	queueIn(t, a, group, "a", "other")
	joined := make(chan struct{})
	answered := onAnswer{new(kmsg.ShareGroupHeartbeatRequest).Key(), sync.OnceFunc(func() { close(joined) })}
	cl, err := kafka.NewClient(
		cfg, kgo.ShareGroup(group), kgo.ConsumeTopics(cfg.Topics.Build("other")), kgo.WithHooks(answered),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	brokertest.Await(t, joined, "a member has joined")
	err = a.InitShareState(brokertest.Patient(t), group, []compute.QueueName{"a"})
	if compute.KindOf(err) != compute.KindConflict || !strings.Contains(err.Error(), "members") {
		t.Errorf("got %v", err)
	}
}

// onAnswer calls f when a request of a kind has been answered.
type onAnswer struct {
	key int16
	f   func()
}

func (o onAnswer) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == o.key && err == nil {
		o.f()
	}
}

func progress(t testing.TB, a *Admin, refs []wire.QueueRef) []QueueProgress {
	t.Helper()
	ps, err := a.QueueProgress(brokertest.Patient(t), refs)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func TestQueueProgress(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		a, group := adminOf(t, cfg), cfg.Topics.ShareGroup(1)
		warm(t, a, "a", "other")
		refs := append(queueIn(t, a, group, "a"), queueIn(t, a, cfg.Topics.ShareGroup(2), "other")...)
		refs = append(refs, wire.QueueRef{Name: "gone", Group: group})
		if err := a.InitShareState(brokertest.Patient(t), group, []compute.QueueName{"a"}); err != nil {
			t.Fatal(err)
		}
		queue := cfg.Topics.Build("a")
		brokertest.Put(t, cfg, cfg.Topics.Build("other"), 0, "x")
		brokertest.Put(t, cfg, queue, 0, "0", "1", "2", "3", "4")
		want := []QueueProgress{
			{Queue: refs[0], TopicID: refs[0].TopicID, Start: 0, LogEnd: 5, Depth: 5},
			{Queue: refs[1], TopicID: refs[1].TopicID, Start: -1, LogEnd: 1, Depth: 1},
			{Queue: refs[2], Err: wire.ErrNoTopic},
		}
		compare := func(when string) {
			t.Helper()
			got := progress(t, a, refs)
			got[2] = QueueProgress{Queue: got[2].Queue, Err: got[2].Err}
			if w := got[0].Written; w < 0 || w > got[0].Start {
				t.Errorf("%s: %d is written down, of a start at %d", when, w, got[0].Start)
			}
			got[0].Written, got[1].Written = 0, 0
			if got[0].Start < want[0].Start && got[0].Start >= want[0].LogStart && got[0].Depth > 0 {
				got[0].Start = want[0].Start // written down later
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s:\n%s", when, diff)
			}
		}
		compare("at first")
		acknowledge(t, cfg, group, queue, "0", "1")
		acknowledge(t, cfg, group, queue, "3") // with it what the first has moved is written down
		want[0].Start, want[0].Depth = 2, 2
		compare("after three were acknowledged")
		finished := progress(t, a, refs)[0].Written
		if finished != 2 {
			t.Errorf("the start is written down as %d", finished)
		}
		if err := a.DeleteRecordsBelow(
			brokertest.Patient(t), map[compute.QueueName]int64{"a": finished, "gone": 7},
		); err != nil {
			t.Fatal(err)
		}
		want[0].LogStart = 2
		compare("after the finished were removed")
		acknowledge(t, cfg, group, queue, "2", "4")
		want[0].Start, want[0].Depth = 5, 0
		compare("after all were acknowledged")
		brokertest.Put(t, cfg, queue, 0, "5")
		want[0].LogEnd, want[0].Depth = 6, 1
		compare("after another was published")
		acknowledge(t, cfg, group, queue, "5")
		want[0].Start, want[0].Depth = 6, 0
		compare("after that was acknowledged")
	})
}

// acknowledge takes all records of a queue as a member of the group would, and
// acknowledges those with these values.
func acknowledge(t testing.TB, cfg kafka.Config, group, topic string, values ...string) {
	t.Helper()
	cl, err := kafka.NewClient(cfg, kgo.ShareGroup(group), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	left := map[string]bool{}
	for _, v := range values {
		left[v] = true
	}
	for len(left) > 0 {
		fetches := cl.PollFetches(brokertest.Patient(t))
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			ack := kgo.AckRelease
			if left[string(r.Value)] {
				ack = kgo.AckAccept
				delete(left, string(r.Value))
			}
			r.Ack(ack)
		})
	}
	if err := cl.FlushAcks(brokertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
}
