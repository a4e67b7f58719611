package conductor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// loading is a partition whose records are still being handed over: the last
// one of each key.
type loading struct {
	records map[string]loaded
	poison  map[string]wire.Record
}

type loaded struct {
	inst   *compute.Instance
	offset int64
}

// Gain begins a partition with nothing known of it.
func (c *Conductor) Gain(p int32) {
	delete(c.states, p)
	c.counts.drop(p)
	c.loading[p] = &loading{records: map[string]loaded{}, poison: map[string]wire.Record{}}
}

// Restore hands over one record of the instances topic.
func (c *Conductor) Restore(p int32, rec wire.Record) {
	l, key := c.loading[p], string(rec.Key)
	if l == nil {
		return
	}
	delete(l.records, key)
	delete(l.poison, key)
	if rec.Value == nil {
		return
	}
	inst, err := wire.DecodeInstance(rec)
	if err != nil || wire.Partition(inst.Project, c.cfg.Partitions) != p {
		l.poison[key] = rec
		return
	}
	l.records[key] = loaded{inst: &inst, offset: rec.Offset}
}

// Restored makes the partition's state of what was handed over and answers the
// effects that may not have been published.
func (c *Conductor) Restored(p int32, cursor int64, now time.Time) wire.Result {
	t := c.turn(now)
	t.takeNews()
	l := c.loading[p]
	delete(c.loading, p)
	if l == nil {
		return t.done()
	}
	records := slices.SortedFunc(maps.Values(l.records), func(a, b loaded) int { return cmp.Compare(a.offset, b.offset) })
	s := admit.New(c.cfg.Times)
	if c.hostsRead {
		s.Step(admit.HostsRead{}, c.view, now)
	}
	for _, r := range records {
		s.Load(r.inst, c.view, now)
	}
	c.states[p] = s
	c.counts.load(p, l)
	for _, r := range records {
		if r.offset >= cursor {
			t.add(p, s.Resend(r.inst.ID, c.view, now))
		}
	}
	t.rejectPoison(l)
	return t.done()
}

// rejectPoison keeps what cannot be read of the truth itself in sight: the
// partition goes on without it.
func (t *turn) rejectPoison(l *loading) {
	for _, key := range slices.Sorted(maps.Keys(l.poison)) {
		rec := l.poison[key]
		reason := &compute.Reason{Code: compute.Malformed, Detail: "the project belongs to another partition"}
		if _, err := wire.DecodeInstance(rec); err != nil {
			reason = malformed(err)
		}
		t.reject(rec, reason)
	}
}

// Lose forgets a partition.
func (c *Conductor) Lose(p int32) {
	delete(c.states, p)
	delete(c.loading, p)
	c.counts.drop(p)
}
