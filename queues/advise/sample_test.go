// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// rings says that a host's agent knows rings.
func rings(b *compute.Beacon) { b.Rings = true }

// known is what a dumb model of the advisor keeps of a host.
type known struct {
	free  int64
	rings bool
	there bool // its stream
	heard float64
}

// Whatever was heard, only hosts that fit and can be rung are drawn, each once, as many
// as asked for or all there are.
func TestDrawIsThatOfADumbModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(RingingRules())
		list := []compute.Queue{q("one", 1), q("three", 3), q("nine", 9)}
		a.SetQueues(list)
		many := rapid.SampledFrom([]int{4, 400}).Draw(t, "hosts") // few are all looked at, many are probed
		model, now := map[int]*known{}, 0.0
		hear := func(id int, k known) {
			b := beacon(id, k.free)
			b.Rings, k.heard = k.rings, now
			if was := model[id]; was != nil {
				k.there = was.there
			}
			model[id] = &k
			a.Observe(b, at(now))
		}
		reach := func(id int, there bool) {
			a.Reaches(beacon(id, 0).Host, there)
			if k := model[id]; k != nil {
				k.there = there
			}
		}
		for id := range many {
			hear(id, known{free: int64(id % 9), rings: id%7 > 0})
			reach(id, id%5 > 0)
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := rapid.IntRange(0, many).Draw(t, "host")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				a.Forget(beacon(id, 0).Host)
				delete(model, id)
			case 1:
				now += rapid.Float64Range(0, 50).Draw(t, "pause")
				a.Next(at(now), depths{}.of)
			case 2:
				a.SetQueues(list)
			case 3:
				reach(id, rapid.Bool().Draw(t, "there"))
			case 4, 5:
				hear(id, known{free: rapid.Int64Range(0, 8).Draw(t, "free"), rings: rapid.Bool().Draw(t, "rings")})
			default:
				drawn(t, a, model, now)
			}
			places(t, a, len(model))
		}
		drawn(t, a, model, now)
	})
}

// drawn draws, and compares with the model.
func drawn(t *rapid.T, a *Advisor, model map[int]*known, now float64) {
	needs := rapid.SampledFrom([]int64{1, 3, 9}).Draw(t, "needs")
	name := map[int64]compute.QueueName{1: "one", 3: "three", 9: "nine"}[needs]
	odd := rapid.Bool().Draw(t, "odd ones are refused")
	refused := func(h compute.HostID) bool { return odd && (h[len(h)-1]-'0')%2 == 1 }
	eligible, room, usable := 0, uint64(0), map[compute.HostID]bool{}
	for id, k := range model {
		h := beacon(id, 0).Host
		fits := k.free >= needs && !a.hosts[h].silent && needs <= 8
		if fits {
			eligible++
			room += uint64(k.free / needs)
		}
		if can := fits && k.rings && k.there; can != a.Fits(name, h) {
			t.Fatalf("%s fits %s: %t, and the model says %t", h, name, !can, can)
		} else if can && !refused(h) {
			usable[h] = true
		}
	}
	if n, m := a.Eligible(name); n != eligible || m != room {
		t.Fatalf("%d eligible with room for %d, and not %d for %d", n, m, eligible, room)
	}
	n := rapid.IntRange(0, 8).Draw(t, "n")
	got := a.Sample(name, n, refused)
	if want := min(n, len(usable)); len(got) != want {
		t.Fatalf("%d are drawn for %s, and not %d", len(got), name, want)
	}
	for i, h := range got {
		if !usable[h] || slices.Contains(got[:i], h) {
			t.Fatalf("%s is drawn for %s: %v", h, name, got)
		}
	}
}

// places holds the order of hosts to what each remembers of its place in it.
func places(t *rapid.T, a *Advisor, hosts int) {
	if len(a.order) != hosts || len(a.hosts) != hosts {
		t.Fatalf("%d hosts in order, %d known, and not %d", len(a.order), len(a.hosts), hosts)
	}
	for i, h := range a.order {
		if h.index != i || a.hosts[h.beacon.Host] != h {
			t.Fatalf("%s is at %d, and remembers %d", h.beacon.Host, i, h.index)
		}
	}
}

func TestNothingIsDrawnOfWhatIsNotThere(t *testing.T) {
	a := New(RingingRules())
	never := func(compute.HostID) bool { return false }
	a.SetQueues([]compute.Queue{q("a", 1)})
	a.Reaches("h1", true) // not heard of yet
	a.Observe(beacon(1, 8, rings), at(0))
	if got := a.Sample("a", 1, never); got != nil || a.Fits("a", "h1") {
		t.Errorf("%v are drawn, whose streams are not known to be there", got)
	}
	a.Reaches("h1", true)
	if got := a.Sample("a", 2, never); !slices.Equal(got, []compute.HostID{"h1"}) {
		t.Errorf("%v are drawn", got)
	}
	if got := a.Sample("none", 1, never); got != nil || a.Fits("none", "h1") || a.Fits("a", "none") {
		t.Errorf("%v are drawn for a queue that is not there", got)
	}
	if n, room := a.Eligible("none"); n != 0 || room != 0 {
		t.Errorf("%d fit a queue that is not there", n)
	}
}

// Emptier hosts are drawn more often, and each is drawn some time, however many are
// looked at.
func TestEmptierHostsAreDrawnMoreOften(t *testing.T) {
	for _, hosts := range []int{8, 800} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			a := New(RingingRules())
			a.SetQueues([]compute.Queue{q("a", 1)})
			for id := range hosts {
				a.Observe(beacon(id, 1+int64(id%8), rings), at(0))
				a.Reaches(beacon(id, 0).Host, true)
			}
			const each = 200
			drawn, by := map[compute.HostID]int{}, [8]int{}
			for range each * hosts {
				h := a.Sample("a", 1, func(compute.HostID) bool { return false })[0]
				drawn[h]++
				var id int
				if _, err := fmt.Sscanf(string(h), "h%d", &id); err != nil {
					t.Fatal(err)
				}
				by[id%8]++
			}
			// Of two that are drawn the emptier one: an eighth of all is the emptier one of
			// both with the chance (2k+1)/64.
			for k, n := range by {
				if want := each * hosts * (2*k + 1) / 64; n < want*4/5 || n > want*6/5 {
					t.Errorf("with %d free %d are drawn, and not %d", k+1, n, want)
				}
			}
			if len(drawn) != hosts {
				t.Errorf("%d of %d are drawn at all", len(drawn), hosts)
			}
		})
	}
}

// Of hosts that pack, the fuller ones are drawn more often.
func TestFullerHostsAreDrawnMoreOftenIfTheyPack(t *testing.T) {
	a := New(RingingRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	packs := func(b *compute.Beacon) { b.Weigher = compute.Pack }
	for id, free := range []int64{8, 4, 2} {
		a.Observe(beacon(id, free, rings), at(0))
		a.Observe(beacon(id, free, rings, packs), at(1))
		a.Reaches(beacon(id, 0).Host, true)
	}
	drawn := map[compute.HostID]int{}
	const each = 900
	for range each {
		drawn[a.Sample("a", 1, func(compute.HostID) bool { return false })[0]]++
	}
	for host, ninths := range map[compute.HostID]int{"h0": 1, "h1": 3, "h2": 5} {
		if want := each * ninths / 9; drawn[host] < want*4/5 || drawn[host] > want*6/5 {
			t.Errorf("%s is drawn %d times, and not about %d", host, drawn[host], want)
		}
	}
}

// Where hosts spread and hosts pack, a full one that packs is drawn as an empty one that spreads: an empty one that
// packs is not put before it.
func TestHostsThatPackAndHostsThatSpreadAreDrawnAlike(t *testing.T) {
	packs := func(b *compute.Beacon) { b.Weigher = compute.Pack }
	for _, c := range []struct{ spreads, packs int64 }{{8, 0}, {6, 2}, {4, 4}, {0, 8}} {
		if s, p := rank(beacon(1, c.spreads)), rank(beacon(2, c.packs, packs)); s != p {
			t.Errorf("with %d free it spreads by %v, and with %d free it packs by %v", c.spreads, s, c.packs, p)
		}
	}
}

// Of many hosts, all but one of which are refused, that one is found.
func TestTheOneThatIsLeftIsDrawn(t *testing.T) {
	a := New(RingingRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	for id := range 1000 {
		a.Observe(beacon(id, 8, rings), at(0))
		a.Reaches(beacon(id, 0).Host, true)
	}
	for i := range 20 {
		one := beacon(50*i, 0).Host
		got := a.Sample("a", 1, func(h compute.HostID) bool { return h != one })
		if !slices.Equal(got, []compute.HostID{one}) {
			t.Errorf("%v are drawn, and %s is left", got, one)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	for name, free := range map[string]int64{"empty": 8, "full": 0} {
		b.Run(name, func(b *testing.B) {
			a := New(RingingRules())
			a.SetQueues([]compute.Queue{q("a", 1)})
			for id := range 1000 {
				room := free
				if id%100 == 0 {
					room = 8
				}
				a.Observe(beacon(id, room, rings), at(0))
				a.Reaches(beacon(id, 0).Host, true)
			}
			for b.Loop() {
				a.Sample("a", 2, func(compute.HostID) bool { return false })
			}
		})
	}
}
