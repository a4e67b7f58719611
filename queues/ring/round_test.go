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

// Where much work lies, more of it is looked at only some time after the last round.
func TestManyBuildsAreRoundedTogether(t *testing.T) {
	w := newWorld(t, 1000)
	for range deep - 1 {
		w.came()
	}
	w.rung(2*4 + (deep-1)/4)
	w.came() // now there are 32
	w.next(0)
	w.rung(1)
	w.came()
	w.next(deepEvery)
	w.rung(0)
	for range 3 {
		w.came()
	}
	w.next(deepEvery)
	w.rung(1)
	w.pass(4 * deepEvery)
	w.came()
	w.next(0) // not in the past
}

// What is over is over: work that comes after it begins anew.
func TestAnEmptyQueueBeginsAnew(t *testing.T) {
	w := newWorld(t, 1000)
	key := w.came()
	w.until(10 * time.Second) // in vain
	w.Went("q", key, false, w.now)
	w.came()
	w.rung(2)
	w.next(500 * ms)
	w.rung(4)
}

// What was deleted says nothing of how long claims take.
func TestWhatIsDeletedTakesNoTime(t *testing.T) {
	w := newWorld(t, 100)
	for range 20 {
		key := w.came()
		w.looks()
		w.pass(2 * time.Second)
		w.Went("q", key, false, w.now)
	}
	w.came()
	w.rung(2)
	w.next(500 * ms)
}

// Progress is what was claimed since the last round, whatever was deleted after that,
// and it is progress once.
func TestProgressCountsOnce(t *testing.T) {
	w := newWorld(t, 100, func(r *Rules) { r.Slowest = 100 * ms })
	a, b := w.came(), w.came()
	w.came()
	w.rung(6)
	w.claimed(a)
	w.Went("q", b, false, w.now)
	w.next(500 * ms)
	w.rung(2)
	w.next(500 * ms)
	w.rung(4)
}

// A round is judged a whole patience after the last one was, whatever came meanwhile.
func TestARoundIsJudgedInItsTime(t *testing.T) {
	w := newWorld(t, 100)
	w.came()
	w.rung(2)
	w.next(500 * ms)
	w.rung(4)
	w.pass(600 * ms)
	w.came()
	w.rung(2)
}

// A queue manager that is elected takes no progress over from before.
func TestAgainForgetsProgress(t *testing.T) {
	w := newWorld(t, 100, func(r *Rules) { r.Slowest = 100 * ms })
	a := w.came()
	w.came()
	w.rung(4)
	w.claimed(a)
	w.Reset(w.now)
	w.rung(2)
	w.next(500 * ms)
	w.rung(4)
}

// Of a queue that is made anew nobody counts as rung.
func TestForgetForgetsRings(t *testing.T) {
	w := newWorld(t, 10)
	w.came()
	w.rung(2)
	w.Forget("q")
	w.came()
	w.rung(4)
}

// What was to come later and was deleted is not waited for once its queue is forgotten.
func TestNothingIsAskedForWhatIsForgotten(t *testing.T) {
	for name, forget := range map[string]func(*world){
		"removed": func(w *world) { w.Forget("q") },
		"empty":   func(w *world) { w.looks() },
	} {
		w := newWorld(t, 10)
		key := w.came(func(x *Work) { x.Due = zero.Add(time.Hour) })
		w.Went("q", key, false, w.now)
		if forget(w); len(w.queues) != 0 || !w.Next().IsZero() {
			t.Errorf("%s: %d queues, and it wants to be asked at %v", name, len(w.queues), w.Next())
		}
	}
}

// While a host is rung, those on which the work failed are not.
func TestFailedHostsAreTheLast(t *testing.T) {
	w := newWorld(t, 2)
	failed := func(x *Work) { x.Failed = []compute.HostID{"h0"} }
	w.came(failed)
	w.rung(1)
	w.came(failed)
	w.rung(0)
}

func TestRisenHostsTakeTokens(t *testing.T) {
	w := newWorld(t, 0, func(r *Rules) { r.AtOnce, r.PerSecond = 1, 1 })
	w.came()
	w.rung(0)
	w.hosts.fit["q"] = ids(2)
	w.NowFits("q", "h0", w.now)
	w.NowFits("q", "h1", w.now)
	w.next(250 * ms)
	w.rung(1)
}

func TestWorksAreSaid(t *testing.T) {
	w := newWorld(t, 0)
	w.came()
	if works := w.works(); !slices.Equal(works, []compute.QueueName{"q"}) {
		t.Errorf("work lies in %v", works)
	}
}

// Queues that are to be looked at at the same time are, by name.
func TestQueuesByName(t *testing.T) {
	w := newWorld(t, 0)
	for _, q := range []compute.QueueName{"c", "a", "d", "b"} {
		w.hosts.fit[q] = ids(1)
		w.Came(q, Work{Key: "k"}, w.now)
	}
	var order []compute.QueueName
	for _, r := range w.Rings(w.now) {
		order = append(order, r.Look.Queue)
	}
	if !slices.IsSorted(order) || len(order) != 4 {
		t.Errorf("rung for %v", order)
	}
}

// Whatever was put off and brought forward, it wants to be asked when the first queue
// is to be looked at.
func TestTheFirstTurnIsFirst(t *testing.T) {
	w := newWorld(t, 0)
	lots := rand.New(rand.NewPCG(3, 4))
	for round := range 10 {
		for i := range 200 {
			due := zero.Add(time.Duration(10-round) * time.Hour).Add(time.Duration(lots.IntN(3600)) * time.Second)
			w.Came(queueName(i), Work{Key: due.String(), Due: due}, w.now)
		}
	}
	for range 500 {
		first := w.Next()
		for name, q := range w.queues {
			if !q.next.IsZero() && q.next.Before(first) {
				t.Fatalf("%s is to be looked at at %v, and it wants to be asked at %v", name, q.next, first)
			}
		}
		w.now = first
		w.looks()
	}
}

// A host is left out only if all work in the queue avoids it, or failed there.
func TestOneThatWelcomesAHostIsEnough(t *testing.T) {
	const host = "h1"
	for range 50 { // work is asked in any order
		q := &queue{works: map[string]Work{
			"a": {Key: "a", Avoid: []compute.HostID{host}},
			"b": {Key: "b", Avoid: []compute.HostID{"h2"}},
		}, picky: 2}
		if q.refused(host) {
			t.Fatal("one of two avoids another host alone, and the host is left out")
		}
		q.works["b"] = Work{Key: "b", Failed: []compute.HostID{host}}
		if !q.refused(host) {
			t.Fatal("all avoid it, or failed there, and it is not left out")
		}
	}
	q := &queue{works: map[string]Work{"any": {Key: "any"}}}
	for i := range 50 * maxAsked {
		key := fmt.Sprint(i)
		q.works[key] = Work{Key: key, Avoid: []compute.HostID{host}}
		q.picky++
	}
	for range 20 { // the one is hardly ever among those that are asked
		if q.refused(host) {
			t.Fatal("one goes anywhere, and the host is left out")
		}
	}
}

// A host that was rung and takes other work makes room for another at once: the work does not wait until the ring
// counts no more. One that was not rung changes nothing.
func TestAHostThatTakesOtherWorkIsReplaced(t *testing.T) {
	w := newWorld(t, 3, func(r *Rules) { r.Soonest = 4 * time.Second })
	w.came()
	rung := w.rung(2)
	full := func(h compute.HostID) {
		w.hosts.fit["q"] = slices.DeleteFunc(w.hosts.fit["q"], func(x compute.HostID) bool { return x == h })
		w.NoLongerFits("q", h, w.now)
	}
	w.pass(time.Second)
	full("another")
	w.next(3 * time.Second)
	w.now = w.now.Add(-3 * time.Second)
	full(rung[0])
	w.next(2 * time.Second)
	if left := w.rung(1); left[0] == rung[1] {
		t.Errorf("%s is rung again", left[0])
	}
}
