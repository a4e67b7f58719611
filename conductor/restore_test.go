// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// live puts some instances into every state.
func live(t *testing.T) *cell {
	k := newCell(t)
	for n, upTo := range []compute.ReportOp{
		1: compute.ReportNone, 2: compute.ReportClaim, 3: compute.ReportStarted, 4: compute.ReportFailed,
		5: compute.ReportGone,
	} {
		if n == 0 {
			continue
		}
		project := compute.Project(fmt.Sprint("p", n%2))
		k.read(k.boot(n, project))
		if upTo != compute.ReportNone {
			k.read(k.report(compute.ReportClaim, n, project, "h1"))
		}
		if upTo == compute.ReportStarted || upTo == compute.ReportFailed || upTo == compute.ReportGone {
			k.read(k.report(upTo, n, project, "h1"))
		}
	}
	k.read(k.bootOf(6, "p0", "m9"), k.requested(compute.Request{Op: compute.OpDelete, Project: "p1", Instance: id(7)}))
	k.read(k.requested(compute.Request{Op: compute.OpReboot, Project: "p1", Instance: id(3), Command: "r1"}))
	return k
}

// same compares all that two conductors know about their records.
func same(t interface{ Errorf(string, ...any) }, a, b *Conductor, projects []compute.Project, ids int) {
	for p := range int32(partitions) {
		for n := range ids {
			if diff := cmp.Diff(a.states[p].Instance(id(n)), b.states[p].Instance(id(n)),
				cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("partition %d, instance %d: %s", p, n, diff)
			}
		}
		if a.states[p].Len() != b.states[p].Len() {
			t.Errorf("partition %d has %d records and %d", p, a.states[p].Len(), b.states[p].Len())
		}
		for _, project := range projects {
			if !a.states[p].Used(project).Equal(b.states[p].Used(project)) {
				t.Errorf("%s uses %s and %s", project, a.states[p].Used(project), b.states[p].Used(project))
			}
		}
	}
}

// TestTakeoverIsEqual: whatever was decided, the state restored from what was
// written is the state that wrote it.
func TestTakeoverIsEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := newCell(t)
		k.c.Hosts(nil, true)
		projects := []compute.Project{"p0", "p1", "p2"}
		for range rapid.IntRange(1, 60).Draw(rt, "turns") {
			var recs []wire.Record
			for range rapid.IntRange(0, 4).Draw(rt, "records") {
				recs = append(recs, k.any(rt, projects))
			}
			k.read(recs...)
			if rapid.IntRange(0, 3).Draw(rt, "pass") == 0 {
				k.pass(rapid.SampledFrom([]time.Duration{
					time.Second, time.Minute, 2 * time.Hour, 400 * time.Hour,
				}).Draw(rt, "time"))
			}
		}
		old := k.c
		k.c = k.conductor(nil)
		k.c.Catalog(offers(), true)
		k.c.Queues([]wire.Record{listed("m1.small")}, true)
		k.gainAll()
		same(rt, old, k.c, projects, 8)
	})
}

// any is a record that might be read.
func (k *cell) any(rt *rapid.T, projects []compute.Project) wire.Record {
	n := rapid.IntRange(0, 7).Draw(rt, "instance")
	p := projects[n%len(projects)]
	if rapid.Bool().Draw(rt, "request") {
		op := compute.RequestOp(rapid.IntRange(1, 5).Draw(rt, "op"))
		if op == compute.OpBoot {
			return k.bootOf(n, p, rapid.SampledFrom([]compute.FlavorName{"m1.small", "m9"}).Draw(rt, "flavor"))
		}
		return k.requested(compute.Request{Op: op, Project: p, Instance: id(n)})
	}
	return k.reported(compute.Report{
		Op: compute.ReportOp(rapid.IntRange(1, 6).Draw(rt, "op")), Host: "h1", Project: p, Instance: id(n),
		Attempt: compute.Attempt(rapid.IntRange(1, 3).Draw(rt, "attempt")), Claim: "c1", Message: "m\xff",
		Class: compute.FailureClass(rapid.IntRange(0, 4).Draw(rt, "class")),
	})
}

// TestOutbox: the next owner sends what follows from records at or behind the
// cursor, each once and in order, and nothing from before.
func TestOutbox(t *testing.T) {
	k := live(t)
	type said struct {
		topic    string
		instance string
	}
	for _, c := range []struct {
		name   string
		cursor func(p int32) int64
		want   []said
	}{
		{"nothing is known", func(int32) int64 { return -1 }, []said{
			{"build.m1.small", string(id(1))}, {"host.h1", string(id(2))}, {"host.h1", string(id(3))},
		}},
		{"all was sent", func(p int32) int64 { return int64(len(k.log[p])) }, nil},
		{
			"all but the last", func(p int32) int64 { return int64(len(k.log[p])) - 1 },
			[]said{{"host.h1", string(id(3))}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []said
			for p := range int32(partitions) {
				for _, e := range k.gain(p, c.cursor(p)).Effects {
					got = append(got, said{e.Record.Topic, string(e.Record.Key)})
				}
			}
			less := func(a, b said) bool { return a.instance < b.instance }
			if diff := cmp.Diff(c.want, got, cmpopts.SortSlices(less), cmp.AllowUnexported(said{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCrashBeforeEffects: a turn is committed, its effects are not sent; the
// next owner sends the very same.
func TestCrashBeforeEffects(t *testing.T) {
	k := newCell(t)
	k.read(k.boot(1, "p"), k.boot(2, "p"))
	p := wire.Partition("p", partitions)
	cursor := int64(len(k.log[p]))
	lost := k.c.Turn(wire.Turn{Now: k.now, Records: []wire.Record{
		k.report(compute.ReportClaim, 1, "p", "h1"), k.boot(3, "p"),
		k.requested(compute.Request{Op: compute.OpDelete, Project: "p", Instance: id(2)}),
	}})
	k.commit(lost)
	k.c.Lose(p)
	again := k.gain(p, cursor)
	if diff := cmp.Diff(lost.Effects, again.Effects, cmp.AllowUnexported(publishTag{})); diff != "" {
		t.Error(diff)
	}
	if len(again.Changes) != 0 {
		t.Errorf("%d changes by loading", len(again.Changes))
	}
}

// TestAbortedTurn: what was decided and not committed is decided again.
func TestAbortedTurn(t *testing.T) {
	k := newCell(t)
	p := wire.Partition("p", partitions)
	boot := k.boot(1, "p")
	first := k.c.Turn(wire.Turn{Now: k.now, Records: []wire.Record{boot}})
	k.c.Lose(p)
	k.gain(p, 0)
	if diff := cmp.Diff(first, k.read(boot), cmp.AllowUnexported(publishTag{})); diff != "" {
		t.Error(diff)
	}
}

// TestPoisonInTheTruth: a record of the instances topic that cannot be read is
// rejected, the others are there.
func TestPoisonInTheTruth(t *testing.T) {
	k := newCell(t)
	k.read(k.boot(1, "p"))
	p := wire.Partition("p", partitions)
	other := compute.Project("q")
	for wire.Partition(other, partitions) == p {
		other += "q"
	}
	stranger := wire.EncodeInstance(compute.Instance{ID: id(9), Project: other, State: compute.StateQueued})
	twin := compute.Project("q")
	for wire.Partition(twin, partitions) != p {
		twin += "q"
	}
	same := wire.EncodeInstance(compute.Instance{
		ID: id(1), Project: twin, State: compute.StateQueued, Resources: compute.Resources{compute.VCPU: 1},
	})
	k.log[p] = append(k.log[p],
		wire.Record{Key: []byte("garbage"), Value: []byte("?"), Offset: 1, Topic: "instances", Partition: p},
		wire.Record{Key: []byte("gone"), Value: []byte("?"), Offset: 2}, wire.Record{Key: []byte("gone"), Offset: 3},
		wire.Record{Key: stranger.Key, Value: stranger.Value, Offset: 4, Partition: p},
		wire.Record{Value: same.Value, Offset: 5, Partition: p},
		wire.Record{Key: same.Key, Value: same.Value, Offset: 6, Partition: p})
	var at []int64
	for _, rec := range k.gain(p, -1).Rejects {
		rejected, err := wire.DecodeRejected(rec)
		if err != nil || rejected.Reason.Detail == "" {
			t.Errorf("%+v, %v", rejected, err)
		}
		at = append(at, rejected.Offset)
	}
	if diff := cmp.Diff([]int64{1, 2, 4, 5, 6}, at); diff != "" || k.c.states[p].Len() != 1 {
		t.Errorf("%d records; rejected (-want +got):\n%s", k.c.states[p].Len(), diff)
	}
}

// TestRecordsOfALaterSchema: a conductor decides nothing about a partition whose records it cannot read. It would
// give back their quota, deny their claims, and write deleted over a machine that runs.
func TestRecordsOfALaterSchema(t *testing.T) {
	k := newCell(t)
	k.read(k.boot(1, "p"), k.report(compute.ReportClaim, 1, "p", "h1"), k.report(compute.ReportStarted, 1, "p", "h1"))
	p := wire.Partition("p", partitions)
	of := k.log[p]
	later := of[len(of)-1]
	later.Offset = int64(len(of))
	for i, h := range later.Headers {
		if h.Key == wire.HeaderSchema {
			later.Headers = slices.Clone(later.Headers)
			later.Headers[i].Value = []byte(fmt.Sprint(wire.Schema + 1))
		}
	}
	k.log[p] = append(of, later)
	k.c = k.conductor(nil)
	k.c.Catalog(offers(), true)
	k.c.Queues([]wire.Record{listed("m1.small")}, true)
	res := k.gain(p, -1)
	if res.Aside == nil || !strings.Contains(res.Aside.Message,
		fmt.Sprintf("the first at offset %d", later.Offset)) || res.Aside.Remedy == "" {
		t.Fatalf("it is set aside for %+v", res.Aside)
	}
	if len(res.Effects)+len(res.Changes)+len(res.Rejects) != 0 || k.c.states[p] != nil {
		t.Errorf("it decides nevertheless: %+v", res)
	}
	k.c.Lose(p)
	if res := k.gain((p+1)%partitions, -1); res.Aside != nil || k.c.states[(p+1)%partitions] == nil {
		t.Errorf("another partition is set aside: %v", res.Aside)
	}
	// Written once more by this version, or gone: it can go on.
	for _, rec := range []wire.Record{of[len(of)-1], wire.Tombstone(later.Key)} {
		k.log[p] = append(slices.Clone(of), later, rec)
		if res := k.gain(p, -1); res.Aside != nil || k.c.states[p] == nil {
			t.Errorf("it is set aside still: %v", res.Aside)
		}
	}
}

// TestNewsIsNotLostOnAPartitionThatIsSetAside: what happened in the world is told to all other partitions, though
// nothing that comes of the partition which cannot be decided about counts.
func TestNewsIsNotLostOnAPartitionThatIsSetAside(t *testing.T) {
	k := newCell(t)
	k.c = k.conductor(nil)
	k.c.Catalog(offers(), true)
	k.c.Queues(nil, true)
	p := wire.Partition("p", partitions)
	k.gain(p, -1)
	if k.read(k.boot(1, "p")); len(k.sent) != 0 {
		t.Fatalf("published to a queue that is not listed: %v", k.sent)
	}
	k.c.Queues([]wire.Record{listed("m1.small")}, true)
	other := (p + 1) % partitions
	rec := k.log[p][0]
	rec.Partition, rec.Offset = other, 0
	rec.Headers = slices.Clone(rec.Headers)
	for i, h := range rec.Headers {
		if h.Key == wire.HeaderSchema {
			rec.Headers[i].Value = []byte(fmt.Sprint(wire.Schema + 1))
		}
	}
	k.log[other] = []wire.Record{rec}
	if res := k.gain(other, -1); res.Aside == nil {
		t.Fatal("it is not set aside")
	}
	k.c.Lose(other)
	if k.turn(wire.Turn{}); len(k.sent) != 1 {
		t.Errorf("%d effects since the queue is listed, want its work", len(k.sent))
	}
}

// TestNotOwned: what is not owned is not decided, and does no harm.
func TestNotOwned(t *testing.T) {
	k := newCell(t)
	k.c.Lose(wire.Partition("p", partitions))
	if res := k.read(k.boot(1, "p")); len(res.Changes)+len(res.Rejects)+len(res.Effects) != 0 {
		t.Errorf("decided for somebody else's partition: %+v", res)
	}
	k.c.Restore(99, wire.Record{})
	if res := k.c.Restored(99, -1, k.now); len(res.Effects) != 0 {
		t.Error("effects of a partition that was never gained")
	}
}

// TestWorkThatAwaitedItsQueueIsPublishedAtATakeover: at once, though nothing else happens in the partition.
func TestWorkThatAwaitedItsQueueIsPublishedAtATakeover(t *testing.T) {
	k := newCell(t)
	k.c.Hosts(nil, true)
	k.read(k.boot(1, "p"))
	rec := listed("m1.small")
	rec.Time, rec.Logged = k.now.Add(time.Second), true
	k.c = k.conductor(nil)
	k.c.Hosts(nil, true)
	k.c.Catalog(offers(), true)
	k.c.Queues([]wire.Record{rec}, true)
	var topics []string
	for p := range int32(partitions) {
		for _, e := range k.gain(p, int64(len(k.log[p]))).Effects {
			topics = append(topics, e.Record.Topic)
		}
	}
	if diff := cmp.Diff([]string{"build.m1.small"}, topics); diff != "" {
		t.Errorf("sent (-want +got): %s", diff)
	}
}
