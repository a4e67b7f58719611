// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// apart has work want a host that has none of its group, as long as is says so.
func apart(is *bool) func(*Work) { return func(w *Work) { w.Apart = func() bool { return *is } } }

// Each build that wants a host of its own has one rung, of many at once, beside those for other work; once it seems
// that there are no such hosts they do not count.
func TestOneHostForEachThatWantsItsOwn(t *testing.T) {
	yes := true
	for n, want := range map[int]int{1: 1, 20: 20, mostApart: mostApart, 3 * mostApart: mostApart} {
		w := newWorld(t, 1000)
		for range n {
			w.came(apart(&yes))
		}
		w.rung(want)
	}
	w := newWorld(t, 1000)
	for range 8 {
		w.came()
		w.came(apart(&yes))
	}
	w.rung(2*4 + 8/4 + 8)
	w = newWorld(t, 1000)
	for range 8 {
		w.came(apart(&yes))
	}
	w.rung(8)
	w.next(500 * ms)
	w.rung(2) // as for any that was rung for in vain
}

// What wants a host of its own does not any more once it is claimed, nor once its rule is another.
func TestWorkThatDoesNotWantItsOwnHostAnyMore(t *testing.T) {
	is := true
	w := newWorld(t, 1000)
	var keys []string
	for range 20 {
		keys = append(keys, w.came(apart(&is)))
	}
	is = false // of which nobody has said anything yet
	w.rung(20)
	w.claimed(keys[0])
	if got := w.queues["q"].apart; got != 19 {
		t.Errorf("%d want a host of their own", got)
	}
	w.Again("q", w.now)
	w.next(250 * ms)
	w.rung(2*4 + 19/4)
	is = true
	w.Again("q", w.now)
	w.next(250 * ms)
	w.rung(19)
	w.Again("none", w.now)
	w = newWorld(t, 1000)
	is = false
	key := w.came(apart(&is))
	w.rung(2)
	w.claimed(key)
	w.until(time.Minute)
	if w.Again("q", w.now); !w.Next().IsZero() {
		t.Error("a queue without work is looked at again")
	}
}

// What was rung for in vain counts anew once hosts may take it.
func TestHostsThatMayTakeItNow(t *testing.T) {
	yes := true
	w := newWorld(t, 1000)
	for range 20 {
		w.came(apart(&yes))
	}
	w.rung(20)
	w.until(20 * time.Second)
	w.Again("q", w.now)
	w.next(250 * ms)
	w.rung(20)
}

// Hosts that all the work is kept from are not rung, until they are allowed.
func TestHostsThatWorkIsKeptFrom(t *testing.T) {
	kept := map[compute.HostID]bool{"h0": true, "h1": true}
	w := newWorld(t, 3)
	w.came(func(x *Work) { x.Kept = func(h compute.HostID) bool { return kept[h] } })
	if got := w.rung(1); got[0] != "h2" {
		t.Errorf("rung is %v", got)
	}
	kept["h2"] = true
	w.now = w.now.Add(time.Minute)
	w.rung(0)
	clear(kept)
	w.Again("q", w.now)
	w.next(250 * ms)
	if got := w.rung(2); slices.Equal(got, []compute.HostID{"h2"}) {
		t.Errorf("rung is %v", got)
	}
}
