// SPDX-License-Identifier: Apache-2.0

package publishtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/wire"
)

// Topic makes a topic for a test and waits until it is led.
func Topic(t testing.TB, brokers []string, name string, partitions int32, settings map[string]string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	defer cl.Close()
	configs := map[string]*string{}
	for k, v := range settings {
		configs[k] = &v
	}
	_, err = kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, configs, name)
	must(t, err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), name)
		if err == nil && ends.Error() == nil && len(ends[name]) == int(partitions) {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s is not led: %v", name, err)
		}
	}
}

// Topics lists the topics there are.
func Topics(t testing.TB, brokers []string) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	defer cl.Close()
	all, err := kadm.NewClient(cl).ListTopics(t.Context())
	must(t, err)
	return all.Names()
}

// Read reads the first n records of a topic, in order of partition and offset.
func Read(t testing.TB, brokers []string, topic string, n int) []wire.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var recs []wire.Record
	for len(recs) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records read: %v", len(recs), n, err)
		}
		fetches.EachRecord(func(k *kgo.Record) { recs = append(recs, fromKgo(k)) })
	}
	slices.SortFunc(recs, func(a, b wire.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return recs
}

func fromKgo(k *kgo.Record) wire.Record {
	r := wire.Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Key: k.Key, Value: k.Value}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, wire.Header{Key: h.Key, Value: h.Value})
	}
	return r
}
