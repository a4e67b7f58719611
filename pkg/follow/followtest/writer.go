// SPDX-License-Identifier: Apache-2.0

package followtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// Writer writes instances in transactions, which a conductor does not, and a
// follower must bear.
type Writer struct {
	t          testing.TB
	open       func() *kgo.Client
	client     *kgo.Client
	topic      string
	partitions int32
}

// NewWriter makes a writer; its name is its transactional id.
func NewWriter(t testing.TB, brokers []string, topics wire.Topics, partitions int32, name string) *Writer {
	t.Helper()
	w := &Writer{t: t, topic: topics.Instances(), partitions: partitions}
	w.open = func() *kgo.Client {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(brokers...), kgo.TransactionalID(topics.Prefix+name), kgo.ProducerLinger(0),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond),
		)
		must(t, err)
		return client
	}
	w.client = w.open()
	t.Cleanup(func() { w.client.Close() })
	return w
}

// Write commits these instances in one transaction.
func (w *Writer) Write(all ...compute.Instance) {
	w.t.Helper()
	must(w.t, w.write(all))
}

// Try is Write where a broker may die meanwhile: after an error nobody knows
// whether it was committed, and the writer begins again with a new epoch.
func (w *Writer) Try(all ...compute.Instance) error {
	w.t.Helper()
	err := w.write(all)
	if err != nil {
		w.client.Close()
		w.client = w.open()
	}
	return err
}

func (w *Writer) write(all []compute.Instance) error {
	if err := w.client.BeginTransaction(); err != nil {
		return err
	}
	if err := w.produce(records(all)); err != nil {
		return err
	}
	return kafkatest.EndTransaction(w.t.Context(), w.client, w.topic, kgo.TryCommit)
}

// Abort writes these instances in a transaction that is aborted.
func (w *Writer) Abort(all ...compute.Instance) {
	w.t.Helper()
	w.Begin(records(all)...)
	w.Undo()
}

// Begin writes records in a transaction that stays open.
func (w *Writer) Begin(recs ...wire.Record) {
	w.t.Helper()
	must(w.t, w.client.BeginTransaction())
	w.More(recs...)
}

// More writes records in the open transaction, those without a time as of now.
func (w *Writer) More(recs ...wire.Record) {
	w.t.Helper()
	must(w.t, w.produce(recs))
}

func (w *Writer) produce(recs []wire.Record) error {
	for _, rec := range recs {
		project, _, err := wire.ParseInstanceKey(rec.Key)
		if err != nil && !rec.IsTakeover() { // a takeover may be in any partition
			return err
		}
		k := &kgo.Record{
			Topic: w.topic, Partition: wire.Partition(project, w.partitions), Key: rec.Key, Value: rec.Value,
			Timestamp: rec.Time,
		}
		for _, h := range rec.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := w.client.ProduceSync(w.t.Context(), k).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// Commit ends the open transaction.
func (w *Writer) Commit() {
	w.t.Helper()
	must(w.t, kafkatest.EndTransaction(w.t.Context(), w.client, w.topic, kgo.TryCommit))
}

// Undo aborts the open transaction.
func (w *Writer) Undo() {
	w.t.Helper()
	must(w.t, kafkatest.EndTransaction(w.t.Context(), w.client, w.topic, kgo.TryAbort))
}

func records(all []compute.Instance) []wire.Record {
	var recs []wire.Record
	for _, i := range all {
		recs = append(recs, wire.EncodeInstance(i))
	}
	return recs
}

// Instance is the n-th instance of a project in a version.
func Instance(p compute.Project, n int, v compute.Version) compute.Instance {
	return compute.Instance{
		ID: compute.InstanceID(fmt.Sprintf("%08d-0000-4000-8000-%012d", n, n)), Project: p, Version: v,
		State: compute.StateQueued, Attempt: 1,
		Boot: compute.Boot{Name: fmt.Sprintf("%s-%d", p, n), Flavor: "m1.small"},
	}
}

// Topic makes a compacted topic and waits until it is led.
func Topic(t testing.TB, brokers []string, name string, partitions int32, replicas int16, settings map[string]string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(50*time.Millisecond))
	must(t, err)
	defer cl.Close()
	compact := "compact"
	configs := map[string]*string{"cleanup.policy": &compact}
	for k, v := range settings {
		configs[k] = &v
	}
	_, err = kadm.NewClient(cl).CreateTopic(t.Context(), partitions, replicas, configs, name)
	must(t, err)
	Await(t, name+" is led", func(ctx context.Context) bool {
		ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, name)
		return err == nil && ends.Error() == nil && len(ends[name]) == int(partitions)
	})
}

// Delete deletes a topic and waits until no broker knows it.
func Delete(t testing.TB, brokers []string, name string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(50*time.Millisecond))
	must(t, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).DeleteTopic(t.Context(), name)
	must(t, err)
	Await(t, name+" is gone", func(ctx context.Context) bool {
		all, err := kadm.NewClient(cl).ListTopics(ctx)
		return err == nil && !all.Has(name)
	})
}

// Await asks again and again for what no event tells.
func Await(t testing.TB, what string, done func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}
