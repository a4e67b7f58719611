// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/unpack"
)

func TestEnsureTopics(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		a, ctx, topics := adminOf(t, cfg), brokertest.Patient(t), cfg.Topics
		for range 2 { // the second time all exist
			if err := a.EnsureTopics(ctx, 5, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.EnsureTopics(ctx, 9, 0); err != nil { // as another operator's config has it: what exists counts
			t.Fatal(err)
		}
		for topic, want := range map[string]struct {
			partitions int32
			policy     string
			retention  time.Duration
		}{
			topics.Requests():  {5, "delete", 14 * day},
			topics.Reports():   {5, "delete", 14 * day},
			topics.Instances(): {5, "compact", 0},
			topics.Rejected():  {5, "delete", 14 * day},
			topics.Catalog():   {1, "compact", 0},
			topics.Hosts():     {1, "compact", 0},
			topics.Queues():    {1, "compact", 0},
			topics.Tokens():    {1, "compact", 0},
			topics.Advice():    {1, "delete", 10 * time.Minute},
			topics.Audit():     {1, "delete", 90 * day},
			topics.Consoles():  {1, "delete", 10 * time.Minute},
		} {
			if n, err := a.Partitions(ctx, topic); err != nil || n != want.partitions {
				t.Errorf("%s has %d partitions, want %d (%v)", topic, n, want.partitions, err)
			}
			checkConfig(t, a, topic, "cleanup.policy", want.policy)
			if want.retention > 0 {
				checkConfig(t, a, topic, "retention.ms", millis(want.retention))
			}
			switch topic {
			case topics.Tokens():
				checkConfig(t, a, topic, "delete.retention.ms", millis(365*day))
			case topics.Catalog(), topics.Hosts(), topics.Queues():
				checkConfig(t, a, topic, "delete.retention.ms", millis(30*day))
			}
			largest := maxMessageBytes
			if topic == topics.Instances() {
				largest = kafka.MaxTurnBytes
			}
			checkConfig(t, a, topic, "max.message.bytes", fmt.Sprint(largest))
			checkConfig(t, a, topic, "message.timestamp.type", "LogAppendTime")
		}
	})
}

// Kafka refuses records of the future: a process with a wrong clock would write nothing.
func TestAWrongClockWrites(t *testing.T) {
	cfg := brokertest.TestConfig(kafkatest.Kafka(t)) // the embedded broker looks at no record's time
	a, topics := adminOf(t, cfg), cfg.Topics
	if err := a.EnsureTopics(brokertest.Patient(t), 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := a.EnsureQueueTopics(brokertest.Patient(t), []compute.QueueName{"q"}, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.EnsureHostTopic(brokertest.Patient(t), "h", 1); err != nil {
		t.Fatal(err)
	}
	cl, err := kafka.NewClient(cfg, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, topic := range []string{
		topics.Requests(), topics.Reports(), topics.Instances(), topics.Rejected(), topics.Catalog(), topics.Hosts(),
		topics.Queues(), topics.Tokens(), topics.Audit(),
		topics.Advice(), topics.Consoles(), topics.Build("q"), topics.Host("h"),
	} {
		ahead := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}
		ahead.Timestamp = time.Now().Add(2 * time.Hour)
		if err := cl.ProduceSync(brokertest.Patient(t), ahead).FirstErr(); err != nil {
			t.Errorf("%s: %v", topic, err)
		}
	}
	reader, err := kafka.NewClient(
		cfg,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Requests(): {0: kgo.NewOffset().AtStart()}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	fetched := reader.PollFetches(brokertest.Patient(t))
	if fetched.NumRecords() != 1 {
		t.Fatalf("read %d records: %v", fetched.NumRecords(), fetched.Errors())
	}
	if rec := unpack.FromKgo(fetched.Records()[0]); !rec.Logged || rec.Time.After(time.Now().Add(time.Hour)) {
		t.Errorf("a record is of %s, by its broker: %t", rec.Time, rec.Logged)
	}
}

func TestEnsureTopicsMakesTheMissingLikeTheOthers(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		brokertest.MakeTopic(t, cfg, cfg.Topics.Requests(), 3, nil)
		a := adminOf(t, cfg)
		if err := a.EnsureTopics(brokertest.Patient(t), 7, 1); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Partitions(brokertest.Patient(t), cfg.Topics.Instances()); n != 3 || err != nil {
			t.Errorf("instances has %d partitions, requests 3 (%v)", n, err)
		}
		ids, err := a.TopicIDs(brokertest.Patient(t), cfg.Topics.Instances())
		id, again := a.TopicID(brokertest.Patient(t), cfg.Topics.Instances())
		if err != nil || again != nil || len(id) != 32 || id != ids[cfg.Topics.Instances()] {
			t.Errorf("the id of instances is %q, of %v (%v, %v)", id, ids, err, again)
		}
	})
}

func TestEnsureTopicsRefusesPartitionsThatDiffer(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		brokertest.MakeTopic(t, cfg, cfg.Topics.Requests(), 3, nil)
		brokertest.MakeTopic(t, cfg, cfg.Topics.Instances(), 4, nil)
		err := adminOf(t, cfg).EnsureTopics(brokertest.Patient(t), 3, 1)
		if compute.KindOf(err) != compute.KindConflict {
			t.Errorf("got %v", err)
		}
	})
}

func checkConfig(t *testing.T, a *Admin, topic, key, want string) {
	t.Helper()
	// a broker hears late of a new topic
	rs, err := retry.Do(brokertest.Patient(t), a.cfg.Log, "", nil, func() (kadm.ResourceConfigs, error) {
		rs, err := a.kadm.DescribeTopicConfigs(brokertest.Patient(t), topic)
		if err == nil && len(rs) == 0 {
			err = kerr.UnknownTopicOrPartition
		}
		if err != nil {
			return rs, err
		}
		return rs, rs[0].Err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rs[0].Configs {
		if c.Key == key {
			if got := c.MaybeValue(); got != want {
				t.Errorf("%s of %s is %q, want %q", key, topic, got, want)
			}
			return
		}
	}
	t.Errorf("%s has no %s", topic, key)
}

func TestQueueTopics(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		a, ctx := adminOf(t, cfg), brokertest.Patient(t)
		queues := make([]compute.QueueName, 1100) // more than one request
		if b.Real {
			queues = queues[:20] // each is a folder on disk
		}
		for i := range queues {
			queues[i] = compute.QueueName(fmt.Sprint("q", i))
		}
		first, err := a.EnsureQueueTopics(ctx, queues[:10], 1)
		if err != nil {
			t.Fatal(err)
		}
		all, err := a.EnsureQueueTopics(ctx, queues, 1)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[compute.TopicID]bool{}
		for i, q := range queues {
			if id := all[q]; len(id) != 32 || seen[id] || i < 10 && id != first[q] {
				t.Fatalf("%s has id %q, before %q", q, id, first[q])
			}
			seen[all[q]] = true
		}
		checkConfig(t, a, cfg.Topics.Build(queues[0]), "retention.ms", millis(8*day))
		if queueRetention <= compute.MaxDeadline {
			t.Error("work may outlive its queue")
		}

		gone := cfg.Topics.Build(queues[0])
		for range 2 { // the second time there is nothing to delete
			if err := a.DeleteTopics(ctx, gone); err != nil {
				t.Fatal(err)
			}
		}
		again, err := a.EnsureQueueTopics(ctx, queues[:1], 1)
		if err != nil {
			t.Fatal(err)
		}
		if again[queues[0]] == first[queues[0]] {
			t.Error("a topic made again has the id of the one deleted")
		}
		ids, err := a.TopicIDs(ctx, cfg.Topics.Build(queues[1]), b.Prefix+"never")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(
			map[string]compute.TopicID{cfg.Topics.Build(queues[1]): first[queues[1]]}, ids,
		); diff != "" {
			t.Error(diff)
		}
		if err := a.EnsureHostTopic(ctx, "h1", 1); err != nil {
			t.Fatal(err)
		}
		checkConfig(t, a, cfg.Topics.Host("h1"), "retention.ms", millis(14*day))
	})
}

func TestVersion(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		a := adminOf(t, brokertest.TestConfig(b))
		if err := a.WaitReachable(brokertest.Patient(t)); err != nil {
			t.Fatal(err)
		}
		v, err := a.Version(brokertest.Patient(t))
		if err != nil || v.Brokers != 1 {
			t.Errorf("%+v %v", v, err)
		}
		if b.Real && !strings.HasPrefix("v"+kafkatest.Version(), v.Kafka) {
			t.Errorf("took Kafka %s for %s", kafkatest.Version(), v.Kafka)
		}
	})
}

func TestWaitReachableGivesUpWithItsContext(t *testing.T) {
	cfg := kafka.Config{Brokers: []string{"127.0.0.1:1"}}
	logs, logged := brokertest.LogTo(&cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- adminOf(t, cfg).WaitReachable(ctx) }()
	brokertest.Await(t, logged, "the log says that it waits")
	cancel()
	if err := <-done; compute.KindOf(err) != compute.KindTimeout && compute.KindOf(err) != compute.KindUnavailable {
		t.Errorf("got %v", err)
	}
	if logs.Len() != 1 {
		t.Errorf("logged %d lines", logs.Len())
	}
}

func TestNoBrokers(t *testing.T) {
	if _, err := New(kafka.Config{}); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("got %v", err)
	}
}
