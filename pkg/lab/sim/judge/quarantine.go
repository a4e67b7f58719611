// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const (
	// mostStarts is how many starts in a row fail until a host is quarantined, for
	// quarantine at least.
	mostStarts = 3
	quarantine = 30 * time.Second
)

// checkQuarantine: a host on which three starts in a row failed begins with nothing for a
// while, and for twice as long if the next fails too. What was given up, what the request
// itself is at fault for, and what happens to an agent that is started again is left out.
func checkQuarantine(r *Recording) []Violation {
	for _, h := range r.Schedule.World.Hosts {
		if r.Schedule.Stops(h.ID) || r.Schedule.Forgets(h.ID) {
			continue
		}
		for _, q := range r.quarantines(h.ID) {
			for _, g := range r.Given {
				if g.Host == h.ID && g.At.After(q.from.Add(time.Second)) && g.At.Before(q.to) &&
					!r.partOfTaken(g.Spec.Instance, h.ID, q.from) {
					return broken("quarantine", g.Spec.Instance, g.At,
						"%d starts failed in a row on %s until %s, and it begins with another at %s, before %s",
						mostStarts, h.ID, r.At(q.from), r.At(g.At), r.At(q.to))
				}
			}
		}
	}
	return nil
}

// quarantines are the times in which a host is to begin with nothing. An operator may end one:
// by enabling the host. A start that failed about when the operator enabled the host,
// or that of what was deleted or taken by another, may count or not: a quarantine is
// from the latest moment that it may begin at to the earliest that it may end at.
func (r *Recording) quarantines(h compute.HostID) (all []span) {
	fails, perhaps, next, before := 0, 0, quarantine, r.Start
	var first time.Time // when a quarantine begins if what perhaps counts does; zero: none does
	for _, s := range r.starts(h) {
		enabled := r.enabled(h, before, s.at)
		before = s.at
		switch {
		case s.ok: // one that was under way ends a quarantine, too: the host can do it
			fails, perhaps, next, first = 0, 0, quarantine, time.Time{}
			if last := len(all) - 1; last >= 0 {
				all[last].to = earliest(all[last].to, s.at)
			}
			continue
		case enabled:
			fails, perhaps, next, first = 0, 1, quarantine, time.Time{}
		case s.perhaps:
			perhaps++
		default:
			fails++
		}
		if quiet := len(all) > 0 && s.at.Before(all[len(all)-1].to); fails+perhaps < mostStarts || quiet {
			continue
		}
		if first.IsZero() || !s.at.Before(first.Add(next)) {
			first = s.at
		}
		if fails >= mostStarts && !s.perhaps && !enabled {
			all = append(all, span{s.at, first.Add(next)})
			first, perhaps, next = time.Time{}, 0, min(2*next, 30*time.Minute)
		}
	}
	for n := range all {
		for _, a := range r.Asks {
			if a.Op == schedule.LoadHost && a.Host == h && a.Wish == "enable" && a.Began.After(all[n].from) {
				all[n].to = earliest(all[n].to, a.Began)
			}
		}
	}
	return all
}

// enabled says whether an operator asked for a host to be enabled between two moments:
// what failed before counts no more then.
func (r *Recording) enabled(h compute.HostID, from, to time.Time) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return a.Op == schedule.LoadHost && a.Host == h && a.Wish == "enable" && !a.Began.Before(from) &&
			a.Began.Before(to)
	})
}

// start is how a start of a machine ended.
type start struct {
	at      time.Time
	ok      bool
	perhaps bool // it failed, and may not count: the host may have known that it is not wanted
}

// starts are those of machines. That of a placeholder which fails may count: it fails with its driver's calls.
func (r *Recording) starts(h compute.HostID) (all []start) {
	reserving := r.ofReservations()
	for _, b := range r.Broke {
		i := reserving[b.Instance]
		if b.Host == h && b.Class != compute.FailureRequest && !b.Image {
			all = append(all, start{at: b.At, perhaps: i.IsPlaceholder() || !r.wantedThen(b)})
		}
	}
	for _, w := range r.Works {
		failed := slices.ContainsFunc(r.Broke, func(b Broke) bool {
			return b.Host == h && b.Instance == w.Instance && b.Method == w.Method && b.At.Equal(w.To)
		})
		if w.Host == h && w.Method == "Launch" && !failed && r.launchedIn(w) {
			all = append(all, start{at: w.To, ok: true})
		}
	}
	slices.SortStableFunc(all, func(a, b start) int { return a.at.Compare(b.at) })
	return all
}

// launchedIn says whether a launch succeeded: one that was given up ends without a machine and without a failure.
func (r *Recording) launchedIn(w Worked) bool {
	return slices.ContainsFunc(r.Machines, func(e fake.Event) bool {
		return e.Kind == fake.Launched && e.Host == w.Host && e.Instance == w.Instance &&
			!e.At.Before(w.From) && !e.At.After(w.To)
	})
}

// wantedThen says whether an attempt that failed was wanted until then: neither
// deleted nor taken by another.
func (r *Recording) wantedThen(b Broke) bool {
	for n, w := range r.Log {
		i := w.Instance
		if i.ID == b.Instance && !w.Seen.After(b.At) && r.over(n).After(b.At) {
			waits := i.State == compute.StateQueued || i.State == compute.StateStarting && i.Host == b.Host
			return waits && i.Attempt == b.Attempt
		}
	}
	return false
}
