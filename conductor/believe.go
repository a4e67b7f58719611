// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/wire"
)

// vouched says why a request is not one of a publisher that may write it, where that is a reason to refuse it.
func (t *turn) vouched(rec wire.Record, r compute.Request) *compute.Reason {
	if t.cfg.Publishers == nil {
		return nil
	}
	reason := t.cfg.Publishers.Check(rec, r.Project)
	t.cfg.Metrics.vouched(reason)
	if !t.cfg.Publishers.Refuses() {
		return nil
	}
	return reason
}

// believe says why a report does not count as its host's. What a partition heard before it was
// gained this time is not known; but what was said long ago shows by the beacons since.
func (t *turn) believe(rec wire.Record, r compute.Report) *compute.Reason {
	if t.cfg.Hosts == nil {
		return nil
	}
	proved, reason := t.cfg.Hosts.Check(rec, r.Host)
	if heard := t.said[rec.Partition]; reason == nil && heard != nil {
		reason = heard.Observe(r.Host, r.Voice(), proved, time.Time{})
	}
	if reason == nil {
		reason = t.inbox.stale(rec, r, proved)
	}
	t.cfg.Metrics.believed(rec.Topic, proved, reason)
	return reason
}

// stale says whether a report is older than what the beacons of its process have told.
func (b *inbox) stale(rec wire.Record, r compute.Report, proved hostkey.Proved) *compute.Reason {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.voices.Stale(r.Host, r.Voice(), proved, appended(rec))
}

// believe says why a beacon does not count as its host's; with the lock held. The queue manager
// writes that down.
func (b *inbox) believe(rec wire.Record, beacon compute.Beacon, cfg Config) *compute.Reason {
	if cfg.Hosts == nil {
		return nil
	}
	proved, reason := cfg.Hosts.Check(rec, beacon.Host)
	if reason == nil {
		reason = b.voices.Observe(beacon.Host, beacon.Voice(), proved, appended(rec))
	}
	cfg.Metrics.believed(rec.Topic, proved, reason)
	return reason
}

// appended is when the broker took a record; zero if nobody but its writer says when that was.
func appended(rec wire.Record) time.Time {
	if rec.Logged {
		return rec.Time
	}
	return time.Time{}
}
