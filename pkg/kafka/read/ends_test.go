// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// A partition that does not answer holds up those that wait for it or for all, and nobody else.
func TestSyncOfOnePartition(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "r.x", 3, nil)
		r := read(t, c.Cfg, Options{Topic: "r.x"})
		brokertest.Await(t, r.Ready(), "the reader is ready")
		away := c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "r.x", Partitions: []int32{1}, Err: kerr.NotLeaderForPartition,
			Count: -1,
		})
		within := func(sync func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return sync(ctx)
		}
		of := func(p int32) func(context.Context) error {
			return func(ctx context.Context) error { return r.SyncPartition(ctx, p) }
		}
		for range 3 {
			all, one := make(chan error, 1), make(chan error, 1)
			go func() { all <- within(r.Sync) }()
			go func() { one <- within(of(1)) }()
			for _, p := range []int32{0, 2} {
				brokertest.Put(t, c.Cfg, "r.x", p, "a")
				if err := within(of(p)); err != nil {
					t.Errorf("partition %d: %v", p, err)
				}
				if got, _ := r.now(); len(got) != 1 || got[0] != "a" {
					t.Errorf("partition %d: synced, and read %q", p, got)
				}
			}
			if <-all == nil || <-one == nil {
				t.Error("the ends of a partition that does not answer are known")
			}
		}
		away.Remove()
		if err := within(r.Sync); err != nil {
			t.Errorf("all, once it answers: %v", err)
		}
		if err := within(of(1)); err != nil {
			t.Errorf("the one, once it answers: %v", err)
		}
	})
}

// An open transaction in one partition holds up nobody who waits for another.
func TestSyncBesideAnOpenTransaction(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "instances"
		brokertest.MakeTopic(t, cfg, topic, 2, nil)
		brokertest.Put(t, cfg, topic, 0, "before")
		brokertest.Put(t, cfg, topic, 1, "before")
		r := read(t, cfg, Options{Topic: topic, Committed: true, MaxWait: 100 * time.Millisecond})
		brokertest.Await(t, r.Ready(), "the reader is ready")
		decide := brokertest.Begin(t, cfg, topic, "in") // in partition 0
		if err := r.SyncPartition(brokertest.Patient(t), 1); err != nil {
			t.Error(err)
		}
		synced := make(chan error, 1)
		go func() { synced <- r.SyncPartition(brokertest.Patient(t), 0) }()
		if err := r.SyncPartition(brokertest.Patient(t), 1); err != nil {
			t.Error(err)
		}
		select {
		case err := <-synced:
			t.Errorf("synced (%v) with an undecided transaction before the end", err)
		default:
		}
		decide(kgo.TryCommit)
		if err := <-synced; err != nil {
			t.Error(err)
		}
	})
}
