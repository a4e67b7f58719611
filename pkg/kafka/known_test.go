// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/internal/readtest"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/share"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

func timesAsked(t *testing.T, reg prometheus.Gatherer, key kmsg.Key) int {
	t.Helper()
	n, _ := telemetrytest.Value(t, reg, "berth_kafka_request_duration_seconds", "api", kmsg.NameForKey(int16(key)))
	return int(n)
}

// knowing is a process that has prepared: its Known holds the cell's topics, and those
// of one host.
func knowing(t *testing.T, cfg kafka.Config) (kafka.Config, *prometheus.Registry) {
	t.Helper()
	first, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.EnsureTopics(t.Context(), 2, 1); err != nil {
		t.Fatal(err)
	}
	if err := first.EnsureHostTopic(t.Context(), "h", 1); err != nil {
		t.Fatal(err)
	}
	topics := cfg.Topics
	all := []string{
		topics.Host("h"), topics.Requests(), topics.Reports(), topics.Rejected(), topics.Instances(),
		topics.Catalog(),
		topics.Hosts(), topics.Queues(), topics.Advice(), topics.Consoles(),
	}
	for { // brokers hear late of new topics
		ids, err := first.TopicIDs(t.Context(), all...)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == len(all) {
			break
		}
		service.Sleep(t.Context(), 50*time.Millisecond)
	}
	first.Close()
	cfg, reg := brokertest.Counting(cfg)
	cfg.Known = kafka.NewKnown()
	cfg.Known.Expect(cfg.Topics.Host("h"))
	a, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.WaitReachable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := a.Found(); n != 2 {
		t.Fatalf("the cell has %d partitions, want 2", n)
	}
	return cfg, reg
}

// What a host's clients ask in their first minute. Where there is one broker: once
// about the cell, once about queues. Where there are more, readers ask brokers that do
// not lead whether another does, together: two at most when they start, and two after
// half a minute.
func TestFirstMinuteOfClients(t *testing.T) {
	for brokers, most := range map[int]int{1: 2, 3: 6} {
		t.Run(fmt.Sprint(brokers, " brokers"), func(t *testing.T) {
			brokertest.WithRefusing(t, brokers, func(t *testing.T, c brokertest.Refusing) {
				a := clienttest.Admin(t, c.Cfg)
				ids, err := a.EnsureQueueTopics(t.Context(), []compute.QueueName{"a"}, 1)
				if err == nil {
					err = a.InitShareState(t.Context(), "g", []compute.QueueName{"a"})
				}
				if err != nil {
					t.Fatal(err)
				}
				q := wire.QueueRef{Name: "a", Group: "g", TopicID: ids["a"]}
				cfg, reg := knowing(t, c.Cfg)
				j := read.NewSharedFetch(cfg)
				var rs []*read.Reader
				var ran sync.WaitGroup
				reading, end := context.WithCancel(t.Context())
				for _, topic := range []string{cfg.Topics.Host("h"), cfg.Topics.Queues(), cfg.Topics.Advice()} {
					r := j.Reader(read.Options{Topic: topic, Handle: func(read.Batch) {}})
					ran.Go(func() { _ = r.Run(reading) }) // whatever is wrong, it is not ready
					rs = append(rs, r)
				}
				for _, r := range rs {
					brokertest.Await(t, r.Ready(), "the reader is ready")
				}
				p := share.NewPuller(cfg, share.Options{})
				ran.Go(func() { _ = p.Run(reading) }) // whatever is wrong, it places nothing
				if _, err := p.Place(t.Context(), []wire.QueueRef{q}); err != nil {
					t.Fatal(err)
				}
				w, err := write.NewReporter(cfg)
				if err != nil {
					t.Fatal(err)
				}
				for range 12 {
					rec := wire.Record{Key: []byte("h"), Value: []byte("v")}
					if err := w.Send(
						t.Context(), rec.To(cfg.Topics.Hosts(), wire.AnyPartition),
						rec.To(cfg.Topics.Reports(), wire.AnyPartition),
					); err != nil {
						t.Fatal(err)
					}
					brokertest.Passes(read.DefaultWait)
				}

				if n := timesAsked(t, reg, kmsg.Metadata); n > most {
					t.Errorf("metadata was asked for %d times, want %d at most", n, most)
				}
				if n := timesAsked(t, reg, kmsg.InitProducerID); n > 0 {
					t.Errorf("a producer id was asked for %d times", n)
				}
				w.Close()
				end()
				ran.Wait()
				a.Close()
				brokertest.Passes(read.DefaultWait) // what brokers still hold
			})
		})
	}
}

// A reporter's records go where a producer's would, each where it says or where its
// key says, and arrive once.
func TestReporterWritesWhereAProducerWould(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, reg := knowing(t, brokertest.TestConfig(b))
		w, err := write.NewReporter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		topic := cfg.Topics.Reports()
		var recs []wire.Record
		for i := range 20 {
			recs = append(
				recs,
				wire.Record{
					Key: []byte(fmt.Sprint("key ", i)), Value: []byte("v"),
					Headers: []wire.Header{{Key: "h", Value: []byte("x")}},
				}.To(topic, wire.AnyPartition),
			)
		}
		// The producer first, which waits for leaders: one that has not heard yet that it leads refuses a reporter's records.
		if err := clienttest.Producer(t, brokertest.TestConfig(b)).Send(brokertest.Patient(t), recs...); err != nil {
			t.Fatal(err)
		}
		if err := w.Send(brokertest.Patient(t), recs...); err != nil {
			t.Fatal(err)
		}
		if err := w.Send(
			brokertest.Patient(t), wire.Record{Value: []byte("last")}.To(topic, 0),
			wire.Record{Value: []byte("last")}.To(topic, 1),
		); err != nil {
			t.Fatal(err)
		}
		at := map[string]map[int32]int{}
		r := readtest.Follow(t, brokertest.TestConfig(b), read.Options{Topic: topic})
		for lasts := 0; lasts < 2; {
			for _, rec := range (<-r.Batches).Records {
				if string(rec.Value) == "last" {
					lasts++
					continue
				}
				if at[string(rec.Key)] == nil {
					at[string(rec.Key)] = map[int32]int{}
				}
				at[string(rec.Key)][rec.Partition]++
				if len(rec.Headers) != 1 || string(rec.Headers[0].Value) != "x" {
					t.Errorf("%s has headers %v", rec.Key, rec.Headers)
				}
			}
		}
		for key, n := range at {
			if len(n) != 1 || n[wire.Partition(compute.Project(key), 2)] != 2 {
				t.Errorf("%s is in %v", key, n)
			}
		}
		if n := timesAsked(t, reg, kmsg.InitProducerID); len(at) != 20 || n > 0 {
			t.Errorf("%d keys, and a producer id was asked for %d times", len(at), n)
		}
	})
}

// Whatever a broker answers, what a reporter could not write the producer does, and
// goes on with.
func TestReporterPassesEveryError(t *testing.T) {
	for _, code := range brokertest.ProducePasses() {
		t.Run(code.Message, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				cfg, reg := knowing(t, c.Cfg)
				w, err := write.NewReporter(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				send := func() {
					t.Helper()
					if err := w.Send(
						t.Context(),
						wire.Record{Key: []byte("k"), Value: []byte("v")}.To(cfg.Topics.Hosts(), wire.AnyPartition),
					); err != nil {
						t.Error(err)
					}
				}
				h := c.Refuse(kmsg.Produce, code, 1)
				send()
				brokertest.HitBy(t, h, 1)
				if n := timesAsked(t, reg, kmsg.InitProducerID); n != 1 {
					t.Errorf("a producer id was asked for %d times, want once: the producer writes now", n)
				}
				send()
			})
		})
	}
}

// A leader that moves: what is written then arrives, by the producer.
func TestReporterFollowsALeader(t *testing.T) {
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		cfg, _ := knowing(t, c.Cfg)
		w, err := write.NewReporter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		topic := cfg.Topics.Hosts()
		r := readtest.Follow(t, c.Cfg, read.Options{Topic: topic})
		for i := range 4 {
			value := fmt.Sprint(i)
			if err := w.Send(
				t.Context(), wire.Record{Key: []byte("k"), Value: []byte(value)}.To(topic, wire.AnyPartition),
			); err != nil {
				t.Fatal(err)
			}
			r.UpTo(t, value)
			if err := c.MoveTopicPartition(topic, 0, (c.LeaderFor(topic, 0)+1)%3); err != nil {
				t.Fatal(err)
			}
		}
		r.Stop()
		brokertest.Passes(read.DefaultWait)
	})
}

// withoutLeader has nobody take what is written to a partition, until the fault is removed.
func withoutLeader(c brokertest.Refusing, topic string, partition int32) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{partition}, Err: kerr.NotLeaderForPartition,
		Count: -1,
	})
}

// While a partition has no leader, what goes to another in the same call is told to be acknowledged, be it written by a
// request to the leader or by the producer.
func TestAPartitionWithoutALeaderHoldsUpNoOther(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		cfg, _ := knowing(t, c.Cfg)
		w, err := write.NewReporter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		topic := cfg.Topics.Reports()
		h := withoutLeader(c, topic, 1)
		rec := wire.Record{Key: []byte("k"), Value: []byte("v")}
		for _, by := range []string{"a request to the leader", "the producer"} {
			var order []int
			fared := map[int]error{}
			w.SendEach(t.Context(), []wire.Record{rec.To(topic, 1), rec.To(topic, 0)}, func(i int, err error) {
				order, fared[i] = append(order, i), err
			})
			if !slices.Equal(order, []int{1, 0}) || fared[1] != nil ||
				compute.KindOf(fared[0]) != compute.KindUnavailable {
				t.Errorf("by %s: told in the order %v, with %v", by, order, fared)
			}
		}
		h.Remove()
		if err := w.Send(t.Context(), rec.To(topic, 1), rec.To(topic, 0)); err != nil {
			t.Errorf("once it has a leader: %v", err)
		}
	})
}

// What a reporter still waits for when its context ends is told to have an unknown outcome.
func TestReporterTellsWhatItGaveUp(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		cfg, _ := knowing(t, c.Cfg)
		w, err := write.NewReporter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		topic := cfg.Topics.Reports()
		withoutLeader(c, topic, 1)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		rec := wire.Record{Key: []byte("k"), Value: []byte("v")}
		fared := map[int][]error{}
		w.SendEach(ctx, []wire.Record{rec.To(topic, 1), rec.To(topic, 0)}, func(i int, err error) {
			fared[i] = append(fared[i], err)
			giveUp()
		})
		if len(fared[0]) != 1 || compute.KindOf(fared[0][0]) != compute.KindTimeout ||
			len(fared[1]) != 1 || fared[1][0] != nil {
			t.Errorf("told %v", fared)
		}
	})
}
