// SPDX-License-Identifier: Apache-2.0

package follow_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow/followtest"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// Brokers that die, freeze and come back are survived by every follower, and
// nothing is lost, doubled or seen backwards.
func TestBrokersDieAndComeBack(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
	}})
	topics := wire.Topics{Prefix: "f."}
	followtest.Topic(t, c.Addrs(), topics.Instances(), partitions, 3, nil)
	writer := followtest.NewWriter(t, c.Addrs(), topics, partitions, "conductor")
	writer.Write(instances(30, 1)...)
	var all []*following
	for _, w := range followtest.All() {
		f := start(t, c.Addrs(), w, topics)
		f.ready()
		all = append(all, f)
	}
	v := compute.Version(1)
	seen := func(what string) {
		t.Helper()
		followtest.Await(t, "written: "+what, func(context.Context) bool {
			v++
			err := writer.Try(instances(30, v)...)
			if err != nil {
				t.Logf("%s: %v", what, err)
			}
			return err == nil
		})
		for i, f := range all {
			t.Logf("%s: %s", what, followtest.All()[i].Name)
			f.sees(versions(v, instances(30, v)...))
		}
	}
	must(t, c.Kill(1))
	seen("one is dead")
	must(t, c.Restart(context.Background(), 1))
	seen("it is back")
	must(t, c.Pause(2))
	seen("another is frozen")
	must(t, c.Resume(2))
	seen("it thawed")
}

// Compaction leaves holes, and where it ended a batch without records, perhaps
// as all that a broker has to answer; every follower gets over both to what is
// newest.
func TestACompactedLog(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	topics := wire.Topics{Prefix: "f."}
	followtest.Topic(t, c.Addrs(), topics.Instances(), 1, 1, map[string]string{
		"segment.bytes": "1048576", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.001",
		"delete.retention.ms": "0",
	})
	writer := followtest.NewWriter(t, c.Addrs(), topics, 1, "conductor")
	other := followtest.NewWriter(t, c.Addrs(), topics, 1, "another conductor")
	const rounds = 10
	for v := range compute.Version(rounds) {
		writer.Abort(instances(10, v+500)...)
		writer.Write(instances(10, v+1)...)
	}
	// A record from the future begins a new segment, so that the one before ends
	// with what is aborted. Nothing begins another after it.
	last := followtest.Instance("p0", 99, 1)
	future := wire.EncodeInstance(last)
	future.Time = time.Now().Add(10 * time.Minute)
	writer.Begin(wire.EncodeInstance(followtest.Instance("p0", 98, 1)))
	other.Begin(future)
	writer.Undo()
	other.Commit()
	writer.Write(instances(10, rounds+1)...)
	followtest.Await(t, "all there is for an answer is a batch without records", func(ctx context.Context) bool {
		return followtest.Hollow(ctx, t, c.Addrs(), topics.Instances())
	})
	want := versions(rounds+1, instances(10, rounds+1)...)
	want[last.ID] = 1
	t.Run("Berth's own reader", func(t *testing.T) { readByBerth(t, c.Addrs(), topics, want) })
	for _, w := range followtest.All() {
		t.Run(w.Name, func(t *testing.T) {
			f := start(t, c.Addrs(), w, topics)
			f.ready()
			f.sees(want)
			if f.seen.changes > rounds*10 {
				t.Errorf("%d changes: the log was not compacted", f.seen.changes)
			}
		})
	}
}

// readByBerth reads all there is as Berth's own parts do.
func readByBerth(t *testing.T, brokers []string, topics wire.Topics, want map[compute.InstanceID]compute.Version) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	got := map[compute.InstanceID]compute.Version{}
	r := read.NewReader(kafka.Config{Brokers: brokers, Topics: topics}, read.Options{
		Topic: topics.Instances(), Committed: true,
		Handle: func(b read.Batch) {
			for _, rec := range b.Records {
				inst, err := wire.DecodeInstance(rec)
				if err != nil {
					t.Error(err)
				}
				got[inst.ID] = inst.Version
			}
			if b.End {
				stop()
			}
		},
	})
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-wanted +read:\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
