// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) {
	os.Exit(leaktest.Main(func() int { return kafkatest.Main(m) }))
}

func flavor(name string, axes ...compute.AxisName) wire.Record {
	return wire.EncodeFlavor(compute.Flavor{
		Name: compute.FlavorName(name), Resources: compute.Resources{compute.VCPU: 1}, Capabilities: axes,
	})
}

func noFlavor(name string) wire.Record {
	return wire.Tombstone(wire.KeyFlavor(compute.FlavorName(name)))
}

func axis(name compute.AxisName, values ...compute.AxisValue) wire.Record {
	c := compute.Capability{Axis: name}
	for _, v := range values {
		c.Values = append(c.Values, compute.CapabilityValue{Value: v, Consumes: compute.Resources{"CUSTOM_X": 1}})
	}
	return wire.EncodeCapability(c)
}

func instance(n int, queue string, s compute.State, change ...func(*compute.Instance)) wire.Record {
	i := compute.Instance{ID: compute.InstanceID(fmt.Sprintf("5f0c6f0e-3c41-4a53-9d0b-%012d", n)), Project: "p",
		Version: 1, State: s,
		Queue: compute.QueueName(queue), Boot: compute.Boot{Flavor: "x"}, QueuedAt: time.Now()}
	if s.OnHost() {
		i.Host = "h"
	}
	for _, c := range change {
		c(&i)
	}
	return wire.EncodeInstance(i)
}

func beacon(host string, vcpus int64) wire.Record {
	r := compute.Resources{compute.VCPU: vcpus, "CUSTOM_X": 1}
	return wire.EncodeBeacon(compute.Beacon{
		Host: compute.HostID(host), Inventory: compute.Inventory{Totals: r}, Free: r,
	})
}

// bubble runs a test on virtual time and holds the far end's rules at its end.
func bubble(t *testing.T, f func(t *testing.T, far *far)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		far := newFar()
		f(t, far)
		far.mu.Lock()
		managers := slices.Clone(far.managers)
		far.mu.Unlock()
		for _, m := range managers {
			m.stop(t)
		}
		time.Sleep(time.Minute) // what was late arrives
		for _, b := range far.breaches {
			t.Error("BREACH:", b)
		}
	})
}

// settle lets virtual time pass.
func settle(d time.Duration) { time.Sleep(d); synctest.Wait() }

// has checks the open queues, that each topic is theirs and initialised, and
// that nothing is left over.
func (f *far) has(t *testing.T, want ...compute.QueueName) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var open []compute.QueueName
	for n, q := range f.listed() {
		topic := f.topics[n]
		if q.State == compute.QueueOpen && q.Error == "" && topic != nil && topic.id == q.TopicID &&
			topic.group == q.Group {
			open = append(open, n)
		} else {
			t.Errorf("%s is %+v, its topic %+v", n, q, topic)
		}
	}
	slices.Sort(open)
	slices.Sort(want)
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("open queues (-want +got): %s", diff)
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(f.topics))); diff != "" {
		t.Errorf("topics (-want +got): %s", diff)
	}
}

// list is the queue list; topic one topic, a copy; streams those of hosts.
func (f *far) list() map[compute.QueueName]compute.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed()
}

func (f *far) topic(q compute.QueueName) *topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[q]; t != nil {
		found := *t
		return &found
	}
	return nil
}

func (f *far) streams() map[compute.HostID]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.hosts)
}

// changes are the calls that change something, since the last time asked.
func (f *far) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, d := range f.done {
		op, _, _ := strings.Cut(d, " ")
		if slices.Contains([]string{"create", "init", "write", "delete", "host", "truncate"}, op) {
			out = append(out, d)
		}
	}
	f.done = nil
	return out
}

func TestAQueueIsMadeInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Catalog(), axis("gpu", "a100"), flavor("small", "gpu"))
		settle(time.Minute)
		if got := f.changes(); len(got) > 0 {
			t.Fatalf("worked without being elected: %v", got)
		}
		m.elected <- true
		settle(time.Second) // a new cell is up at once, without Settle
		f.has(t, "small", "small.gpu-a100")
		want := []string{"create small,small.gpu-a100", "init t.agents-0 small,small.gpu-a100", "write small"}
		if diff := cmp.Diff(want, f.changes()); diff != "" {
			t.Error(diff)
		}
		q := f.list()["small.gpu-a100"]
		if q.Resources.String() != "CUSTOM_X=1 VCPU=1" || q.Choices["gpu"] != "a100" || q.Flavor != "small" {
			t.Errorf("%+v", q)
		}
		f.publish(names.Catalog(), axis("gpu", "a100", "h100")) // one more value
		settle(time.Second)
		f.has(t, "small", "small.gpu-a100", "small.gpu-h100")
		f.changes()
		settle(10 * time.Minute)
		if got := f.changes(); len(got) > 0 {
			t.Errorf("not quiet: %v", got)
		}
	})
}

func TestTwentyFiveQueuesInGroupsOfTen(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a", func(o *Options) { o.PerGroup = 10 })
		m.elected <- true
		var want []compute.QueueName
		for i := range 25 {
			f.publish(names.Catalog(), flavor(fmt.Sprintf("f%02d", i)))
			want = append(want, compute.QueueName(fmt.Sprintf("f%02d", i)))
		}
		settle(time.Second)
		f.has(t, want...)
		groups := map[string]int{}
		for _, q := range f.list() {
			groups[q.Group]++
		}
		if diff := cmp.Diff(map[string]int{"t.agents-0": 10, "t.agents-1": 10, "t.agents-2": 5}, groups); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARemovedFlavorClosesDrainsAndGoes(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("old"), flavor("new"))
		settle(time.Second)
		f.publish(names.Instances(), instance(1, "old", compute.StateQueued))
		f.publish(names.Catalog(), noFlavor("old"))
		settle(time.Hour)
		if q := f.list()["old"]; q.State != compute.QueueClosed || f.topic("old") == nil {
			t.Fatalf("%+v", q)
		}
		f.publish(names.Instances(), instance(1, "old", compute.StateStarting))
		settle(time.Hour)
		if f.topic("old") == nil {
			t.Fatal("gone while an instance was starting")
		}
		f.publish(names.Instances(), instance(1, "old", compute.StateActive))
		settle(time.Second)
		f.has(t, "new")
	})
}

// A placeholder may wait for weeks in a queue that is closed. A flavor that is added again as it was has that very
// queue; one that is another by then waits until the placeholder is gone.
func TestAFlavorThatIsAddedAgainWhilePlaceholdersWait(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("q"))
		settle(time.Hour)
		was := f.list()["q"]
		f.publish(names.Instances(), instance(1, "q", compute.StateQueued, func(i *compute.Instance) {
			i.Boot.AsPlaceholder(compute.Placeholder{Of: "r", Size: 1})
			i.PublishAt = time.Now().Add(21 * 24 * time.Hour)
		}))
		f.publish(names.Catalog(), noFlavor("q"))
		settle(time.Hour)
		if q := f.list()["q"]; q.State != compute.QueueClosed {
			t.Fatalf("%+v", q)
		}
		f.publish(names.Catalog(), flavor("q"))
		settle(time.Second)
		if q := f.list()["q"]; q.State != compute.QueueOpen || q.TopicID != was.TopicID || q.Group != was.Group {
			t.Fatalf("%+v, want it open with topic %s in group %s", q, was.TopicID, was.Group)
		}
		f.publish(names.Catalog(), noFlavor("q"), wire.EncodeFlavor(compute.Flavor{
			Name: "q", Resources: compute.Resources{compute.VCPU: 2},
		}))
		settle(time.Hour)
		if q := f.list()["q"]; q.State != compute.QueueClosed || q.TopicID != was.TopicID {
			t.Fatalf("%+v", q)
		}
		f.publish(names.Instances(), instance(1, "q", compute.StateDeleted))
		settle(time.Minute)
		f.has(t, "q")
		if q := f.list()["q"]; q.TopicID == was.TopicID || q.Resources[compute.VCPU] != 2 {
			t.Errorf("%+v", q)
		}
	})
}

// Somebody may admit an instance before having read that the queue is closed.
func TestAClosedQueueIsNotGoneAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("old"))
		settle(time.Second)
		f.publish(names.Catalog(), noFlavor("old"))
		settle(4 * time.Second)
		if f.topic("old") == nil {
			t.Fatal("gone before everybody knew it was closed")
		}
		f.publish(names.Instances(), instance(1, "old", compute.StateQueued))
		settle(time.Minute)
		f.publish(names.Instances(), instance(1, "old", compute.StateDeleted))
		settle(time.Second)
		f.has(t)
	})
}

func TestHostsGetTheirStreams(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Hosts(), beacon("h1", 1))
		m.elected <- true
		refused := 0
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "host" && c.name == "h2" && refused < 3 {
				refused++
				return fault{refuse: errors.New("no")}
			}
			return fault{}
		}
		f.mu.Unlock()
		f.publish(names.Hosts(), beacon("h2", 1), beacon("h3", 1))
		settle(time.Second)
		if diff := cmp.Diff(map[compute.HostID]int{"h1": 1, "h3": 1}, f.streams()); diff != "" {
			t.Error(diff)
		}
		f.publish(names.Hosts(), beacon("h1", 1))
		settle(time.Minute)
		if diff := cmp.Diff(map[compute.HostID]int{"h1": 1, "h2": 1, "h3": 1}, f.streams()); diff != "" {
			t.Error(diff)
		}
	})
}

// One queue that cannot be made keeps no other from being made, says why in its
// record, and is made once it can be.
func TestOneBadQueue(t *testing.T) {
	for _, op := range []string{"create", "init"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				broken := true
				f.fault = func(c call) fault {
					if broken && c.op == op && strings.Contains(c.name, "bad") {
						return fault{refuse: compute.Conflict("topic", "bad", "cannot be made", "make room")}
					}
					return fault{}
				}
				m := f.join(t, "a")
				m.elected <- true
				var want []compute.QueueName
				for i := range 9 {
					f.publish(names.Catalog(), flavor(fmt.Sprintf("f%d", i)))
					want = append(want, compute.QueueName(fmt.Sprintf("f%d", i)))
				}
				f.publish(names.Catalog(), flavor("bad"))
				settle(40 * time.Second)
				for _, q := range want {
					if f.list()[q].TopicID == "" {
						t.Errorf("%s was not made", q)
					}
				}
				if _, told := f.list()["bad"]; told {
					t.Error("given up too soon: whoever asks for it now is refused")
				}
				settle(10 * time.Minute)
				bad := f.list()["bad"]
				if bad.State != compute.QueueClosed || bad.TopicID != "" ||
					!strings.Contains(bad.Error, "cannot be made") {
					t.Errorf("%+v", bad)
				}
				f.mu.Lock()
				broken = false
				f.mu.Unlock()
				settle(2 * time.Minute)
				f.has(t, append(want, "bad")...)
			})
		})
	}
}

func TestATopicMadeAnewIsInitialisedAnew(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Minute)
		f.mu.Lock()
		f.topics["x"] = &topic{id: "other"}
		f.mu.Unlock()
		settle(2 * time.Minute)
		f.has(t, "x")
		if id := f.list()["x"].TopicID; id != "other" {
			t.Error(id)
		}
	})
}
