// SPDX-License-Identifier: Apache-2.0

package offer

import "time"

// Guard keeps a host that fails everything from eating all the work: after
// three failed starts in a row it stops offering for a while. Then it may try
// again; one more failure, and it stops for twice as long.
type Guard struct {
	Fails       int       // starts that failed in a row
	Quarantines int       // in a row, without a start that succeeded in between
	Until       time.Time // when the last quarantine ends
	Reason      string    // of the failure that began it
}

const (
	mostFails      = 3
	mostQuarantine = 30 * time.Minute
)

// Failed counts a start that failed by the host's fault; first is how long the
// first quarantine lasts. What was under way when it began does not prolong it.
func (g Guard) Failed(reason string, first time.Duration, now time.Time) Guard {
	g.Fails++
	if g.Fails < mostFails || g.Quarantined(now) {
		return g
	}
	pause := first
	for range g.Quarantines {
		pause = min(2*pause, mostQuarantine)
	}
	g.Quarantines, g.Until, g.Reason = g.Quarantines+1, now.Add(pause), reason
	return g
}

// Restored is a guard of a process before this one. Its clock may have been wrong, so no quarantine lasts longer than
// one that begins now.
func (g Guard) Restored(now time.Time) Guard {
	if left := g.Until.Sub(now); left > 0 { // with now's monotonic clock: the other may be set right meanwhile
		g.Until = now.Add(min(left, mostQuarantine))
	}
	return g
}

// Succeeded forgets all failures.
func (g Guard) Succeeded() Guard { return Guard{} }

// Quarantined says whether the host must not offer.
func (g Guard) Quarantined(now time.Time) bool { return now.Before(g.Until) }
