// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

const ms = time.Millisecond

func TestOneBuildRingsTheFirstFew(t *testing.T) {
	w := newWorld(t, 10)
	key := w.came()
	w.rung(2)
	w.rung(0)
	w.claimed(key)
	if next := w.Next(); !next.IsZero() {
		t.Errorf("nothing waits, and it wants to be asked at %v", next)
	}
	w.pass(time.Minute)
	w.rung(0)
}

// In vain, more are rung, twice as many more each time, after twice as long.
func TestInVainMoreAreRungLaterAndLater(t *testing.T) {
	w := newWorld(t, 1000)
	w.came()
	w.rung(2)
	for _, round := range []struct {
		pause time.Duration
		rung  int
	}{
		{500 * ms, 4}, {1000 * ms, 6}, {2000 * ms, 10}, {4000 * ms, 18}, {8000 * ms, 34},
		{15000 * ms, 66}, {15000 * ms, 130}, {15000 * ms, 258},
	} {
		w.next(round.pause)
		w.rung(round.rung)
	}
}

// Nobody is rung a second time before its ring counts no more.
func TestNoHostIsRungTwiceAtATime(t *testing.T) {
	w := newWorld(t, 5)
	w.came()
	looks := w.rung(2)
	w.came()
	looks = append(looks, w.rung(2)...)
	w.came()
	looks = append(looks, w.rung(1)...) // there are no more
	if slices.Sort(looks); !slices.Equal(looks, ids(5)) {
		t.Error(looks)
	}
	w.next(500 * ms)
	w.rung(5)
}

func TestProgressResets(t *testing.T) {
	w := newWorld(t, 100, func(r *Rules) { r.Slowest = 100 * ms })
	a := w.came()
	w.came()
	w.rung(4)
	for _, pause := range []time.Duration{500 * ms, 1000 * ms, 2000 * ms} {
		w.next(pause)
		w.looks()
	}
	w.Went("q", a, false, w.now) // deleted: that is no progress
	w.came()
	w.rung(0)
	w.next(4000 * ms)
	w.rung(4 + 16)
	w.claimed("k2")
	w.next(500 * ms)
	w.rung(2 + 2)
}

// Where work lies that no host takes, rings count for long. The host whose ring led to a claim is rung again for what
// comes next, and not once its ring has counted for as long.
func TestAClaimEndsTheWaitBehindWorkThatNobodyTakes(t *testing.T) {
	w := newWorld(t, 1)
	w.came(func(x *Work) { x.Kept = func(compute.HostID) bool { return true } })
	w.until(time.Minute) // in vain
	key := w.came()
	w.rung(1)
	w.pass(100 * ms)
	w.claimed(key)
	w.came()
	w.rung(0) // it may have found that as well
	w.next(500 * ms)
	w.rung(1)
}

// A claim of before is no progress of what comes after it.
func TestAClaimOfBeforeIsNoProgress(t *testing.T) {
	w := newWorld(t, 100)
	key := w.came()
	w.rung(2)
	w.pass(100 * ms)
	w.claimed(key)
	w.came()
	w.rung(2)
	w.next(500 * ms)
	w.rung(4)
}

func TestALotOfWorkRingsFewerHostsForEach(t *testing.T) {
	w := newWorld(t, 1000)
	for range 100 {
		w.came()
	}
	w.rung(2*4 + 100/4)
}

func TestWorkIsRungForWhenItIsDue(t *testing.T) {
	w := newWorld(t, 10)
	later := func(d time.Duration) func(*Work) { return func(x *Work) { x.Due = zero.Add(d) } }
	gone := w.came(later(3 * time.Second))
	w.came(later(5 * time.Second))
	w.came(later(4 * time.Second))
	w.rung(0)
	w.Went("q", gone, false, w.now)
	if w.Next().After(zero.Add(4 * time.Second)) {
		t.Fatalf("it wants to be asked at %v", w.Next())
	}
	w.until(3900 * ms)
	w.next(100 * ms)
	w.rung(2)
	w.claimed("k3")
	w.next(time.Second)
	w.rung(2)
}

func TestClaimsThatTakeLongHaveRingsCountLonger(t *testing.T) {
	w := newWorld(t, 100)
	for range 50 {
		key := w.came(func(x *Work) { x.Due = zero.Add(-time.Hour) }) // by a clock that is an hour behind
		w.looks()
		w.pass(400 * ms)
		w.claimed(key)
		w.pass(time.Minute)
		w.looks()
	}
	w.came()
	w.rung(2)
	if wait := w.Next().Sub(w.now); wait < 1500*ms || wait > 1600*ms {
		t.Errorf("a ring counts for %s where claims take 400 ms", wait)
	}
}

func TestUnwelcomeHosts(t *testing.T) {
	avoid := func(some ...compute.HostID) func(*Work) { return func(x *Work) { x.Avoid = some } }
	failed := func(some ...compute.HostID) func(*Work) { return func(x *Work) { x.Failed = some } }
	both := func(x *Work) { avoid("h0")(x); failed("h1")(x) }
	for name, c := range map[string]struct {
		hosts int
		works []func(*Work)
		rung  []compute.HostID // in any order
	}{
		"avoided":                       {3, []func(*Work){avoid("h0")}, []compute.HostID{"h1", "h2"}},
		"all avoided":                   {2, []func(*Work){avoid("h0", "h1")}, nil},
		"failed there":                  {3, []func(*Work){failed("h1")}, []compute.HostID{"h0", "h2"}},
		"failed there, and nobody else": {2, []func(*Work){failed("h0", "h1")}, []compute.HostID{"h0", "h1"}},
		"failed there, avoided here":    {2, []func(*Work){both}, []compute.HostID{"h1"}},
		"each avoids another":           {2, []func(*Work){avoid("h0"), avoid("h1")}, []compute.HostID{"h0", "h1"}},
		"one of two does not mind": {
			2, []func(*Work){avoid("h0", "h1"), func(*Work) {}}, []compute.HostID{"h0", "h1"},
		},
		"one there, failed on the other": {2, []func(*Work){failed("h0")}, []compute.HostID{"h1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.hosts)
			for _, f := range c.works {
				w.came(f)
			}
			looks := w.looks()
			if slices.Sort(looks); !slices.Equal(looks, c.rung) {
				t.Errorf("rung are %v, and not %v", looks, c.rung)
			}
		})
	}
}

// What does not mind where it runs goes, and what is left does.
func TestWhatIsLeftMinds(t *testing.T) {
	w := newWorld(t, 2)
	w.came(func(x *Work) { x.Avoid = ids(2) })
	key := w.came()
	w.rung(2)
	w.claimed(key)
	if looks := w.until(time.Minute); len(looks) != 0 {
		t.Errorf("%v are rung for work that avoids them", looks)
	}
}

func TestAHostThatRoseIsRung(t *testing.T) {
	w := newWorld(t, 40)
	w.came()
	w.until(10 * time.Second) // many were rung in vain, a moment ago
	w.hosts.fit["q"] = append(w.hosts.fit["q"], "new")
	w.NowFits("q", "new", w.now)
	w.NowFits("q", "new", w.now)
	w.next(250 * ms)
	looks := w.looks()
	if n := len(looks); !slices.Contains(looks, "new") ||
		len(slices.Compact(slices.Sorted(slices.Values(looks)))) != n {
		t.Errorf("rung are %v", looks)
	}
	if rose := w.queues["q"].nowFit; len(rose) != 0 {
		t.Errorf("%v are still to be rung for that they rose", rose)
	}
	w.NowFits("q", "new", w.now) // it is rung already
	w.NowFits("none", "new", w.now)
	w.pass(250 * ms)
	if looks := w.looks(); slices.Contains(looks, "new") {
		t.Errorf("rung are %v", looks)
	}
}

// A host that rose is not rung if it is full again, or all the work avoids it.
func TestAHostThatRoseInVain(t *testing.T) {
	w := newWorld(t, 0)
	w.came(func(x *Work) { x.Avoid = []compute.HostID{"avoided"} })
	w.looks()
	w.hosts.fit["q"] = []compute.HostID{"avoided"}
	w.NowFits("q", "full", w.now)
	w.NowFits("q", "avoided", w.now)
	if looks := w.until(time.Minute); len(looks) != 0 {
		t.Errorf("rung are %v", looks)
	}
}

// Hosts that are full do not count as rung: others that have room are rung at once.
func TestAHostThatIsFullCountsNoMore(t *testing.T) {
	w := newWorld(t, 2)
	w.came()
	w.came()
	w.rung(2)
	w.hosts.fit["q"] = []compute.HostID{"h2"}
	w.claimed("k1")
	w.came()
	if looks := w.rung(1); looks[0] != "h2" {
		t.Errorf("rung are %v", looks)
	}
}

// All hosts that rise at once are not rung for one build.
func TestNotAllThatRoseAreRung(t *testing.T) {
	w := newWorld(t, 0)
	w.came()
	w.rung(0)
	w.hosts.fit["q"] = ids(100)
	for _, h := range ids(100) {
		w.NowFits("q", h, w.now)
	}
	w.next(250 * ms)
	w.rung(2)
}

func TestRingsAreBounded(t *testing.T) {
	w := newWorld(t, 1000, func(r *Rules) { r.AtOnce, r.PerSecond = 10, 100 })
	for range 200 {
		w.came()
	}
	w.rung(10)
	w.hosts.fit["other"] = ids(1000)
	w.Came("other", Work{Key: "x"}, w.now)
	w.rung(0)
	total := len(w.until(10 * time.Second))
	if total > 1000 || total < 50 {
		t.Errorf("%d rings in 10 s", total)
	}
	w.pass(time.Hour)
	if n := len(w.looks()); n > 10 {
		t.Errorf("%d are rung at once", n)
	}
}

func TestForget(t *testing.T) {
	w := newWorld(t, 3, holding)
	w.stream(5, 5*time.Second)
	if len(w.held) == 0 {
		t.Fatal("nobody is held")
	}
	w.Forget("q")
	w.Forget("q")
	w.Forget("none")
	if len(w.held)+len(w.queues) != 0 {
		t.Errorf("%d held, %d queues", len(w.held), len(w.queues))
	}
	key := w.came()
	w.rung(2)
	w.Forget("q") // the queue is made anew, and the work lies there still
	w.next(500 * ms)
	w.rung(3)
	w.claimed(key)
	w.Forget("q")
	if len(w.queues) != 0 || !w.Next().IsZero() {
		t.Errorf("%d queues, next %v", len(w.queues), w.Next())
	}
}

// A queue manager that is elected counts on nobody's having been rung.
func TestAgain(t *testing.T) {
	w := newWorld(t, 10, holding)
	w.stream(5, 5*time.Second)
	w.came()
	w.came(func(x *Work) { x.Due = w.now.Add(time.Minute) })
	w.until(20 * time.Second)
	w.hosts.fit["later"] = ids(10)
	w.Came("later", Work{Key: "later", Due: w.now.Add(time.Hour)}, w.now)
	w.Reset(w.now)
	if len(w.held) != 0 {
		t.Errorf("held are %v", w.held)
	}
	if next := w.queues["later"].next; !next.Equal(w.now.Add(time.Hour)) {
		t.Errorf("a queue in which nothing lies is looked at at %v", next)
	}
	w.rung(2)
	w.next(500 * ms)
	w.rung(4)
	w.claimed("k26")
	if looks := w.until(time.Minute); len(looks) < 2 {
		t.Errorf("what was due later rang %v", looks)
	}
}

// Work is due by the log: by the caller's clock when Ahead says, and at another time once Ahead says something else.
func TestWorkIsDueByTheLog(t *testing.T) {
	w := newWorld(t, 10)
	w.Ahead(time.Hour)
	w.came(func(x *Work) { x.Due = w.now.Add(-time.Hour) })
	w.rung(2)
	w.claimed("k1")
	w.came(func(x *Work) { x.Due = w.now.Add(time.Minute - time.Hour) })
	w.Ahead(time.Hour + aheadMatters/2) // too little to look through all queues for
	if next := w.Next(); !next.Equal(w.now.Add(time.Minute)) {
		t.Errorf("next is in %s", next.Sub(w.now))
	}
	w.Ahead(time.Hour - 30*time.Second)
	if next := w.Next(); !next.Equal(w.now.Add(30 * time.Second)) {
		t.Errorf("with less ahead next is in %s", next.Sub(w.now))
	}
	w.Ahead(time.Hour)
	w.pass(30 * time.Second)
	w.rung(0) // the timer of before comes, and the work is not due
	w.next(30 * time.Second)
	w.rung(2)
}

func TestWhatIsNotKnownWent(t *testing.T) {
	w := newWorld(t, 3)
	w.Went("none", "k", true, w.now)
	w.Went("q", "k", true, w.now)
	key := w.came()
	w.rung(2)
	w.Went("q", "k", true, w.now)
	w.claimed(key)
	w.claimed(key)
	if len(w.works()) != 0 || !w.Next().IsZero() {
		t.Errorf("waiting is %v, next %v", w.works(), w.Next())
	}
	if w.claims != 0 {
		t.Errorf("claims take %s, and none took any time", w.claims)
	}
	w.NowFits("q", "h1", w.now)
	if !w.Next().IsZero() {
		t.Errorf("no work lies there, and it wants to be asked at %v", w.Next())
	}
}

func (w *world) works() (out []compute.QueueName) {
	w.EachWaiting(func(q compute.QueueName) { out = append(out, q) })
	return out
}

// Nothing is remembered of what is over.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t, 10, holding)
	for _, q := range []compute.QueueName{"a", "b", "c"} {
		w.hosts.fit[q] = ids(10)
		w.Came(q, Work{Key: "k", Due: w.now.Add(time.Second)}, w.now)
		w.Came(q, Work{Key: "l"}, w.now)
	}
	w.until(10 * time.Second)
	for _, q := range []compute.QueueName{"a", "b", "c"} {
		w.Went(q, "k", true, w.now)
		w.Went(q, "l", false, w.now)
	}
	w.stream(2, 10*time.Second)
	for range 3 {
		w.until(time.Minute)
	}
	if len(w.queues)+len(w.held)+len(w.timers) != 0 {
		t.Errorf("left are %d queues, %d holds, %d turns", len(w.queues), len(w.held), len(w.timers))
	}
}

// A queue manager that stands by is not asked for rings: it remembers what waits, and
// nothing of what came and went.
func TestStandingByTakesNoRoom(t *testing.T) {
	w := newWorld(t, 10, holding)
	waits := w.came()
	w.hosts.fit["other"] = ids(10)
	for range 100_000 {
		key := w.came()
		w.Came("other", Work{Key: key}, w.now)
		w.pass(ms)
		w.claimed(key)
		w.Went("other", key, true, w.now)
		w.NowFits("q", "h1", w.now)
	}
	if len(w.timers) > 100 || len(w.queues["q"].nowFit) > 2 {
		t.Errorf("%d turns, and %v rose", len(w.timers), w.queues["q"].nowFit)
	}
	w.Reset(w.now)
	w.rung(2)
	w.claimed(waits)
}
