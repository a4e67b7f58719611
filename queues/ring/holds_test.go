// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// holders are the hosts that wait on queue q now, by what they were told.
func (w *world) holders() (out []compute.HostID) {
	if q := w.queues["q"]; q != nil {
		for h, until := range q.held {
			if until.After(w.now) {
				out = append(out, h)
			}
		}
	}
	slices.Sort(out)
	return out
}

// One build rings nobody where hosts wait on the queue, until they have left it there
// for as long as a ring counts.
func TestAQueueOnWhichHostsWaitIsNotRungForEachBuild(t *testing.T) {
	w := newWorld(t, 100, holding)
	w.stream(2, 20*time.Second)
	if len(w.holders()) < 3 {
		t.Fatalf("%v wait", w.holders())
	}
	key := w.came()
	w.NowFits("q", w.holders()[0], w.now) // it waits there already
	if looks := w.until(400 * ms); len(looks) != 0 {
		t.Fatalf("%v are rung for work that the hosts that wait will take", looks)
	}
	other := slices.IndexFunc(ids(100), func(h compute.HostID) bool { return !slices.Contains(w.holders(), h) })
	w.NowFits("q", ids(100)[other], w.now) // for work that is gone a moment later
	w.claimed(key)
	w.came()
	if looks := w.until(400 * ms); len(looks) != 0 {
		t.Fatalf("%v are rung for work that the hosts that wait will take", looks)
	}
	if looks := w.until(500 * ms); len(looks) != 4 {
		t.Errorf("%v are rung for work that the hosts that wait left there", looks)
	}
}

// As many hosts are held as the rate needs, one more or less.
func TestAsManyAreHeldAsShouldBe(t *testing.T) {
	for _, c := range []struct {
		hosts int
		room  uint64
		rate  float64
		want  int
	}{
		{1000, 100, 20, 2 + 20/4},  // each is away for a quarter of a second
		{1000, 2, 20, 2 + 20},      // full after two: replaced after two seconds
		{10, 2, 20, 10},            // never more than there are
		{1000, 100, 0.1, 0},        // nobody waits for so little
		{1000, 100, 1, 2 + 1},      //
		{1000, 1, 100, 2 + 100*2},  //
		{1000, 1000, 4, 2 + 1},     //
		{1, 1000, 100, 1},          //
		{1000, 50, 200, 2 + 200/4}, //
	} {
		w := newWorld(t, c.hosts, holding)
		w.hosts.room = c.room
		w.stream(c.rate, 60*time.Second)
		got, q := len(w.holders()), w.queues["q"]
		if want, _ := w.waiters(q, w.now); got < want || c.want > 0 && got > want+1+want/4 {
			t.Errorf("%+v: %d wait, and not %d", c, got, want)
		}
		if off := got - c.want; off < -1-c.want/10 || off > 1+c.want/4 {
			t.Errorf("%+v: %d wait", c, got)
		}
	}
}

// Exactly as many are drawn as are missing, at most once a second.
func TestExactlyTheMissingAreDrawn(t *testing.T) {
	w := newWorld(t, 1000, holding)
	w.stream(4, 30*time.Second)
	q := w.queues["q"]
	clear(q.held)
	clear(w.held)
	w.pass(time.Second)
	want, _ := w.waiters(q, w.now)
	if _, holds := w.rings(); len(holds) != want || want < 3 {
		t.Fatalf("%d are drawn, and not %d", len(holds), want)
	}
	w.next(time.Second)
	if _, holds := w.rings(); len(holds) != 0 {
		t.Errorf("%v are drawn beside them", holds)
	}
	w.endHold(q, w.holders()[0])
	w.pass(999 * ms)
	if _, holds := w.rings(); len(holds) != 0 {
		t.Errorf("%v are drawn before a second has passed", holds)
	}
}

// How many should wait, and on how many queues each, by how many there are.
func TestWaiters(t *testing.T) {
	for _, c := range []struct {
		hosts      int
		room       uint64
		rate       float64
		want, most int
	}{
		{0, 1, 10, 0, 0},
		{10, 0, 10, 0, 0}, // there is room on none
		{10, 1, 0.1, 0, 0},
		{1, 1, 10, 1, 32},
		{40, 1000, 10, 2 + 3, 5},
		{5000, 1000, 10, 2 + 3, 1},
	} {
		w := newWorld(t, c.hosts, holding)
		w.hosts.room = c.room
		q := w.queue("q")
		q.rate, q.rated = c.rate, w.now
		if want, most := w.waiters(q, w.now); want != c.want || most != c.most {
			t.Errorf("%+v: %d should wait, each on %d", c, want, most)
		}
	}
}

// Where all hosts are wanted, each waits on: it is drawn again before its hold ends.
func TestHoldsDoNotLapse(t *testing.T) {
	for _, hosts := range []int{1, 500} { // of 500 each waits on one queue
		w := newWorld(t, hosts, holding)
		w.hosts.room = 1
		w.queue("q").rate, w.queue("q").rated = 1e6, w.now
		for range 100 {
			w.rings()
			if n := len(w.holders()); n != hosts {
				t.Fatalf("after %s %d of %d wait", w.now.Sub(zero), n, hosts)
			}
			w.pass(300 * ms)
		}
	}
}

// Holds are rings, too.
func TestHoldsTakeTokens(t *testing.T) {
	w := newWorld(t, 0, holding, func(r *Rules) { r.AtOnce, r.PerSecond = 10, 1 })
	for _, name := range []compute.QueueName{"a", "b"} {
		w.hosts.fit[name] = ids(8)
		w.queue(name).rate, w.queue(name).rated = 1000, w.now
	}
	if _, holds := w.rings(); len(holds) != 10 {
		t.Errorf("%d hold", len(holds))
	}
	for h := range w.queues["b"].held {
		if w.endHold(w.queues["b"], h); w.held[h] != 1 {
			t.Errorf("%s is held on %d queues, want 1", h, w.held[h])
		}
	}
}

// Holds are looked at every second, also where the next work is due much later.
func TestHoldsAreLookedAtMeanwhile(t *testing.T) {
	w := newWorld(t, 10, holding)
	w.stream(5, 5*time.Second)
	w.came(func(x *Work) { x.Due = w.now.Add(time.Hour) })
	w.looks()
	if next := w.Next(); len(w.held) == 0 || next.After(w.now.Add(holdsEvery)) {
		t.Errorf("it wants to be asked at %v", next)
	}
}

// A host that is full is replaced within a second, and so is one whose hold ends soon.
func TestAHostThatIsFullIsReplaced(t *testing.T) {
	w := newWorld(t, 100, holding)
	w.stream(4, 20*time.Second)
	gone := w.holders()[0]
	w.hosts.fit["q"] = slices.DeleteFunc(w.hosts.fit["q"], func(h compute.HostID) bool { return h == gone })
	want := len(w.holders())
	w.stream(4, time.Second+ms)
	if got := w.holders(); slices.Contains(got, gone) || len(got) < want-1 {
		t.Errorf("%v wait", got)
	}
	for range 60 {
		w.stream(4, time.Second)
		if want, _ := w.waiters(w.queues["q"], w.now); len(w.holders()) < want {
			t.Fatalf("after %s %d wait, and not %d", w.now.Sub(zero), len(w.holders()), want)
		}
	}
}

// When little comes any more, nobody is held on, and nothing is remembered.
func TestHoldsEnd(t *testing.T) {
	w := newWorld(t, 100, holding)
	w.stream(10, 20*time.Second)
	w.until(25 * time.Second) // 10 a second are 0.2 after four times ten seconds
	if len(w.holders()) == 0 {
		t.Fatal("nobody waits while still enough is expected")
	}
	w.until(40 * time.Second)
	if len(w.holders())+len(w.held) != 0 {
		t.Errorf("%v wait, held are %v", w.holders(), w.held)
	}
}

// The busiest queues have hosts first, and each host waits on few.
func TestTheBusiestComeFirst(t *testing.T) {
	w := newWorld(t, 0, holding)
	const busy = 30
	for i := range busy {
		w.hosts.fit[queueName(i)] = ids(40) // √(1000/40) is 5
	}
	for range 20 {
		for i := range busy {
			for n := range 8 + i { // the last are the busiest
				key := string(rune('a' + n))
				w.Came(queueName(i), Work{Key: key}, w.now)
				w.Went(queueName(i), key, true, w.now)
			}
		}
		w.pass(time.Second)
	}
	w.rings()
	all := 0
	for h, n := range w.held {
		if all += n; n > 5 {
			t.Errorf("%s waits on %d queues", h, n)
		}
	}
	if all < 195 {
		t.Errorf("hosts wait on %d queues all together", all)
	}
	asked := 0 // for this queue and the busier ones
	for i := busy - 1; i >= 0; i-- {
		q := w.queues[queueName(i)]
		want, _ := w.waiters(q, w.now)
		if asked += want; len(q.held) > want || asked <= 150 && len(q.held) < want {
			t.Errorf("%d wait on %s, and not %d", len(q.held), q.name, want)
		}
	}
	if asked <= 200 {
		t.Error("there are hosts for all")
	}
}

func queueName(i int) compute.QueueName {
	return compute.QueueName([]byte{'q', byte('a' + i/26), byte('a' + i%26)})
}

// Hosts that all the work avoids are not held on its queue.
func TestHoldsAvoidTheUnwelcome(t *testing.T) {
	w := newWorld(t, 3, holding)
	for range 5 {
		w.came(func(x *Work) { x.Avoid = []compute.HostID{"h1"} })
	}
	_, holds := w.rings()
	if slices.Sort(holds); !slices.Equal(holds, []compute.HostID{"h0", "h2"}) {
		t.Errorf("%v wait", holds)
	}
}
