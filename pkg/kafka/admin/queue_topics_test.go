// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"maps"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestQueueTopicsAreListedAndDeletedByTheirID(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		ctx := t.Context()
		a, err := New(kafka.Config{Brokers: b.Addrs, Topics: wire.Topics{Prefix: b.Prefix}})
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
		want := map[compute.QueueName]compute.TopicID{"a": again["a"], "b": made["b"]}
		// a broker hears late of what the controller did
		_, err = retry.Do(brokertest.Patient(t), zap.NewNop(), "", nil, func() (int, error) {
			got, err := a.QueueTopics(ctx)
			if err == nil && !maps.Equal(got, want) {
				err = fmt.Errorf("listed %v, want %v", got, want)
			}
			return len(got), err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.DeleteQueueTopic(ctx, "zz"); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("an id that is none answers %v", err)
		}
	})
}
