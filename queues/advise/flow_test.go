// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// fill has each of n hosts beacon that it has room for so many.
func (a *Advisor) fill(n int, room int64) {
	for i := range n {
		a.Observe(beacon(i, room), at(0))
	}
}

// Where so much comes that eight hosts were full before their lots turn, more are asked
// to wait: room for what comes while a lot holds, beside those eight.
func TestMoreWaitWhereMuchComes(t *testing.T) {
	for _, c := range []struct {
		hosts  int
		room   int64
		rate   float64 // a second
		least  uint32
		most   uint32
		queued uint64 // when counting began
	}{
		{100, 4, 8, 8 + 28, 8 + 31, 0}, // 120 come in 15 s, four fit on each
		{100, 4, 8, 8 + 28, 8 + 31, 1_000_000},
		{100, 4, 1, 8 + 3, 8 + 4, 0},
		{100, 4, 0.05, 0, 0, 0}, // less than fills one while a lot holds
		{100, 4, 0, 0, 0, 5000}, // much lies there, and nothing comes
		{20, 4, 8, 20, 20, 0},   // never more than there are
		{100, 0, 8, 0, 0, 0},    // nobody has room
	} {
		a := New(DefaultRules())
		a.SetQueues([]compute.Queue{q("a", 1), q("b", 1)})
		a.fill(c.hosts, c.room)
		came := float64(c.queued)
		var got compute.QueueAdvice
		for sec := range 60 {
			adv, _ := a.next(at(float64(sec)), func(q compute.QueueName) Progress {
				if q == "b" {
					return Progress{}
				}
				return Progress{Came: uint64(came), Oldest: zero}
			})
			for _, about := range adv.About {
				if about.Queue == "a" {
					got = about
				} else if about.Waiters != 0 {
					t.Errorf("%+v: %d are to wait on a queue into which nothing comes", c, about.Waiters)
				}
			}
			came += c.rate
		}
		if got.Waiters < c.least || got.Waiters > c.most {
			t.Errorf("%+v: %d are to wait", c, got.Waiters)
		}
	}
}

// What comes into a queue is still known of it when others are opened and closed, and
// of none that has its place in the list.
func TestWhatComesIsKnownOfTheQueueThatStays(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1), q("m", 1), q("z", 1)})
	a.fill(100, 4)
	told := map[compute.QueueName]uint32{}
	tick := func(sec int) {
		adv, _ := a.next(at(float64(sec)), func(q compute.QueueName) Progress {
			if q != "m" {
				return Progress{}
			}
			return Progress{Came: uint64(8 * sec)}
		})
		for _, about := range adv.About {
			told[about.Queue] = about.Waiters
		}
	}
	for sec := range 40 {
		tick(sec)
	}
	before := told["m"]
	a.SetQueues([]compute.Queue{q("b", 1), q("k", 1), q("m", 1), q("n", 1)})
	tick(40)
	if before == 0 || told["m"] != before || told["b"]+told["k"]+told["n"] != 0 {
		t.Errorf("%d were to wait, and then %v", before, told)
	}
}

// It is told as soon as twice as many should wait, and so is that few are enough again.
func TestARushIsNews(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	a.fill(100, 4)
	came, first, last := 0, -1, uint32(0)
	for sec := range 29 { // all is told at 0 and 30
		adv, any := a.next(at(float64(sec)), func(compute.QueueName) Progress { return Progress{Came: uint64(came)} })
		if sec < 10 {
			came += 20
		}
		if any {
			last = adv.About[0].Waiters
			if first < 0 && last > 0 {
				first = sec
			}
		}
	}
	if first < 1 || first > 3 {
		t.Errorf("told after %d s", first)
	}
	if last > 40 {
		t.Errorf("19 s after the rush %d are to wait", last)
	}
	three := func(compute.QueueName) Progress { return Progress{Came: 3} }
	if adv, _ := a.next(at(30), three); adv.About[0].Waiters != 0 {
		t.Errorf("a queue that was made anew between two ticks: %+v", adv.About)
	}
	a.SetQueues([]compute.Queue{q("b", 1)})
	a.SetQueues([]compute.Queue{q("a", 1)})
	if adv, _ := a.next(at(40), three); adv.About[0].Waiters != 0 {
		t.Errorf("a queue that was made anew: %+v", adv.About)
	}
}

// Rooms are counted as hosts come, change, fall silent and go.
func TestRoomsAreThoseOfADumbModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(DefaultRules())
		list := []compute.Queue{q("one", 1), q("three", 3)}
		a.SetQueues(list)
		free, heard, now := map[int]int64{}, map[int]float64{}, 0.0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += rapid.Float64Range(0, 30).Draw(t, "pause")
			id := rapid.IntRange(0, 4).Draw(t, "host")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				a.Forget(beacon(id, 0).Host)
				delete(free, id)
			case 1:
				a.SetQueues(list)
			default:
				free[id], heard[id] = rapid.Int64Range(0, 8).Draw(t, "free"), now
				a.Observe(beacon(id, free[id]), at(now))
			}
			a.next(at(now), depths{}.of)
			want := map[compute.QueueName]uint64{}
			for id, n := range free {
				if at(now).Sub(at(heard[id])) < compute.SilentAfter {
					want["one"] += uint64(n)
					want["three"] += uint64(n / 3)
				}
			}
			for i, x := range a.queues {
				// A tick within a second of what was told does not look for silent hosts.
				if a.rooms[i] != want[x.name] && !a.early(at(now)) {
					t.Fatalf("%s: room for %d, not %d", x.name, a.rooms[i], want[x.name])
				}
			}
		}
	})
}

// early says whether the last tick came too early to do anything.
func (a *Advisor) early(now time.Time) bool {
	return a.last.Before(now) && now.Sub(a.last) < a.rules.Every
}

// What one machine may have at most is not what all may have together.
func TestRoomIsForAll(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 2)})
	b := beacon(1, 8)
	b.Largest = compute.Resources{compute.VCPU: 3}
	a.Observe(b, at(0))
	if a.rooms[0] != 4 {
		t.Error(a.rooms)
	}
}
