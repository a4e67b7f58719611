// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

func q(name string, vcpus int64, required ...compute.Trait) compute.Queue {
	return compute.Queue{
		Name: compute.QueueName(name), Resources: compute.Resources{compute.VCPU: vcpus}, Required: required,
	}
}

func beacon(id int, free int64, change ...func(*compute.Beacon)) compute.Beacon {
	b := compute.Beacon{Host: compute.HostID(fmt.Sprintf("h%d", id)), Free: compute.Resources{compute.VCPU: free},
		Inventory: compute.Inventory{
			Totals: compute.Resources{compute.VCPU: 10}, Reserved: compute.Resources{compute.VCPU: 2},
		}}
	for _, f := range change {
		f(&b)
	}
	return b
}

// depths is a source of progress.
type depths map[compute.QueueName]uint64

func (d depths) of(q compute.QueueName) Progress {
	if d[q] == 0 {
		return Progress{}
	}
	return Progress{Depth: d[q], Oldest: zero}
}

// next looks at every queue, whatever it was told of: tests change what there is to
// know behind its back.
func (a *Advisor) next(now time.Time, progress func(compute.QueueName) Progress) (compute.Advice, bool) {
	a.markAllDirty()
	return a.Next(now, progress)
}

func named(a compute.Advice) []compute.QueueName {
	var out []compute.QueueName
	for _, about := range a.About {
		out = append(out, about.Queue)
	}
	return out
}

func TestEachHostCountsOnce(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("big", 8, "T"), q("too-big", 9), q("small", 1)})
	state := func(s compute.HostState) func(*compute.Beacon) { return func(b *compute.Beacon) { b.State = s } }
	trait := func(b *compute.Beacon) { b.Inventory.Traits = []compute.Trait{"A", "T"} }
	for i, b := range []compute.Beacon{
		beacon(1, 8, trait), beacon(2, 7, trait), beacon(3, 8), beacon(4, 8, trait, state(compute.HostDisabled)),
		beacon(5, 0, trait, state(compute.HostDraining)), beacon(6, 8, trait, state(compute.HostQuarantined)),
	} {
		a.Observe(b, at(float64(i)))
	}
	a.Observe(beacon(7, 8, trait, state(compute.HostDisabled)), at(-60)) // silence comes before disabled
	adv, ok := a.next(at(0), depths{"big": 3}.of)
	want := compute.Advice{At: at(0), Full: true, About: []compute.QueueAdvice{
		{
			Queue: "big", Eligible: 1, Depth: 3, Oldest: zero,
			Hosts: compute.HostCounts{
				NeverFits: 1, Silent: 1, Disabled: 1, Draining: 1, Quarantined: 1, Full: 1, Eligible: 1,
			},
		},
		{
			Queue: "small", Eligible: 3,
			Hosts: compute.HostCounts{Silent: 1, Disabled: 1, Draining: 1, Quarantined: 1, Eligible: 3},
		},
		{Queue: "too-big", Hosts: compute.HostCounts{NeverFits: 7}},
	}}
	if diff := cmp.Diff(want, adv); diff != "" || !ok {
		t.Error(diff)
	}
	a.Forget("h2")
	a.Forget("h2")
	a.Observe(beacon(7, 8, trait, state(compute.HostDisabled)), at(1)) // the same beacon, heard again
	adv, _ = a.next(at(30), depths{}.of)
	if diff := cmp.Diff(compute.HostCounts{NeverFits: 1, Disabled: 2, Draining: 1, Quarantined: 1, Eligible: 1},
		adv.About[0].Hosts); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyNewsIsTold(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1), q("b", 1)})
	for i := range 32 {
		a.Observe(beacon(i, 8), at(0))
	}
	d := depths{}
	expect := func(sec float64, full bool, want ...compute.QueueName) {
		t.Helper()
		adv, ok := a.next(at(sec), d.of)
		if diff := cmp.Diff(want, named(adv)); diff != "" || adv.Full != full || ok != (full || len(want) > 0) {
			t.Errorf("at %v: full %v, ok %v: %s", sec, adv.Full, ok, diff)
		}
	}
	expect(0, true, "a", "b")
	expect(1, false)
	d["a"] = 1
	expect(2, false, "a") // work came: 9 of 32
	d["a"], d["b"] = 9, 1
	expect(2.5, false)         // too early
	expect(3, false, "b")      // a: 17 of 32 is less than twice 9
	d["a"] = 10                //
	expect(4, false, "a")      // 18 of 32
	d["a"] = 1000              //
	expect(5, false)           // everybody: less than twice
	d["a"], d["b"] = 1, 0      //
	expect(6, false, "a", "b") // half as often; work went
	expect(29.9, false)
	expect(30, true, "a", "b")
	for i := range 16 {
		a.Observe(beacon(i, 0), at(31)) // full now: 16 left, so wait twice as often
	}
	expect(31, false, "a", "b")
}

func TestManyQueuesAreToldInParts(t *testing.T) {
	rules := DefaultRules()
	rules.Most, rules.Full = 4, 3*time.Second // too short for all: two a second are
	a := New(rules)
	var list []compute.Queue
	for i := range 10 {
		list = append(list, q(fmt.Sprintf("q%d", i), 1))
	}
	a.SetQueues(list)
	heard := map[compute.QueueName]int{}
	for sec := range 60 {
		adv, _ := a.next(at(float64(sec)), depths{}.of)
		if len(adv.About) > 4 || adv.Full {
			t.Fatalf("%d queues in one record, full %v", len(adv.About), adv.Full)
		}
		for _, n := range named(adv) {
			heard[n]++
		}
	}
	for _, q := range list {
		if n := heard[q.Name]; n < 10 {
			t.Errorf("%s told %d times in 60 s", q.Name, n)
		}
	}
}

// The clever counting and a dumb one agree after any history.
func TestCountsAreThoseOfADumbModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(DefaultRules())
		var list []compute.Queue
		beacons, heard := map[int]compute.Beacon{}, map[int]time.Time{}
		now := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += rapid.Float64Range(0, 40).Draw(t, "pause")
			id := rapid.IntRange(0, 4).Draw(t, "host")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				list = randomQueues(t)
				a.SetQueues(list)
			case 1:
				a.Forget(beacon(id, 0).Host)
				delete(beacons, id)
			case 2:
				a.next(at(now), depths{}.of)
			default:
				b := beacon(id, rapid.Int64Range(0, 9).Draw(t, "free"), func(b *compute.Beacon) {
					b.State = compute.HostState(rapid.IntRange(0, 3).Draw(t, "state"))
					b.Inventory.Traits = randomTraits(t)
					b.Largest, b.Inventory.Largest = randomLargest(t, "now"), randomLargest(t, "ever")
				})
				a.Observe(b, at(now))
				beacons[id], heard[id] = b, at(now)
			}
		}
		now += 31
		adv, _ := a.next(at(now), depths{}.of)
		for i, query := range list {
			if diff := cmp.Diff(dumb(query, beacons, heard, at(now)), adv.About[i].Hosts); diff != "" {
				t.Fatalf("%s: %s", query.Name, diff)
			}
		}
	})
}

// randomLargest is what one machine may have; mostly as much as there is.
func randomLargest(t *rapid.T, when string) compute.Resources {
	if n := rapid.Int64Range(-10, 9).Draw(t, when); n >= 0 {
		return compute.Resources{compute.VCPU: n}
	}
	return nil
}

func within(r, largest compute.Resources) bool {
	n, bounded := largest[compute.VCPU]
	return !bounded || r[compute.VCPU] <= n
}

func randomTraits(t *rapid.T) []compute.Trait {
	return rapid.SampledFrom([][]compute.Trait{nil, {"A"}, {"B"}, {"A", "B"}}).Draw(t, "traits")
}

func randomQueues(t *rapid.T) []compute.Queue {
	var out []compute.Queue
	for i := range rapid.IntRange(0, 4).Draw(t, "queues") {
		query := q(fmt.Sprintf("q%d", i), rapid.Int64Range(1, 9).Draw(t, "vcpus"), randomTraits(t)...)
		if rapid.Bool().Draw(t, "forbids") {
			query.Forbidden = []compute.Trait{"B"}
		}
		out = append(out, query)
	}
	return out
}

func dumb(q compute.Queue, beacons map[int]compute.Beacon, heard map[int]time.Time, now time.Time) compute.HostCounts {
	var c compute.HostCounts
	for id, b := range beacons {
		traits := map[compute.Trait]bool{}
		for _, t := range b.Inventory.Traits {
			traits[t] = true
		}
		switch {
		case !q.Accepts(traits) || !q.Resources.FitsIn(b.Inventory.Totals.Minus(b.Inventory.Reserved)) ||
			!within(q.Resources, b.Inventory.Largest):
			c.NeverFits++
		case now.Sub(heard[id]) >= 60*time.Second:
			c.Silent++
		case b.State == compute.HostDisabled:
			c.Disabled++
		case b.State == compute.HostDraining:
			c.Draining++
		case b.State == compute.HostQuarantined:
			c.Quarantined++
		case !q.Resources.FitsIn(b.Free) || !within(q.Resources, b.Largest):
			c.Full++
		default:
			c.Eligible++
		}
	}
	return c
}

// big is 1,000 hosts and 1,000 queues.
func big() (*Advisor, []compute.Beacon) {
	a := New(DefaultRules())
	var list []compute.Queue
	for i := range 1000 {
		name := fmt.Sprintf("q%d", i)
		list = append(list, compute.Queue{Name: compute.QueueName(name), Required: []compute.Trait{"T"},
			Resources: compute.Resources{compute.VCPU: int64(1 + i%8), compute.MemoryMB: int64(i), compute.DiskGB: 10}})
	}
	a.SetQueues(list)
	var beacons []compute.Beacon
	for i := range 1000 {
		r := compute.Resources{compute.VCPU: 10, compute.MemoryMB: 1000, compute.DiskGB: 100}
		beacons = append(beacons, compute.Beacon{Host: compute.HostID(fmt.Sprint(i)), Free: r.Clone(),
			Inventory: compute.Inventory{Totals: r, Traits: []compute.Trait{"T"}}})
		a.Observe(beacons[i], zero)
	}
	return a, beacons
}

// One second of a busy cell: 200 of 1,000 hosts changed, then a tick.
func BenchmarkBusySecond(b *testing.B) {
	a, beacons := big()
	r := rand.New(rand.NewPCG(1, 2))
	now := zero
	for b.Loop() {
		now = now.Add(time.Second)
		for range 200 {
			host := &beacons[r.IntN(len(beacons))]
			host.Free = compute.Resources{
				compute.VCPU: r.Int64N(10), compute.MemoryMB: r.Int64N(1000), compute.DiskGB: 100,
			}
			a.Observe(*host, now)
		}
		a.next(now, depths{}.of)
	}
}

// A second in which nobody changed: the beacons come all the same.
func BenchmarkQuietSecond(b *testing.B) {
	a, beacons := big()
	now := zero
	for b.Loop() {
		now = now.Add(time.Second)
		for _, host := range slices.Clone(beacons[:67]) {
			a.Observe(host, now)
		}
		a.next(now, depths{}.of)
	}
}

func BenchmarkSetQueues(b *testing.B) {
	a, _ := big()
	var list []compute.Queue
	for i := range 1000 {
		list = append(list, q(fmt.Sprint(i), int64(i%20)))
	}
	for b.Loop() {
		a.SetQueues(list)
	}
}

// Work that is taken at once is no news, however often it comes; work that stays
// is, as soon as it has lain for a while, and so is a heap of it at once.
func TestWorkThatIsTakenAtOnceIsNoNews(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1), q("b", 1)})
	for i := range 32 {
		a.Observe(beacon(i, 8), at(0))
	}
	now := map[compute.QueueName]Progress{}
	expect := func(sec float64, ask time.Duration, want ...compute.QueueName) {
		t.Helper()
		adv, _ := a.next(at(sec), func(q compute.QueueName) Progress { return now[q] })
		if diff := cmp.Diff(want, named(adv)); diff != "" || a.NextIn(at(sec)) != ask {
			t.Errorf("at %v: ask in %s: %s", sec, a.NextIn(at(sec)), diff)
		}
	}
	const soon = 500 * time.Millisecond
	expect(0, time.Second, "a", "b")
	for i := range 5 {
		sec := float64(i + 1)
		now["a"] = Progress{Depth: 1, Oldest: at(sec - 0.1)}
		expect(sec, soon)
		now["a"] = Progress{}
		expect(sec+0.2, time.Second)
	}
	now["a"] = Progress{Depth: 1, Oldest: at(7)}
	expect(7, soon)
	expect(7.5, time.Second, "a")
	now["b"] = Progress{Depth: 8, Oldest: at(8.5)} // 16 of 32 where 8 were told
	expect(8.5, soon, "b")
	expect(9.5, time.Second, "b") // and it lies there
	now["a"], now["b"] = Progress{}, Progress{Depth: 8}
	expect(10.5, time.Second, "a") // since when is not known: for long
}
