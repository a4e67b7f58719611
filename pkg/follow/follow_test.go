// SPDX-License-Identifier: Apache-2.0

package follow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/followtest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

const partitions = 3

// eachWay runs a suite for every follower on both brokers, each with a topic of
// its own that is not made yet.
func eachWay(t *testing.T, suite func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics)) {
	t.Helper()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for _, w := range followtest.All() {
			t.Run(w.Name, func(t *testing.T) { suite(t, b, w, wire.Topics{Prefix: b.Prefix + w.Name + "."}) })
		}
	})
}

// table is what a follower has said.
type table struct {
	mu       sync.Mutex
	versions map[compute.InstanceID]compute.Version
	changes  int
	removed  int
	errs     []error
	caughtUp bool
	news     chan struct{} // closed and replaced with every batch
}

func (tb *table) take(b follow.Batch) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, c := range b.Changes {
		tb.changes++
		switch {
		case c.Err != nil:
			tb.errs = append(tb.errs, c.Err)
		case c.Removed():
			tb.removed++
			delete(tb.versions, c.ID)
		default:
			if c.Instance.Version <= tb.versions[c.ID] || c.Instance.ID != c.ID || c.Instance.Project != c.Project {
				tb.errs = append(tb.errs,
					fmt.Errorf("%s: version %d after %d", c.ID, c.Instance.Version, tb.versions[c.ID]))
			}
			tb.versions[c.ID] = c.Instance.Version
		}
	}
	tb.caughtUp = tb.caughtUp || b.CaughtUp
	close(tb.news)
	tb.news = make(chan struct{})
}

// following is a follower under test.
type following struct {
	*follow.Follower
	t     *testing.T
	seen  *table
	ended <-chan error
}

func start(t *testing.T, brokers []string, w followtest.Way, topics wire.Topics) *following {
	t.Helper()
	seen := &table{versions: map[compute.InstanceID]compute.Version{}, news: make(chan struct{})}
	f := w.New(t, brokers, follow.Options{Topics: topics, Handle: seen.take, Wait: 500 * time.Millisecond})
	return &following{Follower: f, t: t, seen: seen, ended: followtest.Start(t, f)}
}

// ready returns when the follower says that it has caught up.
func (f *following) ready() {
	f.t.Helper()
	select {
	case <-f.Ready():
	case err := <-f.ended:
		f.t.Fatalf("the follower ended: %v", err)
	case <-time.After(5 * time.Minute):
		f.t.Fatal("the follower never caught up")
	}
	f.seen.mu.Lock()
	defer f.seen.mu.Unlock()
	if !f.seen.caughtUp {
		f.t.Error("ready, and no batch said so")
	}
}

// sees returns when exactly these versions are known.
func (f *following) sees(want map[compute.InstanceID]compute.Version) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		f.seen.mu.Lock()
		diff, news, errs := cmp.Diff(want, f.seen.versions), f.seen.news, f.seen.errs
		f.seen.mu.Unlock()
		if len(errs) > 0 {
			f.t.Fatal(errs)
		}
		if diff == "" {
			return
		}
		select {
		case <-news:
		case err := <-f.ended:
			f.t.Fatalf("the follower ended: %v", err)
		case <-ctx.Done():
			f.t.Fatalf("-wanted +known:\n%s", diff)
		}
	}
}

// versions is what is wanted of n instances of some projects.
func versions(v compute.Version, all ...compute.Instance) map[compute.InstanceID]compute.Version {
	m := map[compute.InstanceID]compute.Version{}
	for _, i := range all {
		m[i.ID] = v
	}
	return m
}

func instances(n int, v compute.Version) []compute.Instance {
	var all []compute.Instance
	for i := range n {
		all = append(all, followtest.Instance(compute.Project(fmt.Sprintf("p%d", i%7)), i, v))
	}
	return all
}

func TestFromTheStartThenTheTail(t *testing.T) {
	eachWay(t, func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics) {
		followtest.Topic(t, b.Addrs, topics.Instances(), partitions, 1, nil)
		writer := followtest.NewWriter(t, b.Addrs, topics, partitions, "conductor")
		for v := range compute.Version(3) {
			writer.Write(instances(40, v+1)...)
		}
		f := start(t, b.Addrs, w, topics)
		f.ready()
		f.sees(versions(3, instances(40, 3)...))
		writer.Write(instances(50, 4)...)
		f.sees(versions(4, instances(50, 4)...))
		gone := instances(50, 4)[0]
		writer.Begin(wire.Takeover("conductor"), wire.Tombstone(wire.KeyInstance(gone.Project, gone.ID)),
			wire.Takeover("conductor"))
		writer.Commit()
		f.sees(versions(4, instances(50, 4)[1:]...))
		if f.seen.changes != 3*40+50+1 || f.seen.removed != 1 {
			t.Errorf("%d changes and %d removals were handed over", f.seen.changes, f.seen.removed)
		}
	})
}

// What was aborted is never seen, wherever it lies: first, between, last, and
// between the records of a transaction that is committed.
func TestAbortedIsNeverSeen(t *testing.T) {
	eachWay(t, func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics) {
		followtest.Topic(t, b.Addrs, topics.Instances(), partitions, 1, nil)
		one := followtest.NewWriter(t, b.Addrs, topics, partitions, "conductor-1")
		two := followtest.NewWriter(t, b.Addrs, topics, partitions, "conductor-2")
		write := func(v compute.Version) {
			one.Abort(instances(20, v+100)...)
			one.Write(instances(20, v)...)
			one.Begin(wire.EncodeInstance(instances(1, v+1)[0]))
			two.Begin(wire.EncodeInstance(instances(2, v+100)[1]), wire.EncodeInstance(instances(1, v+100)[0]))
			one.More(wire.EncodeInstance(instances(2, v+1)[1]))
			two.Undo()
			one.Commit()
			two.Abort(instances(20, v+200)...)
		}
		want := func(v compute.Version) map[compute.InstanceID]compute.Version {
			m := versions(v, instances(20, v)...)
			for _, i := range instances(2, v) {
				m[i.ID] = v + 1
			}
			return m
		}
		write(1)
		f := start(t, b.Addrs, w, topics)
		f.ready()
		f.sees(want(1))
		write(5)
		one.Write(instances(20, 7)...)
		f.sees(versions(7, instances(20, 7)...))
		if f.seen.changes != 20+2+20+2+20 {
			t.Errorf("%d changes were handed over", f.seen.changes)
		}
	})
}

// A transaction that is not decided yet holds up what is behind it, and the
// word that all has been read.
func TestAnOpenTransactionIsAwaited(t *testing.T) {
	eachWay(t, func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics) {
		followtest.Topic(t, b.Addrs, topics.Instances(), partitions, 1, nil)
		writer := followtest.NewWriter(t, b.Addrs, topics, partitions, "conductor")
		writer.Write(instances(5, 1)...)
		late := followtest.Instance("p0", 99, 1)
		writer.Begin(wire.EncodeInstance(late))
		f := start(t, b.Addrs, w, topics)
		f.sees(versions(1, instances(5, 1)...))
		select {
		case <-f.Ready():
			t.Error("caught up before an open transaction was decided")
		default:
		}
		writer.Commit()
		f.ready()
		f.sees(versions(1, append(instances(5, 1), late)...))
	})
}

func TestAnEmptyTopicAndOneThatIsMadeLater(t *testing.T) {
	eachWay(t, func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics) {
		f := start(t, b.Addrs, w, topics)
		followtest.Topic(t, b.Addrs, topics.Instances(), partitions, 1, nil)
		f.ready()
		f.sees(map[compute.InstanceID]compute.Version{})
		followtest.NewWriter(t, b.Addrs, topics, partitions, "conductor").Write(instances(3, 1)...)
		f.sees(versions(1, instances(3, 1)...))
	})
}

// A record that cannot be read is told of, and those behind it are read.
func TestARecordThatCannotBeRead(t *testing.T) {
	eachWay(t, func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics) {
		followtest.Topic(t, b.Addrs, topics.Instances(), 1, 1, nil)
		writer := followtest.NewWriter(t, b.Addrs, topics, 1, "conductor")
		newer := wire.EncodeInstance(followtest.Instance("p0", 1, 1))
		newer.Headers[0].Value = []byte("99")
		noise := wire.EncodeInstance(followtest.Instance("p0", 3, 1))
		noise.Value = []byte("\xff noise")
		writer.Begin(newer, noise, wire.EncodeInstance(followtest.Instance("p0", 2, 1)))
		writer.Commit()
		f := start(t, b.Addrs, w, topics)
		f.ready()
		f.seen.mu.Lock()
		defer f.seen.mu.Unlock()
		if len(f.seen.errs) != 2 || f.seen.changes != 3 || len(f.seen.versions) != 1 {
			t.Errorf("%v of %d changes, known: %v", f.seen.errs, f.seen.changes, f.seen.versions)
		}
	})
}

// A topic that was deleted and made again is another log: going on would show
// what does not exist.
func TestATopicMadeAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, b kafkatest.Broker, w followtest.Way, topics wire.Topics) {
		followtest.Topic(t, b.Addrs, topics.Instances(), 1, 1, nil)
		followtest.NewWriter(t, b.Addrs, topics, 1, "conductor").Write(instances(20, 5)...)
		f := start(t, b.Addrs, w, topics)
		f.ready()
		followtest.Delete(t, b.Addrs, topics.Instances())
		followtest.Topic(t, b.Addrs, topics.Instances(), 1, 1, nil)
		followtest.NewWriter(t, b.Addrs, topics, 1, "conductor-2").Write(instances(3, 1)...)
		select {
		case err := <-f.ended:
			if compute.KindOf(err) != compute.KindConflict {
				t.Errorf("%v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("nobody noticed")
		}
	})
}
