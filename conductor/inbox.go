// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/twins"
	"github.com/berth-project/berth/pkg/wire"
)

// inbox holds what readers have read until the next turn takes it in. It keeps
// the last word about each thing, so it grows with the number of things, not
// with the number of records.
type inbox struct {
	mu                    sync.Mutex
	updates               updates
	catalogEnd, queuesEnd bool
	ready                 chan struct{} // closed once both are true
	lastBeacons           map[compute.HostID]lastBeacon
	watch                 twins.Watch
	several               map[compute.HostID]bool // hosts that watch has found several agents of
	hostsEnd              bool
	agents                agents
	voices                hostkey.Heard // in hosts; kept of a host that is forgotten, or it could be replayed
}

// updates is what a turn takes in.
type updates struct {
	catalog   map[string]wire.CatalogEntry
	queues    map[compute.QueueName]*compute.Queue // nil: not listed any more
	listed    map[compute.QueueName]time.Time      // when their records were written
	advice    map[compute.QueueName]compute.QueueAdvice
	starts    map[compute.QueueName]int64
	heard     map[compute.HostID][]compute.Voice // each process once
	twins     map[compute.HostID][]compute.Voice // hosts of which this is new; nothing: it is one agent
	hostsRead bool
}

// lastBeacon is a host's last sign of life. There is no more of the beacon here, or
// anywhere in this package.
type lastBeacon struct {
	journal compute.JournalID
	at      time.Time // when its beacon was read, by this process's clock; zero: it was forgotten since
	heard   lifeSigns // by the time of the log, and by reports too
}

// groups are those that the catalog says something new of, in order.
func (u updates) groups() []compute.GroupKey {
	var out []compute.GroupKey
	for _, key := range slices.Sorted(maps.Keys(u.catalog)) {
		if e := u.catalog[key]; e.GroupName != "" {
			out = append(out, compute.GroupKey{Project: e.Project, Name: e.GroupName})
		}
	}
	return out
}

func newUpdates() updates {
	return updates{
		catalog: map[string]wire.CatalogEntry{},
		queues:  map[compute.QueueName]*compute.Queue{},
		listed:  map[compute.QueueName]time.Time{},
		advice:  map[compute.QueueName]compute.QueueAdvice{},
		starts:  map[compute.QueueName]int64{},
		heard:   map[compute.HostID][]compute.Voice{},
		twins:   map[compute.HostID][]compute.Voice{},
	}
}

func newInbox() *inbox {
	return &inbox{
		updates: newUpdates(), ready: make(chan struct{}), lastBeacons: map[compute.HostID]lastBeacon{},
		several: map[compute.HostID]bool{},
	}
}

// takeAll empties the inbox. Which agents are several is as of when all had been heard: one of them may have
// been silent for long enough until then since the other was last heard.
func (b *inbox) takeAll(heard time.Time) updates {
	b.mu.Lock()
	defer b.mu.Unlock()
	for host := range b.several {
		b.noteSeveral(host, b.watch.Of(host, heard))
	}
	taken := b.updates
	b.updates = newUpdates()
	return taken
}

func (b *inbox) putStarts(starts map[compute.QueueName]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.updates.starts, starts)
}

// end notes that a view was read to its end; with the lock held.
func (b *inbox) end(view *bool) {
	was := b.catalogEnd && b.queuesEnd
	*view = true
	if !was && b.catalogEnd && b.queuesEnd {
		close(b.ready)
	}
}

// Catalog takes records of the catalog topic, in order. end: there were no more
// when they were read. News of a group makes a turn come soon: members may wait for it.
func (c *Conductor) Catalog(recs []wire.Record, end bool) {
	c.clock.Observe(recs, c.cfg.Now())
	c.inbox.mu.Lock()
	defer c.inbox.mu.Unlock()
	for _, rec := range recs {
		entry, err := wire.DecodeCatalog(rec)
		if err != nil {
			c.logUnreadable(rec, err)
			continue
		}
		c.inbox.updates.catalog[string(rec.Key)] = entry
		if entry.GroupName != "" {
			defer c.deps.Wake()
		}
	}
	if end {
		c.inbox.end(&c.inbox.catalogEnd)
	}
}

// Queues takes records of the queues topic, as Catalog does, and makes a turn
// come: work may wait for a queue to be listed.
func (c *Conductor) Queues(recs []wire.Record, end bool) {
	c.clock.Observe(recs, c.cfg.Now())
	c.inbox.mu.Lock()
	for _, rec := range recs {
		if rec.Value == nil {
			c.inbox.updates.queues[compute.QueueName(rec.Key)] = nil
			continue
		}
		q, err := wire.DecodeQueue(rec)
		if err != nil {
			c.logUnreadable(rec, err)
			continue
		}
		c.inbox.updates.queues[q.Name] = &q
		c.inbox.updates.listed[q.Name] = logged(rec, time.Time{}) // by the clock of a queue manager it says nothing
	}
	if end {
		c.inbox.end(&c.inbox.queuesEnd)
	}
	c.inbox.mu.Unlock()
	if len(recs) > 0 {
		c.deps.Wake()
	}
}

// Advice takes records of the advice topic: hints, which explain why something waits and how much more may be published.
func (c *Conductor) Advice(recs []wire.Record, _ bool) {
	c.clock.Observe(recs, c.cfg.Now())
	c.inbox.mu.Lock()
	defer c.inbox.mu.Unlock()
	for _, rec := range recs {
		advice, err := wire.DecodeAdvice(rec)
		if err != nil {
			c.logUnreadable(rec, err)
			continue
		}
		for _, about := range advice.About {
			c.inbox.updates.advice[about.Queue] = about
		}
	}
}

// Hosts takes records of the hosts topic. Before its end they are of the past:
// a journal's id to compare with, no sign of life.
func (c *Conductor) Hosts(recs []wire.Record, end bool) {
	now := c.cfg.Now()
	c.clock.Observe(recs, now)
	if c.inbox.applyBeacons(recs, end, now, c.clock.At(now), c.cfg, c.logUnreadable) {
		c.deps.Wake()
	}
}

// applyBeacons says whether something was heard that a turn should not be kept
// waiting for: a host that comes back, or one that has lost its memory.
func (b *inbox) applyBeacons(
	recs []wire.Record, end bool, now, log time.Time, cfg Config, unread func(wire.Record, error),
) (urgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	silent, quiet := cfg.Times.SilentAfter, cfg.AliveFor
	for _, rec := range recs {
		at := logged(rec, log)
		if !b.hostsEnd && rec.Time.Unix() > 0 && rec.Time.Before(log) {
			at = rec.Time // of the past, and nothing says more exactly of when
		}
		if rec.Value == nil {
			// A word that nobody has to vouch for is no reason to take a host for dead, nor to forget that it came back. That
			// it was silent is remembered: it may be back before the word that it is dead is read.
			h := compute.HostID(rec.Key)
			if s, known := b.lastBeacons[h]; known && !s.heard.alive(at, quiet) && s.heard.last.Before(at) {
				b.lastBeacons[h] = lastBeacon{heard: s.heard}
				b.agents.forget(h)
				b.watch.Forget(h)
			}
			continue
		}
		beacon, err := wire.DecodeBeacon(rec)
		if err != nil {
			unread(rec, err)
			continue
		}
		if reason := b.believe(rec, beacon, cfg); reason != nil {
			unread(rec, errors.New(reason.String()))
			continue
		}
		last := b.lastBeacons[beacon.Host]
		host, next := beacon.Host, lastBeacon{journal: beacon.Journal, at: now, heard: last.heard}
		next.heard.note(at, quiet)
		b.lastBeacons[host] = next
		b.agents.say(host, beacon.Reads)
		if b.hostsEnd {
			b.noteVoice(beacon, now)
			urgent = urgent || last.journal != next.journal || now.Sub(last.at) >= silent
		}
	}
	if end && !b.hostsEnd {
		b.hostsEnd, b.updates.hostsRead, urgent = true, true, true
	}
	return urgent
}

// noteVoice notes which process speaks for a host; with the lock held.
func (b *inbox) noteVoice(beacon compute.Beacon, now time.Time) {
	host, by := beacon.Host, beacon.Voice()
	if heard := b.updates.heard[host]; !slices.ContainsFunc(heard, by.Same) {
		b.updates.heard[host] = append(heard, by)
	}
	b.noteSeveral(host, b.watch.Observe(beacon, false, now))
}

func (b *inbox) noteSeveral(host compute.HostID, voices []compute.Voice) {
	if b.updates.twins[host] = voices; voices == nil {
		delete(b.several, host)
		return
	}
	b.several[host] = true
}

// logUnreadable is about a record of a view that cannot be read. The view goes on
// without it; its writer is the one to mend it.
func (c *Conductor) logUnreadable(rec wire.Record, err error) {
	c.cfg.Log.Error("record cannot be read",
		zap.String("topic", rec.Topic), zap.Int32("partition", rec.Partition), zap.Int64("offset", rec.Offset),
		zap.Error(err))
}
