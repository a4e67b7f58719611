// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/elect"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues"
)

// The manager on a broker: it makes queues in groups, hosts' streams and
// advice, hands over to another one, closes and removes.
func TestOnABroker(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b)
		first := r.manager(t)
		r.publish(t, r.topics.Catalog(), axis("gpu", "a100"), flavor("small", "gpu"), flavor("large"))
		r.publish(t, r.topics.Hosts(), wire.EncodeBeacon(compute.Beacon{Host: "h1",
			Free:      compute.Resources{compute.VCPU: 8},
			Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: 8}}}))
		before := r.await(t, "large", "small", "small.gpu-a100")
		if groups := groupsOf(before); len(groups) != 2 {
			t.Errorf("three queues at two a group are in %v", groups)
		}
		r.initialised(t, before)
		r.awaitHost(t, "h1")

		second := r.manager(t)
		first()
		r.publish(t, r.topics.Catalog(), axis("gpu", "a100", "h100"), wire.Tombstone(wire.KeyFlavor("large")),
			flavor("huge"))
		after := r.await(t, "huge", "small", "small.gpu-a100", "small.gpu-h100")
		r.initialised(t, after)
		for q, ref := range after {
			if old, ok := before[q]; ok && (old.TopicID != ref.TopicID || old.Group != ref.Group) {
				t.Errorf("%s moved: %+v, %+v", q, old, ref)
			}
		}
		r.publish(t, r.topics.Catalog(), flavor("large")) // made anew
		if again := r.await(t, "huge", "large", "small", "small.gpu-a100",
			"small.gpu-h100"); again["large"].TopicID == before["large"].TopicID {
			t.Error("a queue that was gone came back with its old topic")
		}
		r.awaitAdvice(t, "huge")
		second()
	})
}

// rig is one cell on a broker and what its topics say.
type rig struct {
	config   kafka.Config
	topics   wire.Topics
	admin    *kafkaadmin.Admin
	producer *write.Producer

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every record
	listed  map[compute.QueueName]compute.Queue
	advised map[compute.QueueName]bool
}

func newRig(t *testing.T, b kafkatest.Broker) *rig {
	topics := wire.Topics{Prefix: b.Prefix}
	r := &rig{config: kafka.Config{Brokers: b.Addrs, Topics: topics}, topics: topics,
		changed: make(chan struct{}), listed: map[compute.QueueName]compute.Queue{},
		advised: map[compute.QueueName]bool{}}
	var err error
	if r.admin, err = kafkaadmin.New(r.config); err != nil {
		t.Fatal(err)
	}
	if r.producer, err = write.NewProducer(r.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.admin.Close)
	t.Cleanup(r.producer.Close)
	if err := r.admin.EnsureTopics(patient(t), 2, 1); err != nil {
		t.Fatal(err)
	}
	run(t, r.reader(topics.Queues(), func(recs []wire.Record, _ bool) { r.see(recs, r.queue) }))
	run(t, r.reader(topics.Advice(), func(recs []wire.Record, _ bool) { r.see(recs, r.advice) }))
	return r
}

func (r *rig) reader(topic string, to func([]wire.Record, bool)) *read.Reader {
	return read.NewReader(r.config, read.Options{Topic: topic, Handle: func(b read.Batch) { to(b.Records, b.End) }})
}

func (r *rig) see(recs []wire.Record, each func(wire.Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range recs {
		each(rec)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *rig) queue(rec wire.Record) {
	if q, err := wire.DecodeQueue(rec); err == nil {
		r.listed[q.Name] = q
	} else {
		delete(r.listed, compute.QueueName(rec.Key))
	}
}

func (r *rig) advice(rec wire.Record) {
	a, _ := wire.DecodeAdvice(rec)
	for _, about := range a.About {
		r.advised[about.Queue] = true
	}
}

// manager starts a queue manager; it ends when the answer is called.
func (r *rig) manager(t *testing.T) (stop func()) {
	var m *queues.Manager
	readers := syncers{
		r.reader(r.topics.Catalog(), func(recs []wire.Record, end bool) { m.Catalog(recs, end) }),
		r.reader(r.topics.Queues(), func(recs []wire.Record, end bool) { m.Queues(recs, end) }),
		r.reader(r.topics.Hosts(), func(recs []wire.Record, end bool) { m.Hosts(recs, end) }),
		r.reader(r.topics.Instances(), func(recs []wire.Record, end bool) { m.Instances(recs, end) }),
	}
	elector := elect.NewElector(r.config, r.topics.ManagerGroup(), r.topics.Catalog())
	m = queues.New(queues.Options{
		Topics: r.topics, Leader: elector, View: readers, Log: r.producer,
		Far:      queues.Far{Topics: far{r.admin}, Hosts: far{r.admin}, Shares: far{r.admin}},
		PerGroup: 2, CloseFor: 100 * time.Millisecond, Backoff: 100 * time.Millisecond,
	})
	g := service.NewGroup()
	for i, reader := range readers {
		g.Add(fmt.Sprint("reader ", i), reader)
	}
	g.Add("manager", m)
	g.Add("elector", elector)
	return run(t, g)
}

// run starts a part and waits until it is ready.
func run(t *testing.T, p service.Part) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-p.Ready():
	case <-patient(t).Done():
		t.Fatal("not ready")
	}
	return stop
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// syncers are those of catalog, queues, hosts and, last, instances.
type syncers []*read.Reader

func (s syncers) SyncLists(ctx context.Context) error { return s[:len(s)-1].Sync(ctx) }

func (s syncers) Sync(ctx context.Context) error {
	for _, r := range s {
		if err := r.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// far is Kafka in the manager's words.
type far struct{ admin *kafkaadmin.Admin }

func (f far) QueueTopics(ctx context.Context) (map[compute.QueueName]compute.TopicID, error) {
	return f.admin.QueueTopics(ctx)
}

func (f far) MakeQueueTopics(ctx context.Context, q []compute.QueueName) error {
	_, err := f.admin.EnsureQueueTopics(ctx, q, 1)
	return err
}

func (f far) DeleteQueueTopic(ctx context.Context, _ compute.QueueName, id compute.TopicID) error {
	return f.admin.DeleteQueueTopic(ctx, id)
}

func (f far) MakeHostTopic(ctx context.Context, h compute.HostID) error {
	return f.admin.EnsureHostTopic(ctx, h, 1)
}

func (f far) InitShares(ctx context.Context, group string, q []compute.QueueName) error {
	return f.admin.InitShareState(ctx, group, q)
}

func (f far) DeleteBelow(ctx context.Context, below map[compute.QueueName]int64) error {
	return f.admin.DeleteRecordsBelow(ctx, below)
}

func (f far) Progress(ctx context.Context, refs []wire.QueueRef) ([]queues.Progress, error) {
	all, err := f.admin.QueueProgress(ctx, refs)
	var out []queues.Progress
	for _, p := range all {
		out = append(out, queues.Progress{
			TopicID: p.TopicID, Start: p.Start, Written: p.Written, LogStart: p.LogStart, Depth: p.Depth,
			Err: p.Err,
		})
	}
	return out, err
}

func (r *rig) publish(t *testing.T, topic string, recs ...wire.Record) {
	t.Helper()
	for i := range recs {
		recs[i] = recs[i].To(topic, 0)
	}
	if err := r.producer.Send(patient(t), recs...); err != nil {
		t.Fatal(err)
	}
}

// until waits for what the topics say to come true.
func (r *rig) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := patient(t)
	for {
		r.mu.Lock()
		ok, changed := holds(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s; listed are %+v", what, r.listed)
		}
	}
}

// await waits until exactly these queues are listed and open.
func (r *rig) await(t *testing.T, want ...compute.QueueName) map[compute.QueueName]wire.QueueRef {
	t.Helper()
	refs := map[compute.QueueName]wire.QueueRef{}
	r.until(t, fmt.Sprint(want), func() bool {
		clear(refs)
		for n, q := range r.listed {
			if q.State == compute.QueueOpen {
				refs[n] = wire.QueueRef{Name: n, Group: q.Group, TopicID: q.TopicID}
			}
		}
		return len(refs) == len(r.listed) && slices.Equal(want, slices.Sorted(maps.Keys(refs)))
	})
	return refs
}

func (r *rig) awaitAdvice(t *testing.T, q compute.QueueName) {
	t.Helper()
	r.until(t, "advice about "+string(q), func() bool { return r.advised[q] })
}

// awaitHost sends to the host's stream until there is one.
func (r *rig) awaitHost(t *testing.T, h compute.HostID) {
	t.Helper()
	ctx := patient(t)
	for {
		ids, err := r.admin.TopicIDs(ctx, r.topics.Host(h))
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == 1 {
			return
		}
	}
}

// initialised checks that each queue's share state is that of its topic, in its
// group, from the beginning, and that there is no other queue topic.
func (r *rig) initialised(t *testing.T, refs map[compute.QueueName]wire.QueueRef) {
	t.Helper()
	answers, err := r.admin.QueueProgress(patient(t), slices.Collect(maps.Values(refs)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range answers {
		if p.Err != nil || p.Start != 0 || p.TopicID != p.Queue.TopicID {
			t.Errorf("%+v", p)
		}
	}
	want := map[compute.QueueName]compute.TopicID{}
	for n, ref := range refs {
		want[n] = ref.TopicID
	}
	ctx := patient(t)
	for { // a topic goes after its record
		there, err := r.admin.QueueTopics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if maps.Equal(want, there) {
			return
		}
	}
}

func groupsOf(refs map[compute.QueueName]wire.QueueRef) []string {
	var out []string
	for _, ref := range refs {
		out = append(out, ref.Group)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func flavor(name string, axes ...compute.AxisName) wire.Record {
	return wire.EncodeFlavor(compute.Flavor{
		Name: compute.FlavorName(name), Resources: compute.Resources{compute.VCPU: 1}, Capabilities: axes,
	})
}

func axis(name compute.AxisName, values ...compute.AxisValue) wire.Record {
	c := compute.Capability{Axis: name}
	for _, v := range values {
		c.Values = append(c.Values, compute.CapabilityValue{Value: v})
	}
	return wire.EncodeCapability(c)
}
