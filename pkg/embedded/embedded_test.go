// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A folder is of one broker at a time, and what is in it outlives the broker.
func TestDataDir(t *testing.T) {
	dir := t.TempDir() + "/made/by/it"
	first := start(t, dir)
	admin := adminOf(t, first)
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	if b, err := Start(Options{DataDir: dir}); err == nil {
		b.Close()
		t.Fatal("two brokers in one folder")
	} else if !strings.Contains(err.Error(), dir+" is in use by another process") {
		t.Error(err)
	}
	first.Close()
	first.Close()
	topics, err := adminOf(t, start(t, dir)).ListTopics(t.Context())
	if err != nil || len(topics["kept"].Partitions) != 3 {
		t.Errorf("after a restart there is %v (%v)", topics, err)
	}
}

// A log goes on after a restart where it ended, though all of its records were removed:
// a share group has read up to there.
func TestALogGoesOnWhereItEnded(t *testing.T) {
	dir := t.TempDir()
	end := func(a *kadm.Client) int64 {
		t.Helper()
		ends, err := a.ListEndOffsets(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		return ends["log"][0].Offset
	}
	b := start(t, dir)
	admin := adminOf(t, b)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "log"); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.DefaultProduceTopic("log"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	client.Close()
	for round := range 3 { // kfake forgets it at the second restart, or the first
		below := kadm.Offsets{}
		below.AddOffset("log", 0, end(admin), -1)
		if answers, err := admin.DeleteRecords(t.Context(), below); err != nil || answers.Error() != nil {
			t.Fatal(err, answers.Error())
		}
		if n := end(admin); n != 3 {
			t.Fatalf("after %d restarts the log ends at %d, not 3", round, n)
		}
		b.Close()
		b = start(t, dir)
		admin = adminOf(t, b)
	}
}

// What is true does not expire, whatever its age; nor does a log of a broker that goes on after a restart, which would
// begin anew then.
func TestNothingIsForgotten(t *testing.T) {
	old := time.Now().AddDate(-1, 0, 0)
	week, always := "604800000", "compact"
	for name, configs := range map[string]map[string]*string{
		"compacted": {"cleanup.policy": &always}, "a week's": {"retention.ms": &week},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			if _, err := adminOf(t, b).CreateTopic(t.Context(), 1, 1, configs, "log"); err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.DefaultProduceTopic("log"))
			if err != nil {
				t.Fatal(err)
			}
			rec := &kgo.Record{Key: []byte("k"), Value: []byte("x"), Timestamp: old}
			if err := client.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
			client.Close()
			b.cluster.ApplyRetention()
			b.Close()
			admin := adminOf(t, start(t, dir))
			begin, err := admin.ListStartOffsets(t.Context(), "log")
			if err != nil {
				t.Fatal(err)
			}
			end, err := admin.ListEndOffsets(t.Context(), "log")
			if err != nil || begin["log"][0].Offset != 0 || end["log"][0].Offset != 1 {
				t.Errorf("it begins at %d and ends at %d, %v", begin["log"][0].Offset, end["log"][0].Offset, err)
			}
		})
	}
}

// A client that writes to two topics which were deleted is told so: kfake panics by itself.
func TestProduceToTopicsThatAreGone(t *testing.T) {
	b := start(t, t.TempDir())
	admin := adminOf(t, b)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "here"); err != nil {
		t.Fatal(err)
	}
	topics, err := admin.ListTopics(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	for _, id := range [][16]byte{{1}, topics["here"].ID, {2}} {
		topic := kmsg.NewProduceRequestTopic()
		topic.TopicID = id
		topic.Partitions = []kmsg.ProduceRequestTopicPartition{kmsg.NewProduceRequestTopicPartition()}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := client.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	gone := 0
	for _, topic := range resp.(*kmsg.ProduceResponse).Topics {
		unknown := topic.Partitions[0].ErrorCode == kerr.UnknownTopicID.Code
		if unknown == (topic.TopicID == [16]byte(topics["here"].ID)) {
			t.Errorf("%x: %v", topic.TopicID, kerr.ErrorForCode(topic.Partitions[0].ErrorCode))
		}
		if unknown {
			gone++
		}
	}
	if gone != 2 {
		t.Errorf("%d topics are gone, not 2", gone)
	}
}

func start(t *testing.T, dir string) *Broker {
	t.Helper()
	b, err := Start(Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func adminOf(t *testing.T, b *Broker) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kadm.NewClient(client)
}
