// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// noteSavers counts a host that saves for a queue, or no more.
func (a *Advisor) noteSavers(s *compute.Saving, n int) {
	if s == nil {
		return
	}
	if a.savers[s.Queue] += uint32(n); a.savers[s.Queue] == 0 {
		delete(a.savers, s.Queue)
	}
	a.MarkDirty(s.Queue)
}

// noteTaken counts the builds that a host takes now, and no more those that it took before.
func (a *Advisor) noteTaken(h *host, now map[compute.QueueName]uint32) {
	for q, n := range h.taking {
		if a.taken[q] -= int(min(n, mostTaken)); a.taken[q] <= 0 {
			delete(a.taken, q)
		}
	}
	for q, n := range now {
		a.taken[q] += int(min(n, mostTaken))
	}
	h.taking = now
}

// mostTaken bounds of how many builds one host is believed that it takes them.
const mostTaken = 1024

// Taken is how many builds of a queue hosts prepare, or have claimed without an answer, as they say.
func (a *Advisor) Taken(q compute.QueueName) int { return a.taken[q] }

// FitsSome says whether some host, none of which not is true, fits a queue's work now, be it rung or not; nil: it is
// true of none.
func (a *Advisor) FitsSome(q compute.QueueName, not func(compute.HostID) bool) bool {
	i, listed := a.at[q]
	return listed && a.counts[i][eligible] > 0 &&
		slices.ContainsFunc(a.order, func(h *host) bool {
			return h.is[i] == eligible && (not == nil || !not(h.beacon.Host))
		})
}

// TakesWork is how many hosts take work: they are heard of, and enabled.
func (a *Advisor) TakesWork() (n int) {
	for _, h := range a.order {
		if h.takesWork() {
			n++
		}
	}
	return n
}

func (h *host) takesWork() bool {
	return !h.silent && h.beacon.State == compute.HostEnabled && !h.beacon.Asks
}

// Restarts says whether a host's agent has ended, or has begun and takes no work yet, and was heard of lately. One that
// an operator takes out of service will take none.
func (a *Advisor) Restarts(id compute.HostID) bool {
	h := a.hosts[id]
	if h == nil || h.silent || h.beacon.State == compute.HostDisabled || h.beacon.State == compute.HostDraining {
		return false
	}
	return h.beacon.Asks || h.beacon.Leaves
}

// Saves is what a host saves for, by its last beacon; nil: nothing. It is not known of a host that takes no work.
func (a *Advisor) Saves(id compute.HostID) (s *compute.Saving, known bool) {
	h := a.hosts[id]
	if h == nil || !h.takesWork() {
		return nil, false
	}
	return h.beacon.Saving, true
}

// EachSaver calls each with every host that saves, and when it was heard.
func (a *Advisor) EachSaver(each func(compute.HostID, compute.Saving, time.Time)) {
	if len(a.savers) == 0 {
		return
	}
	for _, h := range a.order {
		if s := h.beacon.Saving; s != nil && h.takesWork() {
			each(h.beacon.Host, *s, h.heard)
		}
	}
}

// IsFull says whether a queue's work does not fit a host now, and would when it is emptier.
func (a *Advisor) IsFull(q compute.QueueName, id compute.HostID) bool {
	i, listed := a.at[q]
	h := a.hosts[id]
	return listed && h != nil && h.is[i] == full
}

// MakesRoom says whether a queue's work would fit a host if its preemptible machines were gone, as far as sums tell,
// and whether the host can have them taken away.
func (a *Advisor) MakesRoom(q compute.QueueName, id compute.HostID) bool {
	i, listed := a.at[q]
	h := a.hosts[id]
	if !listed || h == nil || !h.beacon.Preempts || h.beacon.Preemptible.IsZero() || !h.takesWork() || h.is[i] != full {
		return false
	}
	if _, ever := h.missing(&a.queues[i], a.names); !ever {
		return false
	}
	for c, n := range a.names.classes {
		for _, x := range a.queues[i].needs {
			if x.class == n && x.amount > h.left[n]+h.beacon.Preemptible[c] {
				return false
			}
		}
	}
	return true
}

// Full calls each with every host that would fit a queue's work when emptier, can be told to save, and saves for none;
// missing is how much of what it needs is not free there, of the class of which most is, from 0 to 1. A host on which
// machines that Berth did not start leave too little is none of them: it never has the room.
func (a *Advisor) Full(q compute.QueueName, each func(h compute.HostID, missing float64)) {
	i, listed := a.at[q]
	if !listed || a.counts[i][full] == 0 {
		return
	}
	for _, h := range a.order {
		if h.is[i] != full || !h.stream || !h.beacon.Saves || h.beacon.Saving != nil || !h.takesWork() {
			continue
		}
		if missing, ever := h.missing(&a.queues[i], a.names); ever {
			each(h.beacon.Host, missing)
		}
	}
}

// missing is how much of what a queue needs a host has not free, and whether it ever may have it.
func (h *host) missing(q *queue, n *names) (most float64, ever bool) {
	for c, i := range n.classes {
		for _, x := range q.needs {
			if x.class != i || x.amount <= 0 {
				continue
			}
			if h.empty[i]-h.beacon.Inventory.Unmanaged[c] < x.amount {
				return 0, false
			}
			most = max(most, float64(x.amount-max(0, h.free[i]))/float64(x.amount))
		}
	}
	return most, true
}
