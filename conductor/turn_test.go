// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func topics(effects []wire.Effect) []string {
	var list []string
	for _, e := range effects {
		list = append(list, fmt.Sprintf("%s/%d", e.Record.Topic, e.Record.Partition))
	}
	return list
}

func TestBootEndToEnd(t *testing.T) {
	k := newCell(t)
	res := k.read(k.boot(1, "p"))
	if diff := cmp.Diff([]string{"build.m1.small/0"}, topics(res.Effects)); diff != "" {
		t.Fatal(diff)
	}
	build, err := wire.DecodeBuild(res.Effects[0].Record)
	if err != nil || build.Instance != id(1) || build.Trace == "" || len(build.UserData) != 1 ||
		res.Effects[0].Partition != wire.Partition("p", partitions) {
		t.Fatalf("%+v, %v", build, err)
	}
	if rec := res.Changes[0]; rec.Partition != wire.Partition("p", partitions) || rec.Topic != "instances" {
		t.Fatalf("written to %s/%d", rec.Topic, rec.Partition)
	}
	res = k.read(k.report(compute.ReportClaim, 1, "p", "h1"))
	if diff := cmp.Diff([]string{"host.h1/0"}, topics(res.Effects)); diff != "" {
		t.Fatal(diff)
	}
	grant, err := wire.DecodeCommand(res.Effects[0].Record)
	if err != nil || grant.Op != compute.CommandGrant || grant.Claim != "c1" || grant.Trace == "" ||
		res.Effects[0].Tag != nil {
		t.Fatalf("%+v, %v", grant, err)
	}
	k.read(k.report(compute.ReportStarted, 1, "p", "h1"))
	k.want("p", 1, compute.StateActive, "")
	k.read(k.requested(compute.Request{Op: compute.OpDelete, Project: "p", Instance: id(1)}))
	k.read(k.report(compute.ReportGone, 1, "p", "h1"))
	k.want("p", 1, compute.StateDeleted, "")
	if data := k.last("p", 1).Boot.UserData; data != "" {
		t.Errorf("kept user data of a deleted instance: %v", data)
	}
	if used := k.c.states[wire.Partition("p", partitions)].Used("p"); !used.IsZero() {
		t.Errorf("still used: %s", used)
	}
	k.pass(16 * 24 * time.Hour)
	if last := k.log[wire.Partition("p", partitions)]; last[len(last)-1].Value != nil {
		t.Error("no tombstone after the retention")
	}
}

func TestWakeIsTheFirstTimer(t *testing.T) {
	k := newCell(t)
	if res := k.read(); !res.Wake.IsZero() {
		t.Errorf("wakes at %v for nothing", res.Wake)
	}
	if res := k.read(k.boot(1, "p"), k.boot(2, "other")); !res.Wake.Equal(epoch.Add(compute.DefaultDeadline)) {
		t.Errorf("wakes at %v", res.Wake)
	}
	if res := k.read(k.report(compute.ReportClaim, 2, "other", "h1")); !res.Wake.Equal(epoch.Add(15 * time.Second)) {
		t.Errorf("wakes at %v", res.Wake)
	}
}

// TestTimersWaitForInputs: only partitions that were read to their ends.
func TestTimersWaitForInputs(t *testing.T) {
	k := newCell(t)
	k.read(k.boot(1, "p"))
	k.now = k.now.Add(2 * time.Hour)
	p := wire.Partition("p", partitions)
	k.turn(wire.Turn{TimersUntil: map[int32]time.Time{(p + 1) % partitions: k.now}})
	k.turn(wire.Turn{TimersUntil: map[int32]time.Time{p: epoch.Add(time.Minute)}})
	k.want("p", 1, compute.StateQueued, "")
	k.turn(wire.Turn{
		Records:     []wire.Record{k.report(compute.ReportClaim, 1, "p", "h1")},
		TimersUntil: map[int32]time.Time{p: k.now},
	})
	k.want("p", 1, compute.StateStarting, "")
}

// TestPoison: whatever cannot be read or lies in the wrong place is kept with
// the reason, and nothing stops.
func TestPoison(t *testing.T) {
	k := newCell(t)
	good := k.boot(1, "p")
	p := good.Partition
	with := func(rec wire.Record, f func(*wire.Record)) wire.Record { f(&rec); return rec }
	poison := []wire.Record{
		k.place(wire.Record{Key: []byte("p"), Value: []byte("{nonsense")}, "requests", p),
		k.place(wire.Record{Key: []byte("p")}, "requests", p),
		k.place(wire.Record{Key: []byte("p"), Value: []byte{0xff, 0xff}}, "reports", p),
		with(k.boot(2, "p"), func(r *wire.Record) { r.Partition = (p + 1) % partitions }),
		with(k.report(compute.ReportClaim, 1, "p", "h1"), func(r *wire.Record) { r.Partition = (p + 1) % partitions }),
		with(k.boot(3, "p"), func(r *wire.Record) {
			r.Headers = []wire.Header{{Key: wire.HeaderSchema, Value: []byte("99")}}
		}),
		with(k.boot(4, "p"), func(r *wire.Record) { r.Topic = "elsewhere" }),
		k.place(wire.Record{Key: []byte("p"), Value: make([]byte, compute.MaxRejectedValue+7)}, "requests", p),
		k.requested(compute.Request{Op: compute.OpStop, Project: "p", Instance: id(77)}),
		k.place(wire.Record{Value: []byte{}, Unread: errors.New("it unpacks to too much")}, "requests", p),
		k.place(wire.Record{Value: []byte{}, Unread: errors.New("it unpacks to too much")}, "reports", p),
	}
	k.read(append(poison, good)...)
	if len(k.bad) != len(poison) {
		t.Errorf("%d rejects for %d poisonous records", len(k.bad), len(poison))
	}
	for i, rec := range k.bad {
		r, err := wire.DecodeRejected(rec)
		if err != nil {
			t.Fatal(err)
		}
		in := poison[i]
		if rec.Topic != "rejected" || rec.Partition != in.Partition || r.Topic != in.Topic ||
			r.Partition != in.Partition || r.Offset != in.Offset ||
			r.Reason.Code != compute.Malformed || r.Reason.Detail == "" || len(r.Value) > compute.MaxRejectedValue {
			t.Errorf("poison %d is rejected as %+v in %s/%d", i, r, rec.Topic, rec.Partition)
		}
		if in.Topic == "reports" && !bytes.Equal(r.Value, in.Value) || in.Topic != "reports" && r.Value != nil {
			t.Errorf("poison %d in %s is rejected with the value %q", i, in.Topic, r.Value)
		}
	}
	k.want("p", 1, compute.StateQueued, "")
	if n := k.c.states[p].Len(); n != 1 {
		t.Errorf("%d records", n)
	}
}

// TestEverywhere: what is written to every partition is at home in each.
func TestEverywhere(t *testing.T) {
	k := newCell(t)
	k.c.Hosts(nil, true)
	k.read(k.boot(1, "p"), k.report(compute.ReportClaim, 1, "p", "h1"))
	for p := range int32(partitions) {
		k.read(
			k.place(wire.EncodeReport(compute.Report{Op: compute.ReportHello, Host: "h1", Journal: "j1"}),
				"reports", p),
			k.place(wire.EncodeRequest(compute.Request{Op: compute.OpFence, Host: "h1"}), "requests", p),
			k.place(wire.EncodeRequest(compute.Request{Op: compute.OpForget, Host: "h1"}), "requests", p),
		)
	}
	if len(k.bad) != 0 {
		t.Errorf("%d rejects", len(k.bad))
	}
	if inst := k.last("p", 1); inst.State != compute.StateQueued || inst.Attempt != 2 {
		t.Errorf("%s, attempt %d", inst.State, inst.Attempt)
	}
}

// TestRefusedBootCanBeRead: whatever a publisher asks for that writes to Kafka itself, the record of it can be read.
func TestRefusedBootCanBeRead(t *testing.T) {
	k := newCell(t)
	with := compute.Choices{}
	for n := range compute.MaxChoices {
		with[compute.AxisName(fmt.Sprintf("a%031d", n))] = compute.AxisValue(strings.Repeat("v", 32))
	}
	boot := compute.Boot{Flavor: compute.FlavorName(strings.Repeat("f", 64)), Name: "web", With: with}
	res := k.read(k.requested(compute.Request{Op: compute.OpBoot, Project: "p", Instance: id(1), Boot: &boot}))
	if len(res.Changes) != 1 {
		t.Fatalf("%d changes, %d are rejected", len(res.Changes), len(res.Rejects))
	}
	if i, err := wire.DecodeInstance(res.Changes[0]); err != nil || i.State != compute.StateError ||
		len(i.Queue) > compute.MaxQueueName {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestManyAtOnce: a batch of 10,000 for one project with quota for 8,000, of which a few are published at once.
func TestManyAtOnce(t *testing.T) {
	k := newCell(t)
	var recs []wire.Record
	for n := range 10_000 {
		recs = append(recs, k.boot(n, "rich"))
	}
	res := k.read(recs...)
	if len(res.Changes) != 10_000 || len(res.Effects) != admit.Defaults().ShareLeast || len(res.Rejects) != 0 {
		t.Fatalf("%d changes, %d effects, %d rejects", len(res.Changes), len(res.Effects), len(res.Rejects))
	}
	k.want("rich", 7_999, compute.StateQueued, "")
	k.want("rich", 8_000, compute.StateError, compute.QuotaExceeded)
	s := k.c.states[wire.Partition("rich", partitions)]
	if used := s.Used("rich"); used[compute.Instances] != 8_000 || used[compute.VCPU] != 8_000 {
		t.Errorf("used: %s", used)
	}
	var claims []wire.Record
	for n := range 8_000 {
		claims = append(claims, k.report(compute.ReportClaim, n, "rich", compute.HostID(fmt.Sprint("h", n%100))))
	}
	if res := k.read(append(claims, claims...)...); len(res.Changes) != 8_000 ||
		len(res.Effects) != 24_000-admit.Defaults().ShareLeast {
		t.Errorf("%d changes, %d effects", len(res.Changes), len(res.Effects))
	}
}

// TestMostEnded: of a project that is refused on and on, no more is kept than the conductor is told to keep.
func TestMostEnded(t *testing.T) {
	k := newCell(t)
	k.c = New(Config{Partitions: partitions, MaxEnded: 2, Now: k.own}, k.c.deps)
	k.c.Catalog(offers(), true)
	k.c.Queues(nil, true)
	k.gainAll()
	for n := range 5 {
		k.read(k.bootOf(n, "p", "none"))
	}
	p := wire.Partition("p", partitions)
	last := k.log[p][len(k.log[p])-1]
	if n := k.c.states[p].Len(); n != 2 || last.Value != nil ||
		string(last.Key) != string(wire.KeyInstance("p", id(2))) {
		t.Errorf("%d are kept; the last record is of %s, and a tombstone: %t", n, last.Key, last.Value == nil)
	}
	if data := k.last("p", 4).Boot.UserData; data != "" {
		t.Errorf("a refused boot keeps its user data: %v", data)
	}
}

// TestSent: what became of a publication comes back to the instance.
func TestSent(t *testing.T) {
	k := newCell(t)
	res := k.read(k.boot(1, "p"), k.boot(2, "p"), k.boot(3, "p"))
	k.c.Queues([]wire.Record{listedAs("m1.small", compute.QueueClosed)}, true)
	k.turn(wire.Turn{Sent: []wire.Sent{
		{Tag: res.Effects[0].Tag, Offset: 7},
		{Tag: res.Effects[1].Tag, Err: fmt.Errorf("produce: %w", wire.ErrNoTopic)},
		{Tag: res.Effects[2].Tag, Err: context.DeadlineExceeded},
		{Tag: "somebody else's"},
	}})
	k.want("p", 1, compute.StateQueued, "")
	k.want("p", 2, compute.StateError, compute.QueueClosedReason)
	res = k.pass(31 * time.Second)
	if diff := cmp.Diff([]string{"build.m1.small/0"}, topics(res.Effects)); diff != "" {
		t.Errorf("only the third is published again: %s", diff)
	}
	k.c.Lose(wire.Partition("p", partitions))
	k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Offset: 8}}})
}

// TestCatalogIsReadBeforeRefusing: a flavor that was already added is never
// TestEpochBeyondTheStream: a claim says under which fence it was made, and may say anything. What a fence
// spares for it, it spares only until the host's stream is known to be shorter.
func TestEpochBeyondTheStream(t *testing.T) {
	k := newCell(t)
	k.c.Hosts(nil, true)
	k.read(k.boot(1, "p"))
	claim := compute.Report{
		Op: compute.ReportClaim, Host: "h1", Project: "p", Instance: id(1), Attempt: 1, Claim: "c1",
		Fence: 1 << 62,
	}
	k.read(k.reported(claim))
	k.read(k.report(compute.ReportStarted, 1, "p", "h1"))
	res := k.read(k.place(wire.EncodeRequest(compute.Request{Op: compute.OpFence, Host: "h1", Fence: 8}),
		"requests", wire.Partition("p", partitions)))
	k.want("p", 1, compute.StateActive, "")
	if len(res.Effects) != 1 || res.Effects[0].Tag == nil || res.Effects[0].Record.Topic != "host.h1" {
		t.Fatalf("it does not ask where the stream ends: %+v", res.Effects)
	}
	k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Err: errors.New("lost")}}})
	k.want("p", 1, compute.StateActive, "")
	k.turn(wire.Turn{Sent: []wire.Sent{{Tag: res.Effects[0].Tag, Offset: 9}}})
	k.want("p", 1, compute.StateQueued, compute.HostLost)
}

// refused because it was not read yet; and the catalog is read once a turn.
func TestCatalogIsReadBeforeRefusing(t *testing.T) {
	k := newCell(t)
	k.sync = func(c *Conductor) error {
		c.Catalog(
			[]wire.Record{wire.EncodeFlavor(compute.Flavor{Name: "m2", Resources: compute.Resources{compute.VCPU: 2}})},
			true,
		)
		return nil
	}
	k.read(k.boot(1, "p"), k.bootOf(2, "p", "m2"), k.bootOf(3, "p", "m3"), k.bootOf(4, "p", "m4"))
	k.want("p", 2, compute.StateQueued, "")
	k.want("p", 3, compute.StateError, compute.NoSuchFlavor)
	k.want("p", 4, compute.StateError, compute.NoSuchFlavor)
	if k.synced != 1 {
		t.Errorf("synced %d times", k.synced)
	}
	k.read(k.boot(1, "p"), k.bootOf(3, "p", "m3"))
	if k.synced != 1 {
		t.Error("synced for a request that changes nothing")
	}
	k.sync = func(*Conductor) error { return errors.New("broker is away") }
	k.read(k.bootOf(5, "p", "m5"))
	k.want("p", 5, compute.StateError, compute.NoSuchFlavor)
	k.c.Catalog(
		[]wire.Record{
			wire.Tombstone(wire.KeyFlavor("m2")), wire.Tombstone(wire.KeyQuota("rich")),
			{Key: []byte("?"), Value: []byte("?")},
		},
		false,
	)
	k.read(k.bootOf(6, "p", "m2"))
	k.want("p", 6, compute.StateError, compute.NoSuchFlavor)
}

// TestAStaleCatalogIsReadBeforeABootIsDecided: after an outage requests may be
// back before the catalog is. One that does not answer holds up no further turns.
func TestAStaleCatalogIsReadBeforeABootIsDecided(t *testing.T) {
	k := newCell(t)
	k.deaf = time.Minute
	k.sync = func(c *Conductor) error {
		c.Catalog(
			[]wire.Record{
				wire.EncodeQuota(compute.Quota{Project: "p", Limits: compute.Resources{compute.Instances: 1}}),
			},
			true,
		)
		return nil
	}
	k.read(k.boot(1, "p"), k.boot(2, "p"))
	k.want("p", 1, compute.StateQueued, "")
	k.want("p", 2, compute.StateError, compute.QuotaExceeded)
	if k.synced != 1 {
		t.Errorf("synced %d times in one turn", k.synced)
	}
	k.read(k.boot(7, "q"))
	if k.synced != 1 {
		t.Errorf("synced %d times: what was just read is read again", k.synced)
	}
	k.pass(time.Minute)
	k.sync = func(*Conductor) error { return errors.New("broker is away") }
	k.read(k.boot(3, "q"))
	k.read(k.boot(4, "q"))
	k.want("q", 4, compute.StateQueued, "")
	if k.synced != 2 {
		t.Errorf("synced %d times: a catalog that does not answer holds up every turn", k.synced)
	}
	k.pass(time.Minute)
	k.read(k.boot(5, "q"))
	if k.synced != 3 {
		t.Errorf("synced %d times: it is not tried again", k.synced)
	}
	k.deaf = time.Second
	k.read(k.boot(6, "q"))
	if k.synced != 3 {
		t.Errorf("synced %d times for a catalog that was just heard of", k.synced)
	}
}

// TestTurnBeforeViews is a wiring that would refuse what it has not read.
func TestTurnBeforeViews(t *testing.T) {
	k := newCell(t)
	k.c = k.conductor(nil)
	k.c.Catalog(nil, true)
	k.c.Queues(nil, false)
	k.gainAll()
	defer func() {
		if recover() == nil {
			t.Error("a turn before ViewsReady goes unnoticed")
		}
		k.c.Queues(nil, true)
		k.c.Queues(nil, true)
		<-k.c.ViewsReady()
		k.read(k.boot(1, "p"))
	}()
	k.read(k.boot(1, "p"))
}
