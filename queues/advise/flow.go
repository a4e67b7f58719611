// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"math"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// settles is how long what comes into a queue must have changed for two thirds of
// the change to be believed.
const settles = 10 * time.Second

// tick is how often a queue is looked at into which something comes.
const tick = time.Second

// flow is how much work comes into a queue.
type flow struct {
	came uint64 // when it was last looked at
	at   time.Time
	rate float64 // a second, lately
}

// see takes note of how much ever came. What had come when it is first asked came over
// all the time there ever was.
func (f *flow) see(came uint64, now time.Time) {
	past := now.Sub(f.at)
	// nothing came before the last tick, or it would have been seen
	if quiet := past - tick; quiet > 0 && !f.at.IsZero() {
		f.rate *= math.Exp(-quiet.Seconds() / settles.Seconds())
		past = tick
	}
	switch {
	case came < f.came: // the queue was made anew
		f.rate = 0
	case past <= 0:
		return
	default:
		f.rate += (float64(came-f.came)/past.Seconds() - f.rate) * (1 - math.Exp(-past.Seconds()/settles.Seconds()))
	}
	f.came, f.at = came, now
}

// flows says whether lately so much came that it matters.
func (f *flow) flows() bool { return f.rate > 1e-3 }

// waiters is how many hosts should wait on a queue though no work lies in it, and 0
// if as few are enough as on any other. A host waits until it samples anew, or
// until it is full: while that lasts, what comes needs the room of so many hosts beside
// those that are to be there in any case.
func (f *flow) waiters(eligible uint32, room uint64) uint32 {
	if eligible == 0 || room == 0 {
		return 0
	}
	each := float64(room) / float64(eligible)
	more := math.Round(f.rate * compute.SampleHolds.Seconds() / each)
	if more < 1 {
		return 0
	}
	return uint32(min(compute.UsualWaiters+more, float64(eligible)))
}
