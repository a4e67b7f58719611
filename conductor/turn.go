// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// turn is one call of Turn or Restored: what comes out of it so far.
type turn struct {
	*Conductor
	now    time.Time // the time of the log
	local  time.Time // the same moment by this process's clock
	heard  time.Time // up to when the view has all that was said in the catalog
	synced bool
	// the hosts topic was read to its end in this turn
	hostsSynced bool
	result      wire.Result
	tally       map[int32]*tally             // by partition; nil without metrics and traces
	inputs      map[compute.InstanceID]input // of what is traced
}

// Turn decides what its records lead to: updates of the views first, then what
// became of earlier effects, then the records, then timers that no record in
// the log can beat any more.
func (c *Conductor) Turn(in wire.Turn) wire.Result {
	c.mustBeReady(in)
	c.clock.Observe(in.Records, in.Now)
	t := c.turn(in.Now)
	if t.local.Sub(c.deps.HostsHeard()) > c.cfg.Times.SilentAfter/hostsUnread {
		t.view.HostsUnreadAt = t.now
	}
	t.applyUpdates()
	for _, sent := range in.Sent {
		t.published(sent)
	}
	for _, rec := range in.Records {
		t.record(rec)
	}
	for _, p := range slices.Sorted(maps.Keys(in.TimersUntil)) {
		t.step(p, admit.Tick{Until: t.now.Add(in.TimersUntil[p].Sub(t.local))})
	}
	return t.done()
}

// hostsUnread is the part of SilentAfter after which the hosts topic counts as unread: 15 s, the interval of beacons. A
// fetch that finds nothing takes 5 s (read.DefaultWait), and one that finds something begins another.
const hostsUnread = 4

// mustBeReady finds a wiring that would refuse boots for flavors that were only
// not read yet. There is nothing else to do: what a turn is given, it must decide.
func (c *Conductor) mustBeReady(in wire.Turn) {
	select {
	case <-c.ViewsReady():
	default:
		if len(in.Records) > 0 {
			panic("conductor: a turn with records before ViewsReady")
		}
	}
}

func (c *Conductor) turn(now time.Time) *turn {
	t := &turn{Conductor: c, now: c.clock.At(now), local: now}
	t.heard = c.deps.CatalogHeard() // first: what is heard from here on is not in the view
	t.view.CatalogUnread = t.unread()
	if c.cfg.Metrics != nil || c.cfg.Tracer != nil {
		t.tally = map[int32]*tally{}
	}
	return t
}

func (t *turn) done() wire.Result {
	if t.tally != nil {
		t.result.Committed = t.committed
	}
	for _, s := range t.states {
		if due := s.NextDue(); !due.IsZero() && (t.result.Wake.IsZero() || due.Before(t.result.Wake)) {
			t.result.Wake = due
		}
	}
	if !t.result.Wake.IsZero() {
		t.result.Wake = t.local.Add(t.result.Wake.Sub(t.now)) // by this process's clock
	}
	return t.result
}

// step lets one partition decide. It says why the input was rejected, if it was.
func (t *turn) step(p int32, in admit.Input) *compute.Reason {
	s := t.states[p]
	if s == nil {
		t.cfg.Log.Error("input for a partition that is not owned", zap.Int32("partition", p))
		return nil
	}
	return t.add(p, s.Step(in, t.viewOf(p), t.now))
}

// viewOf is what a partition decides by.
func (t *turn) viewOf(p int32) admit.View {
	view := t.view
	view.CatalogBehind = t.catalogHeard().Before(t.restored[p])
	return view
}

// stepAll lets every partition hear the same, in order.
func (t *turn) stepAll(in admit.Input) {
	for _, p := range slices.Sorted(maps.Keys(t.states)) {
		t.step(p, in)
	}
}

// applyUpdates brings the view up to date and tells every partition what happened
// in the world since the last turn.
func (t *turn) applyUpdates() {
	n := t.inbox.takeAll(t.deps.HostsHeard())
	t.apply(n)
	read := min(t.writes, t.inbox.allRead())
	t.view.ReadWhole, t.view.ReadReserved = read >= wire.SchemaWhole, read >= wire.SchemaReserved
	if n.hostsRead && !t.hostsRead {
		t.hostsRead = true
		t.stepAll(admit.HostsRead{})
	}
	for _, h := range slices.Sorted(maps.Keys(n.heard)) {
		for _, by := range n.heard[h] {
			t.stepAll(admit.HostHeard{Host: h, Voice: by})
		}
	}
	for _, q := range slices.Sorted(maps.Keys(n.starts)) {
		t.stepAll(admit.QueueStart{Queue: q, Start: n.starts[q]})
	}
	if groups := n.groups(); len(groups) > 0 {
		t.stepAll(admit.GroupsChanged{Groups: groups})
	}
	if len(n.queues) > 0 {
		t.stepAll(admit.QueuesChanged{Queues: slices.Sorted(maps.Keys(n.queues))})
	}
}

// record decides one record of requests or reports, or rejects it.
func (t *turn) record(rec wire.Record) {
	if reason := t.decide(rec); reason != nil {
		t.reject(rec, reason)
	}
}

// reject keeps what made no sense, with the reason.
func (t *turn) reject(rec wire.Record, reason *compute.Reason) {
	rejected := compute.Rejected{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Key: rec.Key,
		Reason: *reason, At: t.now.Round(0).UTC(),
	}
	if rec.Topic == t.cfg.Topics.Reports() { // a request has user data in it
		rejected.Value = rec.Value[:min(len(rec.Value), compute.MaxRejectedValue)]
	}
	t.of(rec.Partition).reject(rec.Topic)
	out := wire.EncodeRejected(rejected).To(t.cfg.Topics.Rejected(), rec.Partition)
	t.result.Rejects = append(t.result.Rejects, out)
}

func (t *turn) decide(rec wire.Record) *compute.Reason {
	switch rec.Topic {
	case t.cfg.Topics.Requests():
		r, err := wire.DecodeRequest(rec)
		if err != nil {
			return malformed(err)
		}
		if reason := t.belongs(r.Project, rec, r.Op.OfHost()); reason != nil {
			return reason
		}
		if reason := t.vouched(rec, r); reason != nil {
			return reason
		}
		if reason := t.readByAll(rec); reason != nil {
			return reason
		}
		if reason := t.refuseIfAlive(r, rec); reason != nil {
			return reason
		}
		t.traceRequest(rec, &r)
		t.catchUp(rec.Partition, r)
		if reason := t.spreadReadByAll(r); reason != nil {
			return reason
		}
		return t.step(rec.Partition, admit.Requested{Request: r})
	case t.cfg.Topics.Reports():
		r, err := wire.DecodeReport(rec)
		if err != nil {
			return malformed(err)
		}
		if reason := t.belongs(r.Project, rec, r.Op == compute.ReportHello); reason != nil {
			return reason
		}
		if reason := t.believe(rec, r); reason != nil {
			return reason
		}
		t.inbox.noteLife(r.Host, logged(rec, t.now), t.cfg.AliveFor)
		t.trace(r.Instance, r.Trace, input{at: rec.Time})
		r.At = logged(rec, t.now) // clocks of hosts may be wrong
		return t.step(rec.Partition, admit.Reported{Report: r})
	}
	return malformed(errors.New("a conductor reads requests and reports"))
}

func malformed(err error) *compute.Reason {
	return &compute.Reason{Code: compute.Malformed, Detail: err.Error()}
}

// belongs refuses what lies in a partition that is not its project's: there,
// another conductor may decide about the same instance. What is written to
// every partition is at home everywhere.
func (t *turn) belongs(project compute.Project, rec wire.Record, everywhere bool) *compute.Reason {
	p := wire.Partition(project, t.cfg.Partitions)
	if everywhere || p == rec.Partition {
		return nil
	}
	remedy := "set the key to the project"
	if string(rec.Key) == string(project) {
		remedy = "the key is right, and the producer chooses another partition by it than Kafka's own does: " +
			"with librdkafka (Python, C, .NET) set partitioner=murmur2_random"
	}
	return malformed(fmt.Errorf(
		"project %s belongs to partition %d, this is %d: %s", project, p, rec.Partition, remedy,
	))
}

// catchUp reads the catalog to its end before a boot is refused for what it
// does not name: the operator that added the flavor was told that it is there. It does so,
// too, where nothing was heard of the catalog for long: after an outage requests
// may come back before the catalog does, and a quota may have changed meanwhile.
func (t *turn) catchUp(p int32, r compute.Request) {
	s, boots := t.states[p], r.Boots()
	if t.synced || s == nil || len(boots) == 0 || s.Instance(r.Instance) != nil {
		return // nothing is decided, or all is known
	}
	if !t.stale() && !slices.ContainsFunc(boots, t.unnamed) {
		return
	}
	t.synced = true
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.SyncTimeout)
	defer cancel()
	if err := t.deps.SyncCatalog(ctx); err != nil {
		t.cfg.Log.Warn("catalog could not be read to its end; boots are decided by what is known of it", zap.Error(err))
		t.syncAgainAt = t.local.Add(syncRetryAfter)
	} else {
		t.syncedAt, t.view.CatalogUnread = t.local, false
	}
	t.applyUpdates()
}

// syncRetryAfter is how long boots are decided by what is known of a catalog that does
// not answer, and requests are rejected that need a hosts topic that does not: a turn that waits for it holds up
// everything else. Before one is refused for what it does not name, every turn waits.
const syncRetryAfter = 15 * time.Second

// stale says whether the catalog was not heard of for too long, and is to be read to its end.
func (t *turn) stale() bool { return t.local.After(t.syncAgainAt) && t.unread() }

// unread says whether the catalog was not heard of for too long.
func (t *turn) unread() bool {
	return t.local.Sub(t.catalogHeard()) > t.cfg.CatalogAge
}

// catalogHeard is up to when all that was said in the catalog is in the view.
func (t *turn) catalogHeard() time.Time {
	if t.syncedAt.After(t.heard) {
		return t.syncedAt
	}
	return t.heard
}

// unnamed says whether a boot asks for what the catalog does not name.
func (t *turn) unnamed(r compute.Request) bool {
	if _, named := t.view.Groups[compute.GroupKey{Project: r.Project, Name: r.Boot.Group()}]; r.Boot.Group() != "" &&
		!named {
		return true
	}
	reason := t.view.Unnamed(r.Project, *r.Boot)
	return reason != nil && (reason.Code == compute.NoSuchFlavor || reason.Code == compute.NoSuchCapability)
}
