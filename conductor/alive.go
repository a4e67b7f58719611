// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Every client that may write to requests may say that a host is dead. A host that was
// heard of lately is not: its machines run, and what is built elsewhere would run twice.
// So such a request is rejected, whichever client wrote it. An API node says it of no host that
// was heard of within compute.SilentAfter. Conductors refuse for half of that: they
// hear of hosts a little later than API nodes, and by reports, too, which come up to
// a beacon's interval (15 s) behind the last beacon.
//
// Before it accepts a fence or forget, the conductor reads the hosts topic to its end. If it cannot, it rejects the
// request.
//
// All is judged by the time of the log: a conductor that is behind hears the word,
// and the host, minutes later, and not in the order in which they were written.

// lifeSigns is when a host was heard of.
type lifeSigns struct {
	last     time.Time
	silences []silence // the last ones, in order
}

// silence is when a host was not heard of for long: from the sign before to the one after.
type silence struct{ from, to time.Time }

// mostSilences is how many are remembered of a host.
const mostSilences = 4

// note notes a sign of life. Of a host never heard of nothing is known from before. Signs come out of order: a
// conductor that was cut off may read a report that was written after an outage before the beacons that were written
// during it. So a sign from within a silence divides it. quiet is the same at each call, and for alive.
func (h *lifeSigns) note(at time.Time, quiet time.Duration) {
	all := h.silences
	if !h.last.IsZero() && at.Sub(h.last) >= quiet {
		all = append(slices.Clip(all), silence{h.last, at})
	}
	if at.After(h.last) {
		h.last = at
	}
	h.silences = nil
	for _, s := range all {
		parts := []silence{s}
		if at.After(s.from) && at.Before(s.to) {
			parts = []silence{{s.from, at}, {at, s.to}}
		}
		for _, p := range parts {
			if p.to.Sub(p.from) >= quiet {
				h.silences = append(h.silences, p)
			}
		}
	}
	h.silences = h.silences[max(0, len(h.silences)-mostSilences):]
}

// alive says whether it was heard of within quiet before a moment. One that has come
// back since, or at that moment, counts as alive then, unless it is known to have been silent: what the log has at one
// moment may have come in any order.
func (h lifeSigns) alive(at time.Time, quiet time.Duration) bool {
	switch {
	case h.last.IsZero():
		return false
	case h.last.Before(at):
		return at.Sub(h.last) < quiet
	}
	return !slices.ContainsFunc(h.silences, func(s silence) bool { return at.Sub(s.from) >= quiet && !at.After(s.to) })
}

// noteLife notes a sign of life that is no beacon, of a host that has beacons.
func (b *inbox) noteLife(h compute.HostID, at time.Time, quiet time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.lastBeacons[h]; !s.at.IsZero() {
		s.heard.note(at, quiet)
		b.lastBeacons[h] = s
	}
}

// lifeOf is when a host was heard of.
func (b *inbox) lifeOf(h compute.HostID) lifeSigns {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastBeacons[h].heard
}

// syncHosts reads the hosts topic to its end, once in a turn. After a failure it does not try again for syncRetryAfter,
// unless the topic has been read since.
func (t *turn) syncHosts() error {
	if t.hostsSynced {
		return nil
	}
	failed, now := t.hostsFailedAt, t.cfg.Now()
	if !failed.IsZero() && now.Before(failed.Add(syncRetryAfter)) && !t.deps.HostsHeard().After(failed) {
		return fmt.Errorf("it was tried %s ago", now.Sub(failed).Round(time.Second))
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.SyncTimeout)
	defer cancel()
	if err := t.deps.SyncHosts(ctx); err != nil {
		t.hostsFailedAt = t.cfg.Now()
		return err
	}
	t.hostsSynced, t.hostsFailedAt = true, time.Time{}
	return nil
}

// logged is when a record was written, by the time of the log where that is known.
func logged(rec wire.Record, now time.Time) time.Time {
	if rec.Logged {
		return rec.Time
	}
	return now
}

// refuseIfAlive refuses the word that a host is dead which was heard of lately. Where the log does not say when the
// word was written, a conductor that was cut off reads it, and the host's beacons, much later, and in any order: then
// it is refused as well if the host was alive when the word was said, by the clock of its producer.
func (t *turn) refuseIfAlive(r compute.Request, rec wire.Record) *compute.Reason {
	if r.Op != compute.OpFence && r.Op != compute.OpForget {
		return nil
	}
	why := t.aliveWhen(r.Host, rec)
	remedy := fmt.Sprintf("once the host has been silent for %s", compute.SilentAfter)
	if why == "" { // or its last beacons were not read yet
		if err := t.syncHosts(); err != nil {
			why = fmt.Sprintf("topic %s could not be read to its end, so the host may be alive: %v", t.cfg.Topics.Hosts(), err)
			remedy = "once the conductor can read that topic"
		} else if why = t.aliveWhen(r.Host, rec); why == "" {
			return nil
		}
	}
	t.cfg.Log.Warn("a host is not taken for dead", zap.String("host", string(r.Host)),
		zap.Stringer("word", r.Op), zap.String("why", why))
	return &compute.Reason{
		Code: compute.Malformed, Host: r.Host,
		Detail: fmt.Sprintf("%s of host %s: %s; say it again %s", r.Op, r.Host, why, remedy),
	}
}

// aliveWhen says when a host was heard of, if that was lately when the record was written; empty: it was not.
func (t *turn) aliveWhen(id compute.HostID, rec wire.Record) string {
	h, at, quiet := t.inbox.lifeOf(id), logged(rec, t.now), t.cfg.AliveFor
	if h.alive(at, quiet) || !rec.Logged && rec.Time.Unix() > 0 && h.alive(rec.Time, quiet) {
		return fmt.Sprintf("it is alive: it was heard at %s, and is said to be dead at %s",
			h.last.Format(time.RFC3339), at.Format(time.RFC3339))
	}
	return ""
}
