// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// mutants is how many spoiled records a topic gets: ten thousand where
// BERTH_TEST_LONG is set, else a thousand. From a queue hosts take one a fetch,
// fifty to a hundred a second: it gets a fifth.
func mutants(pulled bool) int {
	n := 10_000
	if os.Getenv("BERTH_TEST_LONG") == "" {
		n = 1000
	}
	if pulled {
		n /= 5
	}
	return n
}

// throw writes n spoiled records to a topic. At -1 the key's hash chooses the
// partition.
func (r *rig) throw(topic string, partition int32, n int, next func() wire.Record) []wire.Record {
	r.t.Helper()
	p, err := write.NewProducer(r.cell("attacker").Kafka)
	r.must(err)
	defer p.Close()
	var (
		mu   sync.Mutex
		out  = make([]wire.Record, n)
		all  sync.WaitGroup
		fail error
	)
	for i := range n {
		rec := next().To(topic, partition)
		if partition == wire.AnyPartition {
			rec.Partition = wire.Partition(compute.Project(rec.Key), r.kafka.Partitions)
			if i%10 == 0 { // where it does not belong, perhaps
				rec.Partition = int32(i/10) % r.kafka.Partitions
			}
		}
		out[i] = rec
		all.Add(1)
		p.SendAsync(rec, func(offset int64, err error) {
			defer all.Done()
			mu.Lock()
			defer mu.Unlock()
			if out[i].Offset = offset; err != nil {
				fail = fmt.Errorf("%s: %w", topic, err)
			}
		})
	}
	all.Wait()
	r.must(fail)
	return out
}

// place is where a record lies.
type place struct {
	topic     string
	partition int32
	offset    int64
}

func placeOf(rec wire.Record) place { return place{rec.Topic, rec.Partition, rec.Offset} }

// refusals reads the rejected topic, beside Berth.
type refusals struct {
	rig      *rig
	restored int // as often before

	mu      sync.Mutex
	at      map[place]int
	why     map[place]string
	news    chan struct{}
	err     error
	foreign bool // others write to the topic too: nothing more is learnt from it
}

func (r *rig) refusals() *refusals {
	r.t.Helper()
	f := &refusals{
		rig: r, restored: r.restored(), at: map[place]int{}, why: map[place]string{}, news: make(chan struct{}),
	}
	c := r.prepared("refusals")
	r.start("refusals", c.Table(c.Topics().Rejected(), f.take))
	return f
}

// restored is how often conductors of this process have taken over a partition, where there are metrics.
func (r *rig) restored() int {
	r.t.Helper()
	if r.metrics == nil {
		return 0
	}
	n, _ := telemetrytest.Value(r.t, r.metrics.Gatherer(), "berth_loop_restore_duration_seconds")
	return int(n)
}

func (f *refusals) take(recs cell.Records, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range recs {
		x, err := wire.DecodeRejected(rec)
		if f.foreign {
			continue // thrown at the topic itself
		}
		if err == nil && (x.Reason.Code == "" || x.Reason.Detail == "") {
			err = fmt.Errorf("%s at %d gives no reason", x.Topic, x.Offset)
		}
		if err != nil {
			f.err = err
			continue
		}
		f.at[place{x.Topic, x.Partition, x.Offset}]++
		f.why[place{x.Topic, x.Partition, x.Offset}] = x.Reason.String()
	}
	close(f.news)
	f.news = make(chan struct{})
}

// await returns when the topic's rejected records are exactly these.
func (f *refusals) await(t *testing.T, topic string, want map[place]bool) {
	t.Helper()
	var lost <-chan time.Time
	for most := -1; ; {
		f.mu.Lock()
		have, news, err := 0, f.news, f.err
		for at := range want {
			if f.at[at] > 0 {
				have++
			}
		}
		f.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if have == len(want) {
			return
		}
		if have > most {
			most, lost = have, time.After(patience) // some topics take minutes
		}
		select {
		case <-news:
		case <-lost:
			t.Fatalf("%s: %d of %d are in rejected", topic, have, len(want))
		}
	}
}

// only checks that nothing else of the topic was rejected, and each record once: what a conductor rejects is written
// down before how far it has read, so again by each that takes over the partition meanwhile.
func (f *refusals) only(t *testing.T, topic string, want map[place]bool) {
	t.Helper()
	most := 1 + f.rig.restored() - f.restored
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := 0
	for at, n := range f.at {
		if at.topic == topic && (!want[at] || n > most) && shown < 5 {
			shown++
			t.Errorf("%v is %d times in rejected, expected there: %v; %s", at, n, want[at], f.why[at])
		}
	}
}

// stranger says that from now on others than Berth write to the topic.
func (f *refusals) stranger() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.foreign = true
}

// stranger says that from now on others than Berth write to the topic.
func (w *witness) stranger() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foreign = true
}

// expected lists the records that judge refuses.
func expected(recs []wire.Record, refuses func(wire.Record) bool) map[place]bool {
	out := map[place]bool{}
	for _, rec := range recs {
		if refuses(rec) {
			out[placeOf(rec)] = true
		}
	}
	return out
}

func unreadableBy[W any](decode func(wire.Record) (W, error)) func(wire.Record) bool {
	return func(rec wire.Record) bool { _, err := decode(rec); return err != nil }
}

// compacted is unreadableBy for topics where a record without a value is a word.
func compacted(refuses func(wire.Record) bool) func(wire.Record) bool {
	return func(rec wire.Record) bool { return rec.Value != nil && refuses(rec) }
}

// honest boots a machine that must become active, and deletes it: nothing is stuck.
func (r *rig) honest(c *client.Client, n int) {
	r.t.Helper()
	ids := r.boot(c, n, compute.Boot{Flavor: "honest"})
	r.await(ids, compute.StateActive)
	for _, id := range ids {
		if n := r.launches(id); n != 1 {
			r.t.Errorf("%s was launched %d times", id, n)
		}
	}
	r.delete(c, ids)
	r.await(ids, compute.StateDeleted)
}

// seeds are fixed ones, and one of chance that is printed.
func seeds(t *testing.T) uint64 {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return seed
}

// Ten thousand spoiled records on each topic, two thousand on a queue (see
// mutants): nothing crashes, no partition is stuck, and each record that makes no
// sense is accounted for in rejected.
func TestMutatedRecords(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		seed := seeds(t)
		hosts := roomyHosts(8)
		r := newRig(t, b, hosts...)
		r.deadAfter = compute.SilentAfter // hosts with no work speak every 15 s: the word that one is dead must be refused
		r.metrics = telemetry.NewMetrics()
		r.up()
		c := r.as("honest")
		r.offer(c, nil, []compute.Flavor{small("honest")})
		_, err := c.SetQuota(
			t.Context(),
			compute.Quota{Project: "honest", Limits: compute.Resources{ // the default one will be spoiled
				compute.Instances: 1000, compute.VCPU: 1000, compute.MemoryMB: 1 << 30, compute.DiskGB: 1 << 20,
			}},
		)
		r.must(err)
		refused, topics := r.refusals(), r.cell("").Topics()

		half := func(from uint64, keyed bool, kinds ...string) func() wire.Record {
			fixed, chance := newMutator(t, from, keyed, kinds...), newMutator(t, seed+from, keyed, kinds...)
			n := 0
			return func() wire.Record {
				if n++; n%2 == 0 {
					return fixed.next()
				}
				return chance.next()
			}
		}
		began := time.Now()
		step := func(what string) { t.Logf("%6.1fs %s", time.Since(began).Seconds(), what) }

		recs := r.throw(topics.Reports(), wire.AnyPartition, mutants(false), half(1, false, "report-"))
		want := expected(recs, r.senselessReport)
		refused.await(t, topics.Reports(), want)
		r.honest(c, 1)
		refused.only(t, topics.Reports(), want)
		step(fmt.Sprintf("reports: %d rejected", len(want)))

		r.seen.stranger() // an id that is two projects' is two instances
		recs = r.throw(topics.Requests(), wire.AnyPartition, mutants(false), saidDead(hosts, half(2, false, "request-")))
		want = expected(recs, r.senselessRequest(hosts))
		refused.await(t, topics.Requests(), want)
		r.honest(c, 1)
		refused.only(t, topics.Requests(), want)
		step(fmt.Sprintf("requests: %d rejected", len(want)))

		for i, x := range []struct {
			topic   string
			kinds   string
			keyed   bool
			refuses func(wire.Record) bool
		}{
			{topics.Catalog(), "catalog-", true, unreadableBy(wire.DecodeCatalog)},
			{topics.Hosts(), "beacon", true, compacted(unreadableBy(wire.DecodeBeacon))},
			{topics.Queues(), "queue", true, compacted(unreadableBy(wire.DecodeQueue))},
			{topics.Advice(), "advice", false, unreadableBy(wire.DecodeAdvice)},
			{topics.Build("honest"), "build", false, senselessBuild},
			{topics.Host("host-01"), "command-", false, unreadableBy(wire.DecodeCommand)},
			{topics.Instances(), "instance", true, compacted(unreadableBy(wire.DecodeInstance))},
			{topics.Rejected(), "rejected", false, func(wire.Record) bool { return false }},
		} {
			partition := int32(0)
			switch x.topic {
			case topics.Instances():
				partition = wire.Partition("web-shop", r.kafka.Partitions) // of the project of the golden ones
			case topics.Rejected():
				refused.stranger()
			}
			next := half(uint64(10+i), x.keyed, x.kinds)
			if x.topic == topics.Instances() || x.topic == topics.Build("honest") {
				next = ofToday(next)
			}
			recs := r.throw(x.topic, partition, mutants(x.topic == topics.Build("honest")), next)
			want := expected(recs, x.refuses)
			refused.await(t, x.topic, want)
			r.honest(c, 1)
			refused.only(t, x.topic, want)
			step(fmt.Sprintf("%s: %d rejected", x.topic, len(want)))
		}

		// A process that restores instances leaves out what is none, and says so.
		r.stop("conductor")
		r.startConductor("conductor")
		r.honest(c, 10)
		step("restored")
		r.stop("queues")
		r.stop("api")
		r.startQueues()
		r.startAPI()
		r.honest(r.as("honest"), 10)
		r.sane()
		step("all started again")
	})
}

// saidDead says with every hundredth record that a host which lives is dead. Spoiled records say so by chance, once in
// thousands.
func saidDead(hosts []cell.SimulatedHost, next func() wire.Record) func() wire.Record {
	n := 0
	return func() wire.Record {
		n++
		if n%100 > 0 {
			return next()
		}
		word := compute.Request{
			Op: compute.OpFence, Host: hosts[n/100%len(hosts)].ID, Command: compute.CommandID(fmt.Sprint("dead-", n)),
		}
		if n%200 == 0 {
			word.Op = compute.OpForget
		}
		return wire.EncodeRequest(word)
	}
}

// ofToday leaves out what only a later version can read: that is no nonsense, and the
// partition is set aside for it (TestRecordsOfALaterSchema), or the work left to others
// (TestWorkOfALaterSchema).
func ofToday(next func() wire.Record) func() wire.Record {
	return func() wire.Record {
		for {
			if rec := next(); !wire.IsLater(rec) {
				return rec
			}
		}
	}
}

// senselessBuild is what is no work of the queue of honest.
func senselessBuild(rec wire.Record) bool {
	b, err := wire.DecodeBuild(rec)
	return err != nil || b.Queue != "honest"
}

// senselessReport is what the conductor must reject of reports about instances
// that nobody knows.
func (r *rig) senselessReport(rec wire.Record) bool {
	x, err := wire.DecodeReport(rec)
	switch {
	case err != nil:
		return true
	case x.Op == compute.ReportHello:
		return false
	case wire.Partition(x.Project, r.kafka.Partitions) != rec.Partition:
		return true
	case x.Op == compute.ReportClaim:
		return x.Claim == "" || x.Attempt == 0
	}
	return x.Op == compute.ReportStarted
}

// senselessRequest is what the conductor must reject of requests for what is not
// offered: the first boot or delete of an id makes it its project's, in the
// partition, and nothing is ever active. No host that works is dead.
func (r *rig) senselessRequest(hosts []cell.SimulatedHost) func(rec wire.Record) bool {
	type where struct {
		id        compute.InstanceID
		partition int32
	}
	type known struct {
		owner compute.Project
		boot  compute.Boot
		gone  bool
	}
	all := map[where]*known{}
	return func(rec wire.Record) bool {
		x, err := wire.DecodeRequest(rec)
		switch {
		case err != nil:
			return true
		case x.Op == compute.OpFence, x.Op == compute.OpForget:
			return slices.ContainsFunc(hosts, func(h cell.SimulatedHost) bool { return h.ID == x.Host }) // it is alive
		case x.Op.OfHost():
			return false
		case wire.Partition(x.Project, r.kafka.Partitions) != rec.Partition:
			return true
		case x.Op == compute.OpBootSet:
			same := 0
			for _, b := range x.Boots() {
				i := all[where{b.Instance, rec.Partition}]
				if i != nil && i.owner != x.Project {
					return true
				}
				if i != nil && i.boot.Set().Same(b.Boot.Set()) {
					same++
				}
			}
			for _, b := range x.Boots() {
				if at := (where{b.Instance, rec.Partition}); same == 0 && all[at] == nil {
					all[at] = &known{owner: x.Project, boot: *b.Boot}
				}
			}
			return same > 0 && same < len(x.Set)
		case x.Op == compute.OpReserve:
			repeated := false
			for _, b := range x.Boots() {
				i := all[where{b.Instance, rec.Partition}]
				if i != nil && i.owner != x.Project {
					return true
				}
				repeated = repeated || i != nil && i.boot.Placeholder().Of == x.Reserve.Name
			}
			for _, b := range x.Boots() {
				if at := (where{b.Instance, rec.Partition}); !repeated && all[at] == nil {
					all[at] = &known{owner: x.Project, boot: *b.Boot}
				}
			}
			return false
		case x.Op != compute.OpBoot && x.Op != compute.OpDelete && x.Op != compute.OpChange:
			return true
		}
		at := where{x.Instance, rec.Partition}
		i := all[at]
		switch {
		case i == nil && x.Op == compute.OpChange, i != nil && i.owner != x.Project:
			return true
		case i == nil:
			i = &known{owner: x.Project}
			if all[at] = i; x.Op == compute.OpBoot {
				i.boot = *x.Boot
			}
		}
		switch x.Op {
		case compute.OpDelete:
			i.gone = true // nothing that is thrown runs
		case compute.OpChange:
			boot, err := x.Change.Apply(i.boot)
			if err != nil || i.gone || i.boot.IsPlaceholder() {
				return true
			}
			i.boot = boot
		}
		return false
	}
}
