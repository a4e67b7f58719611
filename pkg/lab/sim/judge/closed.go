// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

const (
	// wishHeard is how long after its answer an operator's wish may be unknown to a host
	// that is not hindered: it is one record in the host's own stream.
	wishHeard = 2 * time.Second
	// wishSaid is how long it may take until a host's beacon says so: two are 5 s apart,
	// and a reader of beacons gathers them for a second.
	wishSaid = 8 * time.Second
)

// checkClosed: a host begins with nothing from when it must have heard that it is to offer
// nothing, whatever it says of itself, until an operator asks for the contrary; and then it
// offers again within seconds.
func checkClosed(r *Recording) (wrong []Violation) {
	for n, a := range r.Asks {
		if a.Op != schedule.LoadHost || !a.OK || r.Schedule.Misses(a.Host) {
			continue
		}
		if next, clear := r.nextWish(n); !clear {
			continue
		} else if a.Wish == "enable" {
			wrong = append(wrong, r.offersLate(a, next)...)
		} else {
			wrong = append(wrong, r.beginsClosed(a, next)...)
		}
	}
	return wrong
}

// nextWish is when the next wish about the same host began, and whether it is clear which
// of the two, and of those before, came last.
func (r *Recording) nextWish(n int) (next time.Time, clear bool) {
	a := r.Asks[n]
	next = latest(r.Calm, r.Settled, r.Empty)
	for m, b := range r.Asks {
		switch {
		case m == n || b.Op != schedule.LoadHost || b.Host != a.Host:
		case b.Began.After(a.Answered):
			next = earliest(next, b.Began)
		case !b.OK || !b.Answered.Before(a.Began):
			return next, false
		}
	}
	return next, true
}

func (r *Recording) beginsClosed(a Ask, next time.Time) []Violation {
	from := a.Answered.Add(wishHeard + r.Schedule.Slack())
	for _, w := range r.Works {
		if w.Host == a.Host && w.Method == "Prepare" && w.From.After(from) && w.From.Before(next) {
			return broken(
				"closed",
				w.Instance,
				w.From,
				"an operator was told at %s that %s is to %s, and at %s it begins",
				r.At(a.Answered),
				a.Host,
				a.Wish,
				r.At(w.From),
			)
		}
	}
	return nil
}

// offersLate is about hosts that nothing happens to: of one that is started again it
// takes longer until it says anything.
func (r *Recording) offersLate(a Ask, next time.Time) []Violation {
	due := a.Answered.Add(wishSaid + r.Schedule.Slack())
	if due.After(next) || r.Schedule.Touches(a.Host) {
		return nil
	}
	last, since := compute.HostEnabled, time.Time{}
	for _, o := range r.Offers {
		if o.Host == a.Host && !o.Seen.After(due) {
			last, since = o.State, o.Seen
		}
	}
	if last == compute.HostEnabled || last == compute.HostQuarantined {
		return nil
	}
	return broken(
		"closed",
		"",
		due,
		"an operator was told at %s that %s is enabled, and since %s it says that it is %s",
		r.At(a.Answered),
		a.Host,
		r.At(since),
		last,
	)
}
