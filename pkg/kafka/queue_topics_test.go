package kafka

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestQueueTopicsAreListedAndDeletedByTheirID(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		ctx := t.Context()
		a, err := NewAdmin(Config{Brokers: b.Addrs, Topics: wire.Topics{Prefix: b.Prefix}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		made, err := a.EnsureQueueTopics(ctx, []compute.QueueName{"a", "b"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.EnsureHostTopic(ctx, "h", 1); err != nil {
			t.Fatal(err)
		}
		if err := a.DeleteQueueTopic(ctx, made["a"]); err != nil {
			t.Fatal(err)
		}
		again, err := a.EnsureQueueTopics(ctx, []compute.QueueName{"a"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if again["a"] == made["a"] {
			t.Fatal("deleted and made again, and the id is the same")
		}
		if err := a.DeleteQueueTopic(ctx, made["a"]); err != nil {
			t.Fatalf("an incarnation that is gone: %v", err)
		}
		got, err := a.QueueTopics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got["a"] != again["a"] || got["b"] != made["b"] {
			t.Errorf("listed %v, want a as %s and b as %s", got, again["a"], made["b"])
		}
		if err := a.DeleteQueueTopic(ctx, "zz"); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("an id that is none answers %v", err)
		}
	})
}
