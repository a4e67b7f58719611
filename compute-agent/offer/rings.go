// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// owed is how long a host still looks for a ring that it could not follow at once:
// it had no slot, no room, or no session. A ring that is older is forgotten.
const owed = time.Minute

// Rings are the queues that the queue manager has rung this host for. A ring is a
// hint: it says where a fetch will probably bring work, and nothing follows from
// it but that the host looks there first.
type Rings struct {
	by map[compute.QueueName]ring
}

// ring is what the host was asked to do about one queue. Zero times are over.
type ring struct {
	look  time.Time // until when a look is owed
	hold  time.Time // until when the host waits on the queue
	since time.Time // since when the oldest work there waits, as the last ring said; zero: it did not say
}

// Ring takes a look command. A host that waits on the queue already, in a fetch that is
// open, owes no look: that fetch brings the work.
func (r *Rings) Ring(l compute.Look, waits bool, now time.Time) {
	if r.by == nil {
		r.by = map[compute.QueueName]ring{}
	}
	is := r.by[l.Queue]
	if is.since = l.Oldest; is.since.IsZero() && l.Hold == 0 {
		is.since = now
	}
	switch {
	case l.Hold > 0:
		is.hold = now.Add(l.Hold)
	case !waits || !now.Before(is.hold):
		is.look = now.Add(owed)
	}
	r.by[l.Queue] = is
}

// Looked takes note that a fetch of the queue ended with nothing.
func (r *Rings) Looked(q compute.QueueName) {
	if is, ok := r.by[q]; ok {
		is.look = time.Time{}
		r.by[q] = is
	}
}

// Forget drops a queue.
func (r *Rings) Forget(q compute.QueueName) { delete(r.by, q) }

// Since is since when the oldest work in a queue waits by what rings say: since the ring at the latest where a look is
// owed, and since now where the host is to wait for work, as that comes often. Zero: no ring counts.
func (r *Rings) Since(q compute.QueueName, now time.Time) time.Time {
	is := r.by[q]
	switch {
	case !now.Before(is.look) && !now.Before(is.hold):
		return time.Time{}
	case is.since.IsZero():
		return now
	}
	return is.since
}

// Listed are the queues that the host should fetch now, by name; look says that it
// should look only, and not wait. What is over is forgotten.
func (r *Rings) Listed(now time.Time, each func(q compute.QueueName, look bool)) {
	for _, q := range slices.Sorted(maps.Keys(r.by)) {
		switch is := r.by[q]; {
		case now.Before(is.look):
			each(q, true)
		case now.Before(is.hold):
			each(q, false)
		default:
			delete(r.by, q)
		}
	}
}
