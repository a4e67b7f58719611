// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// hosts are those that fit each queue, in a fixed order; they are drawn by lot.
type hosts struct {
	fit  map[compute.QueueName][]compute.HostID
	room uint64 // of each host
	lots *rand.Rand
}

func (h *hosts) Eligible(q compute.QueueName) (int, uint64) {
	return len(h.fit[q]), h.room * uint64(len(h.fit[q]))
}

func (h *hosts) Fits(q compute.QueueName, id compute.HostID) bool {
	return slices.Contains(h.fit[q], id)
}

func (h *hosts) Sample(q compute.QueueName, n int, not func(compute.HostID) bool) (out []compute.HostID) {
	if n < 0 {
		panic("less than nobody is to be drawn")
	}
	for _, i := range h.lots.Perm(len(h.fit[q])) {
		if id := h.fit[q][i]; len(out) < n && !not(id) {
			out = append(out, id)
		}
	}
	return out
}

// world is a ringer, its hosts, and what time it is.
type world struct {
	*Ringer
	t     testing.TB
	hosts *hosts
	now   time.Time
	keys  int
}

// newWorld has so many hosts, h0 the first, which all fit queue q. None is held.
func newWorld(t testing.TB, n int, change ...func(*Rules)) *world {
	h := &hosts{fit: map[compute.QueueName][]compute.HostID{"q": ids(n)}, room: 4, lots: rand.New(rand.NewPCG(1, 2))}
	rules := DefaultRules()
	rules.Often = 1e9
	for _, f := range change {
		f(&rules)
	}
	return &world{Ringer: New(rules, h), t: t, hosts: h, now: zero}
}

// holding has hosts held as they usually are.
func holding(r *Rules) { r.Often = DefaultRules().Often }

func ids(n int) (out []compute.HostID) {
	for i := range n {
		out = append(out, compute.HostID(fmt.Sprint("h", i)))
	}
	return out
}

// came has work come into queue q, and answers its key.
func (w *world) came(change ...func(*Work)) string {
	w.keys++
	x := Work{Key: fmt.Sprint("k", w.keys)}
	for _, f := range change {
		f(&x)
	}
	w.Came("q", x, w.now)
	return x.Key
}

func (w *world) claimed(key string) { w.Went("q", key, true, w.now) }

// rings are those of now, looks and holds apart.
func (w *world) rings() (looks, holds []compute.HostID) {
	for _, r := range w.Rings(w.now) {
		if r.Look.Hold > 0 {
			holds = append(holds, r.Host)
		} else {
			looks = append(looks, r.Host)
		}
	}
	return looks, holds
}

// looks are the hosts rung now.
func (w *world) looks() []compute.HostID {
	looks, _ := w.rings()
	return looks
}

// rung expects so many looks now.
func (w *world) rung(n int) []compute.HostID {
	w.t.Helper()
	looks := w.looks()
	if len(looks) != n {
		w.t.Fatalf("after %s %v are rung, and not %d", w.now.Sub(zero), looks, n)
	}
	return looks
}

// next goes to where the ringer wants to be asked next, and expects that to be so much later.
func (w *world) next(after time.Duration) {
	w.t.Helper()
	next := w.Next()
	if next.Sub(w.now) != after {
		w.t.Fatalf("after %s it wants to be asked at %v, and not %s later", w.now.Sub(zero), next, after)
	}
	w.now = next
}

// until goes on for so long, and answers which hosts were rung meanwhile.
func (w *world) until(d time.Duration) (looks []compute.HostID) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		looks = append(looks, w.looks()...)
		next := w.Next()
		if next.IsZero() || next.After(end) {
			w.now = end
			return looks
		}
		if w.now = next; !w.now.After(zero) {
			w.t.Fatal("time goes backwards")
		}
	}
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// stream has builds come at a rate for so long, each claimed at once.
func (w *world) stream(rate float64, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.pass(time.Duration(float64(time.Second) / rate)) {
		w.claimed(w.came())
		w.rings()
	}
}
