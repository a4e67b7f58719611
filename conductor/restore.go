// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// loading is a partition whose records are still being handed over: the last
// one of each key.
type loading struct {
	later       map[string]int64 // keys whose last record a later Berth wrote, with its offset
	records     map[string]loaded
	poison      []poison // in the order of the log, the first mostPoison
	poisonCount int      // how many there were
	shared      compute.Shared
}

// What is kept of what cannot be read is bounded, since any client may have written it: so many
// records of a partition, and so much of each.
const (
	maxPoison      = 20_000
	maxPoisonValue = 4 << 10
)

// poison is a record that cannot be what a conductor wrote.
type poison struct {
	rec    wire.Record // its value cut to what is kept of it
	reason *compute.Reason
}

type loaded struct {
	inst   *compute.Instance
	offset int64
}

// Gain begins a partition with nothing known of it.
func (c *Conductor) Gain(p int32) {
	delete(c.states, p)
	c.said[p] = &hostkey.Heard{} // reports come again from where the position says
	c.counts.drop(p)
	c.loading[p] = &loading{records: map[string]loaded{}, later: map[string]int64{}}
}

// Restore hands over one record of the instances topic.
func (c *Conductor) Restore(p int32, rec wire.Record) {
	l, key := c.loading[p], string(rec.Key)
	if l == nil {
		return
	}
	delete(l.records, key) // also before what cannot be read: what it replaced is not true any more
	delete(l.later, key)
	if rec.Value == nil {
		return
	}
	if wire.LaterThan(rec, c.cfg.Reads) {
		l.later[key] = rec.Offset
		return
	}
	inst, reason := c.readOwn(p, rec)
	if reason != nil {
		l.addPoison(rec, reason)
		return
	}
	l.shared.Instance(inst)
	l.records[key] = loaded{inst: inst, offset: rec.Offset}
}

// readOwn reads a record that a conductor of this partition must have written.
func (c *Conductor) readOwn(p int32, rec wire.Record) (*compute.Instance, *compute.Reason) {
	inst, err := wire.DecodeInstance(rec.ReadUpTo(c.cfg.Reads))
	switch {
	case err != nil:
		return nil, malformed(err)
	case len(rec.Key) == 0:
		return nil, malformed(errors.New("it has no key"))
	case wire.Partition(inst.Project, c.cfg.Partitions) != p:
		return nil, malformed(errors.New("the project belongs to another partition"))
	}
	return &inst, nil
}

func (l *loading) addPoison(rec wire.Record, reason *compute.Reason) {
	if l.poisonCount++; len(l.poison) == maxPoison {
		return
	}
	rec.Value = slices.Clone(rec.Value[:min(len(rec.Value), maxPoisonValue)])
	l.poison = append(l.poison, poison{rec, reason})
}

// Restored makes the partition's state of what was handed over and answers the
// effects that may not have been published.
func (c *Conductor) Restored(p int32, cursor int64, now time.Time) wire.Result {
	l := c.loading[p]
	delete(c.loading, p)
	if l != nil && len(l.later) > 0 {
		// Updates of the views wait for a turn: what they lead to elsewhere would not count here.
		return wire.Result{Aside: l.laterSchema(c.cfg.Topics.Instances(), c.cfg.Reads)}
	}
	t := c.turn(now)
	t.applyUpdates()
	if l == nil {
		return t.done()
	}
	records := slices.SortedFunc(maps.Values(l.records), func(a, b loaded) int {
		return cmp.Compare(a.offset, b.offset)
	})
	s := admit.New(c.cfg.Times)
	c.restored[p] = now
	view := t.viewOf(p)
	if c.hostsRead {
		s.Step(admit.HostsRead{}, view, t.now)
	}
	records = slices.DeleteFunc(records, func(r loaded) bool {
		if s.Instance(r.inst.ID) == nil {
			s.Load(r.inst, view, t.now)
			return false
		}
		c.cfg.Log.Error("two projects have an instance of this id in one partition; the older record is kept",
			zap.String("instance", string(r.inst.ID)), tracing.Field(r.inst.Trace),
			zap.Int32("partition", p), zap.Int64("offset", r.offset))
		l.addPoison(wire.EncodeInstance(*r.inst).At(c.cfg.Topics.Instances(), p, r.offset),
			malformed(errors.New("another project's instance has this id")))
		return true
	})
	c.states[p] = s
	c.counts.load(p, l)
	t.add(p, s.Loaded(view, t.now))
	for _, r := range records {
		if r.offset >= cursor {
			t.add(p, s.Resend(r.inst.ID, view, t.now))
		}
	}
	c.counts.hold(p, s.Held())
	t.rejectPoison(l)
	return t.done()
}

// laterSchema is why a conductor must not decide about a partition: what it cannot read
// may use quota and run on a host, and it would count neither. Unlike what nobody can read
// it is no poison: a later conductor knows what it means.
func (l *loading) laterSchema(topic string, reads compute.Schema) *compute.Error {
	first := slices.Min(slices.Collect(maps.Values(l.later)))
	return &compute.Error{
		Kind: compute.KindConflict,
		Message: fmt.Sprintf("%d records of it in %s, the first at offset %d, are of a later schema than %d, "+
			"the newest that this conductor reads", len(l.later), topic, first, reads),
		Remedy: "upgrade this conductor",
	}
}

// rejectPoison keeps what cannot be read of the truth itself in sight: the
// partition goes on without it. Every owner says it again, until compaction or an
// operator takes it away.
func (t *turn) rejectPoison(l *loading) {
	for _, p := range l.poison {
		t.reject(p.rec, p.reason)
	}
	if left := l.poisonCount - len(l.poison); left > 0 {
		t.cfg.Log.Error("more records of the instances cannot be read than are rejected one by one",
			zap.Int("left out", left))
	}
}

// Lose forgets a partition.
func (c *Conductor) Lose(p int32) {
	delete(c.states, p)
	delete(c.loading, p)
	delete(c.said, p)
	delete(c.restored, p)
	c.counts.drop(p)
}
