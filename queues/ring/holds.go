// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// holdsEvery is how often the hosts that wait on each queue are looked at.
const holdsEvery = time.Second

// holds draws the hosts that are missing on queues into which much comes, the busiest
// first. Queues for which no host is left are rung for each build.
func (r *Ringer) holds(now time.Time) (out []Ring) {
	for _, q := range r.busy(now) {
		want, most := r.waiters(q, now)
		staying := 0
		for h, until := range q.held {
			switch {
			case !until.After(now) || !r.hosts.Fits(q.name, h):
				r.endHold(q, h)
			case until.Sub(now) > r.rules.Early:
				staying++
			}
		}
		missing := min(want-staying, int(r.tokens))
		if missing <= 0 {
			continue
		}
		drawn := r.hosts.Sample(q.name, missing, func(h compute.HostID) bool {
			until, held := q.held[h] // zero, and so long over, if it is not
			return until.Sub(now) > r.rules.Early || !held && r.held[h] >= most || q.refused(h)
		})
		for _, h := range drawn {
			if _, again := q.held[h]; !again {
				r.held[h]++
			}
			q.held[h] = now.Add(r.rules.Hold)
			out = append(out, Ring{h, compute.Look{Queue: q.name, Hold: r.rules.Hold}})
		}
		r.tokens -= float64(len(drawn))
	}
	return out
}

// busy are the queues into which work comes often, or on which hosts are still held,
// the busiest first.
func (r *Ringer) busy(now time.Time) (out []*queue) {
	for name, q := range r.queues {
		switch {
		case q.rateAt(now) >= r.rules.Often || len(q.held) > 0:
			out = append(out, q)
		case len(q.works)+len(q.later) == 0:
			if q.rateAt(now) < forgotten {
				q.next = time.Time{}
				delete(r.queues, name)
			}
		}
	}
	slices.SortFunc(out, func(a, b *queue) int {
		return cmp.Or(cmp.Compare(b.rateAt(now), a.rateAt(now)), cmp.Compare(a.name, b.name))
	})
	return out
}

// forgotten is the rate below which nothing is remembered of an empty queue.
const forgotten = 1e-3

// waiters is how many hosts should wait on a queue, each of them on so many at most.
func (r *Ringer) waiters(q *queue, now time.Time) (want, most int) {
	eligible, room := r.hosts.Eligible(q.name)
	rate := q.rateAt(now)
	if room == 0 || rate < r.rules.Often {
		return 0, 0
	}
	away := max(r.rules.Away.Seconds(), r.rules.Refresh.Seconds()*float64(eligible)/float64(room))
	want = min(r.rules.Spare+int(math.Ceil(rate*away)), eligible)
	return want, max(1, int(math.Round(math.Sqrt(1000/float64(eligible)))))
}

// endHold forgets that a host is held.
func (r *Ringer) endHold(q *queue, h compute.HostID) {
	delete(q.held, h)
	if r.held[h]--; r.held[h] <= 0 {
		delete(r.held, h)
	}
}
