// SPDX-License-Identifier: Apache-2.0

// Package twins finds hosts that two agents speak for: a disk that was copied with
// its host's name on it. It is pure.
//
// An agent that was started again is another process, too, but then the one before
// is not heard any more, but for a beacon that was still on its way. So two are
// there if the older of them is heard again, and once more, after the younger was:
//
//	restart   A A A B B B     A A A B A B B
//	twins     A A B A B A …
//
// or, at once, if each says that it was told of the other (Beacon.Beside): an agent that
// has ended does not. Which is which, the journal's id and the beginning of the process
// say: a copied disk may have the journal on it.
//
// That there is one, an agent that has begun asks (Answer).
package twins

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Watch hears beacons. The zero value is ready. It is not safe for concurrent use.
type Watch struct{ hosts map[compute.HostID]*host }

type host struct {
	voices []voice // in the order in which they were first heard
	last   compute.Voice
	left   bool // its last word was that its agent, which was alone, has ended
}

type voice struct {
	compute.Voice
	began  time.Time // as its first beacon said
	first  time.Time
	at     time.Time // last heard
	again  int       // how often it was heard after a younger one, since it was last alone
	beside compute.Voice
	heir   bool      // it was heard first when nobody else was there for certain
	called time.Time // when the others were first told that it has begun; zero: not since it last asked
	told   time.Time // … and last
}

// enough is how often the older voice has to be heard again: the first time it may
// have been late.
const enough = 2

// Observe takes a beacon and answers which agents speak for its host: nothing if it is
// one, and the one that began last is last. past: it was read before the end of the
// log, where the first one left of a host may not have been its first.
func (w *Watch) Observe(b compute.Beacon, past bool, now time.Time) []compute.Voice {
	if w.hosts == nil {
		w.hosts = map[compute.HostID]*host{}
	}
	h := w.hosts[b.Host]
	if h == nil {
		h = &host{left: !past}
		w.hosts[b.Host] = h
	}
	if h.hear(b, now); b.Leaves {
		h.voices = slices.DeleteFunc(h.voices, func(v voice) bool { return v.Same(b.Voice()) })
	}
	h.left = b.Leaves && !b.Asks && len(h.voices) == 0
	return w.Of(b.Host, now)
}

func (h *host) hear(b compute.Beacon, now time.Time) {
	by := b.Voice()
	h.voices = slices.DeleteFunc(h.voices, func(v voice) bool { return now.Sub(v.at) >= compute.SilentAfter })
	// whatever there was beside it has gone: what begins now may be the same agent, started again
	if len(h.voices) == 1 {
		h.voices[0].again = 0
	}
	i := h.index(by)
	if i < 0 {
		h.voices, i = append(h.voices, voice{Voice: by, began: beganAt(b), first: now, heir: h.left}), len(h.voices)
	} else if slices.ContainsFunc(h.voices[i+1:], func(v voice) bool { return v.Same(h.last) }) {
		h.voices[i].again++
	}
	v := &h.voices[i]
	v.at, v.beside, h.last = now, b.Beside, by
	if !b.Asks {
		v.called, v.told = time.Time{}, time.Time{}
	}
	if j := h.index(v.beside); j >= 0 && h.voices[j].beside.Same(by) {
		v.again, h.voices[j].again = enough, enough
	}
}

func (h *host) index(by compute.Voice) int {
	return slices.IndexFunc(h.voices, func(v voice) bool { return v.Same(by) })
}

// Of is which agents speak for a host, as Observe answers it.
func (w *Watch) Of(id compute.HostID, now time.Time) (all []compute.Voice) {
	h := w.hosts[id]
	if h == nil {
		return nil
	}
	var speak []voice
	for i, v := range h.voices {
		if now.Sub(v.at) < compute.SilentAfter && h.beside(i, now) {
			speak = append(speak, v)
		}
	}
	if len(speak) < 2 {
		return nil
	}
	slices.SortStableFunc(speak, func(a, b voice) int { return a.began.Compare(b.began) })
	for _, v := range speak {
		all = append(all, v.Voice)
	}
	return all
}

// beganAt is when the process began that says a beacon, by the clock of the log: that of its host may be wrong, and is
// all that an agent of an older version tells.
func beganAt(b compute.Beacon) time.Time {
	if b.Age <= 0 {
		return b.Started
	}
	return b.At.Add(-b.Age)
}

// beside says whether a voice spoke while another did. One that ended before the others
// began is what one of them may have become.
func (h *host) beside(i int, now time.Time) bool {
	return h.voices[i].again >= enough || slices.ContainsFunc(h.voices[:i], func(v voice) bool {
		return now.Sub(v.at) < compute.SilentAfter && v.again >= enough && !v.at.Before(h.voices[i].first)
	})
}

// All are the hosts that several agents speak for.
func (w *Watch) All(now time.Time) (ids []compute.HostID) {
	for id := range w.hosts {
		if w.Of(id, now) != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Forget drops a host.
func (w *Watch) Forget(id compute.HostID) { delete(w.hosts, id) }
