package follow_test

import (
	"context"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow/followtest"
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
		v++
		writer.Write(instances(30, v)...)
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

// Compaction leaves holes, also at the end; every follower gets over them.
func TestACompactedLog(t *testing.T) {
	t.Skip("known fault, see README: with delete.retention.ms=0 a follower may miss the newest committed versions")
	c := kafkatest.StartT(t, kafkatest.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	topics := wire.Topics{Prefix: "f."}
	followtest.Topic(t, c.Addrs(), topics.Instances(), 1, 1, map[string]string{
		"segment.bytes": "1048576", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
	})
	writer := followtest.NewWriter(t, c.Addrs(), topics, 1, "conductor")
	const rounds = 30
	for v := range compute.Version(rounds) {
		writer.Abort(instances(10, v+500)...)
		writer.Write(instances(10, v+1)...)
	}
	fewest := func(ctx context.Context) bool { // how much is left is seen by a reader alone
		return len(followtest.Raw(ctx, t, c.Addrs(), topics.Instances())) < rounds*10/2
	}
	followtest.Await(t, "the log is compacted", fewest)
	for _, w := range followtest.All() {
		t.Run(w.Name, func(t *testing.T) {
			f := start(t, c.Addrs(), w, topics)
			f.ready()
			f.sees(versions(rounds, instances(10, rounds)...))
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
