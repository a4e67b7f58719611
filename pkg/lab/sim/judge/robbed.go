// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// missed is from when on hosts may take work again that a rogue took at some time while it waited. Its conductor
// publishes it again once its queue is finished with it, as it is when nothing that lay there before is left; and hosts
// are rung for it in turns. Zero: no rogue took it.
func (r *Recording) missed(w waiting, all []waiting) time.Time {
	taken := r.robbedAt(w)
	if taken.IsZero() {
		return taken
	}
	line, _ := lineOf(w.instance)
	left := taken
	for _, x := range all {
		if other, _ := lineOf(x.instance); other != line || x.from.After(taken) || x.instance.ID == w.instance.ID {
			continue
		}
		to := x.to
		if again := r.publishedAfter(x, taken); !again.IsZero() { // it was given back too often, and had left
			to = earliest(to, again)
		}
		left = latest(left, to)
	}
	due := left.Add(recovers)
	if again := r.publishedAfter(w, taken); !again.IsZero() {
		due = earliest(due, again.Add(rungAgain))
	}
	return due
}

// robbedAt is when a rogue took last what waits; zero: never.
func (r *Recording) robbedAt(w waiting) (at time.Time) {
	for _, b := range r.Robbed {
		if w.is(b) && b.Seen.Before(w.to) {
			at = b.Seen
		}
	}
	return at
}

// publishedAfter is when what waits was published first after a time; zero: never.
func (r *Recording) publishedAfter(w waiting, after time.Time) time.Time {
	i := slices.IndexFunc(r.Builds, func(b Published) bool {
		return w.is(b) && b.Seen.After(after) && b.Seen.Before(w.to)
	})
	if i < 0 {
		return time.Time{}
	}
	return r.Builds[i].Seen
}

// is says whether a record of a queue is of the attempt that waits.
func (w waiting) is(b Published) bool {
	return b.Instance == w.instance.ID && b.Attempt == w.instance.Attempt
}

// robbed is how long after a moment an instance that a rogue took out of its queue waits for its conductor.
func (r *Recording) robbed(id compute.InstanceID, from time.Time) (long time.Duration) {
	if len(r.Robbed) == 0 {
		return 0
	}
	for _, w := range r.waits() {
		if w.instance.ID == id && !r.robbedAt(w).IsZero() {
			long = max(long, w.from.Sub(from))
		}
	}
	return long
}
