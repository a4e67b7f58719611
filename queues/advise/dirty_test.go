// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// An advisor that looks only at what changed tells the same as one that looks at all
// queues at each tick, if it is told which queues' work has changed.
func TestOnlyWhatChangedIsLookedAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := RingingRules()
		rules.Most = rapid.SampledFrom([]int{3, 2000}).Draw(t, "most")
		some, all := New(rules), New(rules)
		both := func(f func(*Advisor)) { f(some); f(all) }
		var list []compute.Queue
		for i := range 6 {
			list = append(list, q(fmt.Sprint("q", i), int64(1+i%3)))
		}
		work, now := map[compute.QueueName]Progress{}, 0.0
		both(func(a *Advisor) { a.SetQueues(list) })
		t.Repeat(map[string]func(*rapid.T){
			"hear": func(t *rapid.T) {
				first, free := rapid.IntRange(0, 40).Draw(t, "first"), rapid.Int64Range(0, 8).Draw(t, "free")
				last := first + rapid.SampledFrom([]int{0, 30}).Draw(t, "more")
				for id := first; id <= last; id++ {
					both(func(a *Advisor) { a.Observe(beacon(id, free), at(now)) })
				}
			},
			"forget": func(t *rapid.T) {
				h := beacon(rapid.IntRange(0, 70).Draw(t, "host"), 0).Host
				both(func(a *Advisor) { a.Forget(h) })
			},
			"list": func(t *rapid.T) {
				n := rapid.IntRange(0, len(list)).Draw(t, "queues")
				both(func(a *Advisor) { a.SetQueues(list[:n]) })
			},
			"again": func(*rapid.T) { both((*Advisor).Reset) },
			"work": func(t *rapid.T) {
				q := rapid.SampledFrom(list).Draw(t, "queue").Name
				p := work[q]
				if p.Depth > 0 && rapid.Bool().Draw(t, "goes") {
					p.Depth--
				} else {
					n := uint64(rapid.SampledFrom([]int{1, 30}).Draw(t, "n"))
					p.Depth, p.Came = p.Depth+n, p.Came+n
				}
				if p.Oldest = at(now); p.Depth == 0 {
					p.Oldest = time.Time{}
				}
				work[q] = p
				both(func(a *Advisor) { a.MarkDirty(q) })
			},
			"tick": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "ticks") {
					now += rapid.SampledFrom([]float64{0.3, 1, 1, 1, 1}).Draw(t, "pause")
					progress := func(q compute.QueueName) Progress { return work[q] }
					x, told := some.Next(at(now), progress)
					y, want := all.next(at(now), progress)
					if diff := cmp.Diff(y, x, nearly()); diff != "" || told != want {
						t.Fatalf("at %v it tells %t, and should %t: %s", now, told, want, diff)
					}
				}
			},
		})
	})
}

// nearly has numbers of hosts that should wait be one off: a queue that is looked at at
// longer intervals is known to be quiet, and not how quiet. No number means the usual one.
func nearly() cmp.Option {
	number := func(waiters uint32) float64 { return max(float64(waiters), compute.UsualWaiters) }
	off := cmp.Comparer(func(a, b uint32) bool { return math.Abs(number(a)-number(b)) <= 1 })
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Waiters" }, off)
}

// Queues about which nothing changes are looked at when all are told of in full, and at
// no other tick.
func TestQuietQueuesAreNotLookedAt(t *testing.T) {
	a := New(RingingRules())
	var list []compute.Queue
	for i := range 100 {
		list = append(list, q(fmt.Sprint("q", i), 1))
	}
	a.SetQueues(list)
	a.fill(10, 8)
	looked := 0
	tick := func(sec int) {
		a.Next(at(float64(sec)), func(compute.QueueName) Progress { looked++; return Progress{} })
	}
	tick(0)
	looked = 0
	for sec := 1; sec < 30; sec++ {
		tick(sec)
	}
	if looked != 0 {
		t.Errorf("%d looks at queues of which nothing changed", looked)
	}
	a.MarkDirty("q7")
	a.MarkDirty("none")
	if tick(30); looked != 100 {
		t.Errorf("%d queues are looked at where all are told of", looked)
	}
}

// There is a record now and then though there is no news, and each says that hosts are
// rung; a manager that does not ring says neither.
func TestBeat(t *testing.T) {
	for name, c := range map[string]struct {
		rules   Rules
		records int
		rings   bool
	}{
		"ringing":     {RingingRules(), 1 + 29/5, true},
		"not ringing": {DefaultRules(), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(c.rules)
			a.SetQueues([]compute.Queue{q("a", 1)})
			records, empty := 0, 0
			for half := range 60 { // all is told at 0 and 30
				adv, any := a.Next(at(float64(half)/2), depths{}.of)
				if !any {
					continue
				}
				if records++; len(adv.About) == 0 {
					empty++
				}
				if adv.Rings != c.rings {
					t.Errorf("it says that hosts are rung: %t", adv.Rings)
				}
				if empty > 0 && adv.Full {
					t.Error("a record with nothing in it says that it names every queue")
				}
			}
			if records != c.records || empty != records-1 {
				t.Errorf("%d records, %d of them with nothing in it", records, empty)
			}
		})
	}
}
