// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

// idle is since when a host could have work, and what of other hosts it had to walk past since.
type idle struct {
	since  time.Time
	behind int
}

// pair is work and a host that may have it.
type pair struct {
	work *piece
	host *host
}

const (
	idleTime    = 7500 * time.Millisecond // as in the simulation, with what messages take
	savingHeard = 2 * time.Second
	firstRing   = 3 * time.Second  // where rings are lost: how long the first may count,
	rungAgain   = 16 * time.Second // and a later one,
	unrungTime  = 70 * time.Second // and until hosts find work without any
)

// saves notes that a host was told to save room.
func (h *host) saves(l compute.Look) {
	until := h.w.now.Add(l.Save + savingHeard)
	if h.saved == nil {
		h.saved = map[compute.QueueName]time.Time{}
	}
	h.saved[l.Queue] = latest(h.saved[l.Queue], until)
}

func traits(h *host) map[compute.Trait]bool { return map[compute.Trait]bool{fast: len(h.traits) > 0} }

// savesFor says whether a host may save room for other work than that of a queue.
func (h *host) savesFor(q compute.QueueName) bool {
	for name, until := range h.saved {
		if name != q && h.w.now.Before(until) {
			return true
		}
	}
	return false
}

// may says whether a host may have work now, and has room for it.
func (h *host) may(x *piece) bool {
	fits := x.queue.Resources[compute.VCPU] <= h.has-h.uses && x.queue.Accepts(traits(h))
	return fits && !slices.Contains(x.avoid, h.id) && !h.savesFor(x.queue.Name)
}

// most is how long a host may do nothing, and how much longer for each piece in the queue that it has to leave to
// others.
func (w *world) most() (most, leftTwice time.Duration) {
	const adviceTime = 45 * time.Second // until a host reads advice
	listed := time.Duration(len(w.queues)/offer.MostListed+1) * longFetch
	switch {
	case w.gone && len(w.hosts) > 2:
		return idleTime + adviceTime + compute.RingsLast + 4*compute.SampleHolds + listed, 2 * listed
	case w.gone:
		return idleTime + adviceTime + compute.RingsLast + compute.SampleHolds + listed, 2 * listed
	case w.lost > 0:
		return idleTime + min(max(2*w.lost, firstRing), w.lost+rungAgain, unrungTime), 4 * time.Second
	}
	return idleTime, 4 * time.Second
}

// judge compares with what hosts should do: one that has room for work which waits, and may have it, takes some, of
// this queue or another.
func (w *world) judge() {
	for _, h := range w.hosts {
		if h.building > 0 || h.closed {
			h.did = w.now
		}
	}
	most, leftTwice := w.most()
	for _, x := range w.work {
		behind := 0
		for _, y := range w.waits(x.queue.Name) {
			if len(y.avoid)+len(y.failed) > 0 {
				behind++
			}
		}
		for _, h := range w.hosts {
			p := pair{x, h}
			taken := x.locked != "" && !slices.Contains(x.avoid, x.locked) // its claim is on its way
			is, known := w.idle[p]
			switch {
			case !h.may(x) || taken:
				delete(w.idle, p)
			case !known || is.since.Before(h.did):
				w.idle[p] = idle{w.now, behind}
			case w.now.Sub(is.since) > most+time.Duration(is.behind)*leftTwice:
				w.wrong("%s waits in %s, and %s has room and does nothing from %s on", x.key, x.queue.Name, h.id,
					is.since.Format("04:05.000"))
			case behind > is.behind:
				w.idle[p] = idle{is.since, behind}
			}
		}
	}
}
