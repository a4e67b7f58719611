// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/wire"
)

// What a run made is deleted, its groups and what was configured for them too;
// what has another prefix stays.
func TestCleanUp(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		makeCell(t, b, b.Prefix+"mine.")
		makeCell(t, b, b.Prefix+"theirs.")
		var mine, theirs []string
		if !soon(t, func() bool {
			mine, theirs = there(t, b, b.Prefix+"mine."), there(t, b, b.Prefix+"theirs.")
			settings := 0
			for _, s := range theirs {
				if strings.HasPrefix(s, "setting ") {
					settings++
				}
			}
			return len(mine) == len(theirs) && len(mine) >= 10 && settings == 5
		}) {
			t.Fatalf("there are %v, and %v", mine, theirs)
		}
		if err := cleanUp(t.Context(), b.Addrs, b.Prefix+"mine."); err != nil {
			t.Fatal(err)
		}
		var left []string
		if !soon(t, func() bool {
			left = there(t, b, b.Prefix+"mine.")
			return len(left) == 0
		}) {
			t.Errorf("left: %v", left)
		}
		if now := there(t, b, b.Prefix+"theirs."); !slices.Equal(now, theirs) {
			t.Errorf("of theirs there was %v, and now %v", theirs, now)
		}
		if err := cleanUp(t.Context(), b.Addrs, b.Prefix+"mine."); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}

// soon says whether something becomes so within a minute: a broker hears of topics and settings after its controller.
func soon(t *testing.T, so func() bool) bool {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for lost := time.Now().Add(time.Minute); !so(); <-tick.C {
		if time.Now().After(lost) {
			return false
		}
	}
	return true
}

// A run that is called off and may not delete what it made says so beside the call-off, and the folder is gone.
func TestWhatIsLeftIsSaid(t *testing.T) {
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	o := Options{Kafka: b.Addrs()[0], Prefix: "mine.", Data: t.TempDir()}.WithDefaults()
	_, err = withRun(t.Context(), o, lab.Berth{}, &cloud{}, func(*run) (Result, error) {
		makeCell(t, kafkatest.Broker{Addrs: b.Addrs()}, "mine.")
		return Result{}, context.Canceled
	})
	left, ok := errors.AsType[*LeftError](err)
	if !ok || !errors.Is(err, context.Canceled) || !strings.Contains(left.Error(), `begins with "mine."`) ||
		!errors.Is(left, kerr.TopicAuthorizationFailed) {
		t.Errorf("answers %v", err)
	}
	if files, err := os.ReadDir(o.Data); err != nil || len(files) > 0 {
		t.Errorf("%v left in the data folder (%v)", files, err)
	}
}

// makeCell makes topics, a queue with its share group, and a consumer group.
func makeCell(t *testing.T, b kafkatest.Broker, prefix string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics := wire.Topics{Prefix: prefix}
	admin, err := kafkaadmin.New(kafka.Config{Brokers: b.Addrs, Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.EnsureTopics(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	queues := []compute.QueueName{"small"}
	if _, err := admin.EnsureQueueTopics(t.Context(), queues, 0); err != nil {
		t.Fatal(err)
	}
	if err := admin.InitShareState(t.Context(), topics.ShareGroup(0), queues); err != nil {
		t.Fatal(err)
	}
	var at kadm.Offsets
	at.AddOffset(topics.Requests(), 0, 0, -1)
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), topics.ConductorGroup(), at); err != nil {
		t.Fatal(err)
	}
}

// there lists topics, groups and settings of groups that begin with the prefix,
// as a client sees them that has seen nothing before.
func there(t *testing.T, b kafkatest.Broker, prefix string) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := admin.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range topics.Names() {
		out = append(out, "topic "+name)
	}
	for _, name := range groups.Groups() {
		out = append(out, "group "+name)
	}
	share := wire.Topics{Prefix: prefix}.ShareGroup(0)
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, share
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Resources {
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceGroupConfig {
				out = append(out, "setting "+share+" "+c.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(out, func(s string) bool { return !strings.Contains(s, " "+prefix) })
}
