// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"math"
	"slices"
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
					pause := rapid.SampledFrom([]float64{0.3, 1, 1, 1, 1}).Draw(t, "pause")
					if !some.early(at(now + pause)) {
						pause = 1 // two looks within a second take the same work for other rates, and may tell otherwise
					}
					now += pause
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

// nearly has numbers of hosts that should wait be one in ten off, or one: a queue that is looked at at
// longer intervals is known to be quiet, and not how quiet. No number means the usual one.
func nearly() cmp.Option {
	number := func(waiters uint32) float64 { return max(float64(waiters), compute.UsualWaiters) }
	off := cmp.Comparer(func(a, b uint32) bool {
		return math.Abs(number(a)-number(b)) <= max(1, number(a)/10)
	})
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

// quiet is an advisor that rings hosts and has told all there is to know of a queue.
func quiet(t *testing.T, hosts int) *Advisor {
	t.Helper()
	a := New(RingingRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	a.fill(hosts, 8)
	a.Next(at(0), depths{}.of)
	if len(a.dirty) != 0 {
		t.Fatalf("dirty: %v", a.dirty)
	}
	return a
}

// Hosts that go for good are news where so few are left that each has to wait twice as often.
func TestHostsThatAreForgottenAreNews(t *testing.T) {
	a := quiet(t, 100)
	for id := range 60 {
		a.Forget(beacon(id, 0).Host)
	}
	adv, _ := a.Next(at(1), depths{}.of)
	if len(adv.About) != 1 || adv.About[0].Eligible != 40 {
		t.Errorf("told: %+v", adv)
	}
}

// A beacon that changes a host, but not what it is to a queue, has no queue looked at.
func TestABeaconThatMattersToNoQueueMakesNothingDirty(t *testing.T) {
	a := quiet(t, 1)
	a.Observe(beacon(0, 8, func(b *compute.Beacon) { b.Inventory.Traits = []compute.Trait{"T"} }), at(1))
	if len(a.dirty) != 0 {
		t.Errorf("dirty: %v", a.dirty)
	}
}

// A host that says nothing of itself counts, as one on which nothing fits.
func TestAnEmptyBeaconCounts(t *testing.T) {
	a := quiet(t, 0)
	a.Observe(compute.Beacon{Host: "h1"}, at(1))
	adv, _ := a.Next(at(30), depths{}.of)
	if len(adv.About) != 1 || adv.About[0].Hosts.NeverFits != 1 {
		t.Errorf("told: %+v", adv)
	}
}

// Where there is no queue, that is said: in full, with nothing in it.
func TestNoQueuesAreTold(t *testing.T) {
	a := New(DefaultRules())
	if adv, any := a.Next(at(0), depths{}.of); !any || !adv.Full || len(adv.About) != 0 {
		t.Errorf("told, %t: %+v", any, adv)
	}
	if adv, any := a.Next(at(1), depths{}.of); any {
		t.Errorf("told again: %+v", adv)
	}
}

// The record without news comes as soon as it is time, and none before it.
func TestBeatIsExact(t *testing.T) {
	a := quiet(t, 1)
	if _, any := a.Next(at(0).Add(compute.AdviceBeat-1), depths{}.of); any {
		t.Error("a nanosecond too early")
	}
	if _, any := a.Next(at(0).Add(compute.AdviceBeat), depths{}.of); !any {
		t.Error("nothing in time")
	}
}

// Where news fills a record, the queue whose turn it was has it in the next one.
func TestNewsTakesNobodysTurn(t *testing.T) {
	rules := DefaultRules()
	rules.Most = 2 // one of them goes by turns
	a := New(rules)
	a.SetQueues([]compute.Queue{q("a", 1), q("b", 1), q("c", 1), q("d", 1)})
	a.fill(40, 8)
	work := depths{}
	sec := 0
	tick := func() []compute.QueueName {
		adv, _ := a.Next(at(float64(sec)), work.of)
		sec++
		return named(adv)
	}
	for sec < 30 { // all is told, at first as news
		tick()
	}
	for i, want := range []compute.QueueName{"a", "b"} {
		if got := tick(); !slices.Equal(got, []compute.QueueName{want}) {
			t.Fatalf("turn %d: %v", i, got)
		}
	}
	work["a"], work["b"] = 1, 1
	a.MarkDirty("a")
	a.MarkDirty("b")
	for i, want := range [][]compute.QueueName{{"a", "b"}, {"c"}, {"d"}, nil} {
		if got := tick(); !slices.Equal(got, want) {
			t.Errorf("record %d: %v, want %v", i, got, want)
		}
	}
}

// Work that comes no more is noticed though nobody says so: fewer hosts are asked to wait, in the end as few as
// anywhere.
func TestAFlowThatEndsIsNews(t *testing.T) {
	rules := DefaultRules()
	rules.Full, rules.Silent = time.Hour, time.Hour
	a := New(rules)
	a.SetQueues([]compute.Queue{q("a", 1)})
	a.fill(1000, 1)
	came, last := uint64(0), uint32(0)
	tick := func(sec int) {
		adv, _ := a.Next(at(float64(sec)), func(compute.QueueName) Progress { return Progress{Came: came} })
		for _, about := range adv.About {
			last = about.Waiters
		}
	}
	for sec := range 60 {
		a.MarkDirty("a")
		tick(sec)
		came += 20
	}
	if last < 100 {
		t.Fatalf("while much comes %d are to wait", last)
	}
	for sec := 60; sec < 300; sec++ {
		tick(sec)
	}
	if last >= 2*compute.UsualWaiters {
		t.Errorf("four minutes after the last work %d are to wait", last)
	}
	if len(a.dirty) != 0 {
		t.Errorf("dirty: %v", a.dirty)
	}
}
