// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

const partitions = 4

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// cell is a conductor with the log it writes, held by hand: no Kafka, and
// nothing of ours replaced.
type cell struct {
	t testing.TB
	c *Conductor

	metrics *Metrics
	reads   compute.Schema          // of the conductor; 0: this version's
	now     time.Time               // the brokers' clocks
	off     time.Duration           // how far the conductor's clock is ahead of them
	logged  bool                    // records carry the brokers' time
	log     map[int32][]wire.Record // of the instances topic, by partition
	sent    []wire.Effect           // every effect, in order
	bad     []wire.Record           // every reject
	next    map[string]int64        // offsets of inputs, by topic and partition

	wakes  chan struct{}
	synced int                    // how often the catalog was synced
	sync   func(*Conductor) error // what a sync brings
	deaf   time.Duration          // how long nothing was heard of the catalog

	syncHosts func() error  // what a sync of hosts brings
	unread    time.Duration // how long the hosts topic was not read
}

func newCell(t testing.TB) *cell { return newCellWith(t, nil) }

func newCellWith(t testing.TB, m *Metrics) *cell {
	k := &cell{
		t: t, metrics: m, now: epoch, log: map[int32][]wire.Record{}, next: map[string]int64{},
		wakes: make(chan struct{}, 1000),
	}
	k.c = k.conductor(nil)
	k.c.Catalog(offers(), true)
	k.c.Queues([]wire.Record{listed("m1.small")}, true)
	k.gainAll()
	return k
}

func (k *cell) conductor(starts QueueStarts) *Conductor {
	return New(Config{Partitions: partitions, Metrics: k.metrics, Now: k.own, Reads: k.reads}, Dependencies{
		Starts:       starts,
		Wake:         func() { k.wakes <- struct{}{} },
		CatalogHeard: func() time.Time { return k.own().Add(-k.deaf) },
		HostsHeard:   func() time.Time { return k.own().Add(-k.unread) },
		SyncHosts: func(ctx context.Context) error {
			if by, ok := ctx.Deadline(); !ok || time.Until(by) > k.c.cfg.SyncTimeout {
				k.t.Errorf("a turn waits for the hosts topic until %v", by)
			}
			if k.syncHosts != nil {
				return k.syncHosts()
			}
			return nil
		},
		SyncCatalog: func(context.Context) error {
			if k.synced++; k.sync != nil {
				return k.sync(k.c)
			}
			return nil
		},
	})
}

// own is the conductor's clock.
func (k *cell) own() time.Time { return k.now.Add(k.off) }

func (k *cell) gainAll() {
	for p := range int32(partitions) {
		k.gain(p, -1)
	}
}

// gain hands over what is in the log, as a loop does.
func (k *cell) gain(p int32, cursor int64) wire.Result {
	k.c.Gain(p)
	for _, rec := range k.log[p] {
		k.c.Restore(p, rec)
	}
	return k.c.Restored(p, cursor, k.own())
}

// offers is a catalog with one flavor and the quota of project rich.
func offers() []wire.Record {
	return []wire.Record{
		wire.EncodeFlavor(compute.Flavor{
			Name: "m1.small", Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 512},
		}),
		wire.EncodeQuota(compute.Quota{Project: compute.DefaultQuota, Limits: compute.Resources{compute.Instances: 5}}),
		wire.EncodeQuota(compute.Quota{Project: "rich", Limits: compute.Resources{compute.Instances: 8000}}),
	}
}

func listed(name compute.QueueName) wire.Record { return listedAs(name, compute.QueueOpen) }

func listedAs(name compute.QueueName, state compute.QueueState) wire.Record {
	return wire.EncodeQueue(compute.Queue{
		Name: name, State: state, Flavor: compute.FlavorName(name),
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 512}, Group: "agents-0", TopicID: "made",
	})
}

func id(n int) compute.InstanceID {
	return compute.InstanceID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n))
}

// requested puts a request where it belongs.
func (k *cell) requested(r compute.Request) wire.Record {
	return k.place(wire.EncodeRequest(r), k.c.cfg.Topics.Requests(), wire.Partition(r.Project, partitions))
}

func (k *cell) reported(r compute.Report) wire.Record {
	return k.place(wire.EncodeReport(r), k.c.cfg.Topics.Reports(), wire.Partition(r.Project, partitions))
}

func (k *cell) place(rec wire.Record, topic string, p int32) wire.Record {
	rec = rec.To(topic, p)
	at := fmt.Sprintf("%s/%d", topic, p)
	rec.Offset, rec.Time, rec.Logged = k.next[at], k.now, k.logged
	k.next[at]++
	return rec
}

func (k *cell) boot(n int, p compute.Project) wire.Record { return k.bootOf(n, p, "m1.small") }

func (k *cell) bootOf(n int, p compute.Project, f compute.FlavorName) wire.Record {
	return k.requested(compute.Request{
		Op: compute.OpBoot, Project: p, Instance: id(n),
		Boot:  &compute.Boot{Flavor: f, Name: fmt.Sprint(n), UserData: compute.UserData([]byte{0xff})},
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
}

func (k *cell) report(op compute.ReportOp, n int, p compute.Project, host compute.HostID) wire.Record {
	return k.reported(compute.Report{
		Op: op, Host: host, Project: p, Instance: id(n), Attempt: 1, Claim: compute.ClaimID(fmt.Sprint("c", n)),
	})
}

// turn runs one and commits it.
func (k *cell) turn(in wire.Turn) wire.Result {
	in.Now = k.own()
	res := k.c.Turn(in)
	k.commit(res)
	k.sent = append(k.sent, res.Effects...)
	return res
}

func (k *cell) read(recs ...wire.Record) wire.Result { return k.turn(wire.Turn{Records: recs}) }

// pass lets time go by, with all inputs read.
func (k *cell) pass(d time.Duration) wire.Result {
	k.now = k.now.Add(d)
	until := map[int32]time.Time{}
	for p := range k.c.states {
		until[p] = k.own()
	}
	return k.turn(wire.Turn{TimersUntil: until})
}

func (k *cell) commit(res wire.Result) {
	for _, rec := range res.Changes {
		rec.Offset = int64(len(k.log[rec.Partition]))
		k.log[rec.Partition] = append(k.log[rec.Partition], rec)
	}
	k.bad = append(k.bad, res.Rejects...)
	if res.Committed != nil {
		for p := range int32(partitions) {
			res.Committed(p)
		}
	}
}

// last is the newest version in the log.
func (k *cell) last(p compute.Project, n int) compute.Instance {
	k.t.Helper()
	part := wire.Partition(p, partitions)
	for i := len(k.log[part]) - 1; i >= 0; i-- {
		if rec := k.log[part][i]; string(rec.Key) == string(wire.KeyInstance(p, id(n))) {
			inst, err := wire.DecodeInstance(rec)
			if err != nil {
				k.t.Fatal(err)
			}
			return inst
		}
	}
	k.t.Fatalf("nothing is written about %d", n)
	return compute.Instance{}
}

func (k *cell) want(p compute.Project, n int, state compute.State, code compute.ReasonCode) {
	k.t.Helper()
	inst := k.last(p, n)
	var got compute.ReasonCode
	if inst.Reason != nil {
		got = inst.Reason.Code
	}
	if inst.State != state || got != code {
		k.t.Errorf("%d is %s %q, want %s %q", n, inst.State, got, state, code)
	}
}
