// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/ring"
)

const highTier compute.QueueName = "q.priority-high"

// A tier is made when an instance needs it first, stays when none does any more, is made anew by a manager that finds
// instances which need it, and goes with its queue, drained.
func TestATierIsMadeWhenItIsNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("q"))
		settle(time.Second)
		f.has(t, "q")
		f.publish(names.Instances(), instance(1, string(highTier), compute.StateQueued),
			instance(2, "gone.priority-low", compute.StateQueued))
		settle(time.Second)
		f.has(t, "q", highTier)
		if q := f.list()[highTier]; q.Priority != compute.PriorityHigh || q.Flavor != "q" {
			t.Errorf("%+v", q)
		}
		f.publish(names.Instances(), instance(1, string(highTier), compute.StateDeleted))
		settle(time.Hour)
		f.has(t, "q", highTier)
		m.elected <- false
		f.publish(names.Instances(), instance(3, "q.priority-low", compute.StateQueued))
		f.join(t, "b").elected <- true
		settle(time.Minute)
		f.has(t, "q", highTier, "q.priority-low")
		f.publish(names.Catalog(), noFlavor("q"))
		settle(time.Hour)
		if q := f.list()["q.priority-low"]; q.State != compute.QueueClosed ||
			f.topic("q.priority-low") == nil || f.topic("q") != nil {
			t.Errorf("%+v", q)
		}
		f.publish(names.Instances(), instance(3, "q.priority-low", compute.StateDeleted))
		settle(time.Minute)
		f.has(t)
	})
}

// A queue of the catalog that has the name of a tier is that queue, and there is no more than may be.
func TestTiersThatAreNotMade(t *testing.T) {
	o := Options{MostQueues: 3}.withDefaults()
	v := newView(o)
	v.unreadable = func(wire.Record, error) {}
	now := time.Unix(0, 0)
	for _, rec := range []wire.Record{flavor("q"), flavor("q.priority-high")} {
		v.catalog(rec, now)
	}
	for n, q := range []compute.QueueName{highTier, "q.priority-low", "q.priority-high.priority-high"} {
		if !v.instance(instance(n, string(q), compute.StateQueued), now).lacks {
			t.Errorf("%s is not missed", q)
		}
	}
	var got []compute.QueueName
	for _, q := range v.wantedQueues() {
		got = append(got, q.Name)
		if q.Name == highTier && q.Priority != compute.PriorityNormal {
			t.Errorf("%+v", q)
		}
	}
	if len(got) != 3 {
		t.Errorf("%v are wanted of at most 3", got)
	}
}

// Of several rings the ones for what ranks first come first, and say since when that waits.
func TestRingsByRank(t *testing.T) {
	v := newView(Options{}.withDefaults())
	v.unreadable = func(wire.Record, error) {}
	now := time.Unix(100_000, 0)
	var rings []ring.Ring
	for n, q := range []compute.QueueName{"q.priority-low", "empty", "q", highTier} {
		_, p := compute.SplitTier(q)
		v.listed[q] = compute.Queue{Name: q, Priority: p}
		if q != "empty" {
			v.add(string(rune('a'+n)), need{queue: q, waiting: true, due: now.Add(-time.Minute)})
		}
		rings = append(rings, ring.Ring{Host: "h", Look: compute.Look{Queue: q}})
	}
	var got []compute.QueueName
	for _, r := range v.ranked(rings, now) {
		got = append(got, r.Look.Queue)
		if r.Look.Oldest.IsZero() != (r.Look.Queue == "empty") {
			t.Errorf("%+v", r)
		}
	}
	if want := []compute.QueueName{highTier, "q", "q.priority-low", "empty"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	v.add("old", need{queue: "q.priority-low", waiting: true, due: now.Add(-time.Hour)})
	if r := v.ranked(rings, now)[0]; r.Look.Queue != "q.priority-low" {
		t.Errorf("low work of an hour ago is behind %s", r.Look.Queue)
	}
}

// What has waited for its tier is rung for at once when that is listed, though rounds before then were all in vain.
func TestATierThatIsListedLateIsRungFor(t *testing.T) {
	v := newView(Options{}.withDefaults())
	v.unreadable = func(wire.Record, error) {}
	now := time.Unix(100_000, 0)
	v.add("a", need{queue: highTier, waiting: true, due: now})
	v.ringer.Came(highTier, ring.Work{Key: "a", Due: now}, now)
	for v.ringer.Next().Sub(now) < 10*time.Second { // rounds in vain are ever longer apart
		now = now.Add(250 * time.Millisecond)
		v.ringer.Rings(now)
	}
	v.queue(wire.EncodeQueue(compute.Queue{
		Name: highTier, Flavor: "q", Priority: compute.PriorityHigh, Resources: compute.Resources{compute.VCPU: 1},
		TopicID: "AAAAAAAAAAAAAAAAAAAAAQ", Group: "g",
	}), now)
	if next := v.ringer.Next(); next.Sub(now) > time.Second {
		t.Errorf("the next round is due in %s", next.Sub(now))
	}
}
