// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// besideRogues leaves out of what waits the time in which it was in no queue, since a rogue had taken it.
func (r *Recording) besideRogues(all []waiting) (list []waiting) {
	for _, w := range all {
		first, last := r.robbed(w)
		if first == nil {
			list = append(list, w)
			continue
		}
		before, after := w, w
		before.to, after.from = earliest(w.to, first.Seen), latest(w.from, r.missed(w, *last, all))
		list = append(list, before, after)
	}
	return list
}

// missed is from when on hosts may take work again that a rogue took. Its conductor publishes it again once its queue
// is finished with it, as it is when nothing is left that lay there before; and hosts are rung for it in turns.
func (r *Recording) missed(w waiting, taken Published, all []waiting) time.Time {
	line, _ := lineOf(w.instance)
	its := slices.IndexFunc(r.Builds, func(b Published) bool { return w.is(b) && b.At.Equal(taken.At) })
	if its < 0 { // who reads the queue came when it was gone
		its = slices.IndexFunc(r.Builds, func(b Published) bool { return b.Seen.After(taken.Seen) })
	}
	before, since := r.Builds, []Published(nil)
	if its >= 0 {
		before, since = r.Builds[:its], r.Builds[its:]
	}
	again := func(x waiting) time.Time {
		i := slices.IndexFunc(since, func(b Published) bool {
			return x.is(b) && b.Seen.After(taken.Seen) && !b.At.Equal(taken.At)
		})
		if i < 0 {
			return x.to
		}
		return earliest(since[i].Seen, x.to)
	}
	left := taken.Seen
	for _, x := range all {
		other, _ := lineOf(x.instance)
		if other == line && x.instance.ID != w.instance.ID && slices.ContainsFunc(before, x.is) {
			left = latest(left, again(x)) // published again, it had left: it was given back too often
		}
	}
	due := left.Add(recovers)
	if at := again(w); at.Before(w.to) {
		due = earliest(due, at.Add(rungAgain))
	}
	return due
}

// robbed are the first and the last record of what waits that a rogue took; nil: it took none.
func (r *Recording) robbed(w waiting) (first, last *Published) {
	for i, b := range r.Robbed {
		if w.is(b) && b.Seen.Before(w.to) {
			last = &r.Robbed[i]
			if first == nil {
				first = last
			}
		}
	}
	return first, last
}

// is says whether a record of a queue is of the attempt that waits.
func (w waiting) is(b Published) bool {
	return b.Instance == w.instance.ID && b.Attempt == w.instance.Attempt
}

// awaitsConductor is how long after a moment an instance that a rogue took out of its queue waits for its conductor.
func (r *Recording) awaitsConductor(id compute.InstanceID, from time.Time) (long time.Duration) {
	if len(r.Robbed) == 0 {
		return 0
	}
	for _, w := range r.waits() {
		if first, _ := r.robbed(w); first != nil && w.instance.ID == id {
			long = max(long, earliest(w.from, w.to).Sub(from))
		}
	}
	return long
}
