// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// state has a beacon say what state its host is in.
func state(s compute.HostState) func(*compute.Beacon) {
	return func(b *compute.Beacon) { b.State = s }
}

func TestStatesAndEligibleHostsAreCounted(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1), q("b", 8)})
	a.Observe(beacon(1, 8), at(0))
	a.Observe(beacon(2, 4), at(0))
	a.Observe(beacon(3, 8, state(compute.HostDraining)), at(0))
	a.Observe(beacon(4, 8), at(-60))
	a.Next(at(0), depths{}.of)
	if diff := cmp.Diff(map[compute.QueueName]int{"a": 2, "b": 1}, a.AllEligible()); diff != "" {
		t.Error(diff)
	}
	states := map[compute.HostState]int{compute.HostEnabled: 2, compute.HostDraining: 1, compute.HostSilent: 1}
	if diff := cmp.Diff(states, a.States()); diff != "" {
		t.Error(diff)
	}
}

// A host that was emptied, or takes no work and has no machine, may be switched off; others are missing.
func TestMissingHostsAreCounted(t *testing.T) {
	a := New(DefaultRules())
	machines := func(b *compute.Beacon) { b.Machines = 1 }
	a.Observe(beacon(1, 8), at(0))
	states := []compute.HostState{
		compute.HostEnabled, compute.HostQuarantined, compute.HostDisabled, compute.HostDraining,
	}
	for i, s := range states {
		a.Observe(beacon(2+2*i, 8, state(s)), at(-60))
		a.Observe(beacon(3+2*i, 8, state(s), machines), at(-60))
	}
	a.Next(at(0), depths{}.of)
	if n, silent := a.Missing(), a.States()[compute.HostSilent]; n != 6 || silent != 8 {
		t.Errorf("%d of %d silent hosts are missing, and 6 of 8 should not be silent", n, silent)
	}
}

// A build that has become a machine changes nothing else of a beacon, and the host is missing if it falls silent then.
func TestAHostWhoseBuildBecameAMachineIsMissing(t *testing.T) {
	a := New(DefaultRules())
	draining := beacon(1, 8, state(compute.HostDraining), func(b *compute.Beacon) { b.Building = 1 })
	a.Observe(draining, at(-61))
	draining.Building, draining.Machines = 0, 1
	a.Observe(draining, at(-60))
	if a.Next(at(0), depths{}.of); a.Missing() != 1 {
		t.Errorf("%d hosts are missing, of one with a machine", a.Missing())
	}
}

// A beacon in which anything that matters has changed counts, each by itself.
func TestWhateverABeaconChangesCounts(t *testing.T) {
	vcpus := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	for what, change := range map[string]func(*compute.Beacon){
		"state":                        state(compute.HostDisabled),
		"free":                         func(b *compute.Beacon) { b.Free = vcpus(1) },
		"largest that is free":         func(b *compute.Beacon) { b.Largest = vcpus(1) },
		"largest of the empty host":    func(b *compute.Beacon) { b.Inventory.Largest = vcpus(1) },
		"totals":                       func(b *compute.Beacon) { b.Inventory.Totals = vcpus(3) },
		"reserved":                     func(b *compute.Beacon) { b.Inventory.Reserved = vcpus(9) },
		"a trait that the queue needs": func(b *compute.Beacon) { b.Inventory.Traits = nil },
	} {
		a := New(DefaultRules())
		a.SetQueues([]compute.Queue{q("a", 2, "T")})
		host := beacon(1, 8, func(b *compute.Beacon) { b.Inventory.Traits = []compute.Trait{"T"} })
		a.Observe(host, at(0))
		if n, _ := a.Eligible("a"); n != 1 {
			t.Fatalf("%s: %d are eligible at first", what, n)
		}
		change(&host)
		a.Observe(host, at(1))
		if n, _ := a.Eligible("a"); n != 0 {
			t.Errorf("%s: it is eligible as before", what)
		}
	}
}

// A beacon that brings nothing has no queue looked at.
func TestTheSameBeaconMakesNothingDirty(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	a.Observe(beacon(1, 8), at(0))
	a.Next(at(0), depths{}.of)
	host := a.hosts["h1"]
	host.empty = nil // would be measured again
	a.Observe(beacon(1, 8), at(1))
	if len(a.dirty) != 0 || host.empty != nil || !host.heard.Equal(at(1)) {
		t.Errorf("dirty: %v; measured again: %t; heard at %v", a.dirty, host.empty != nil, host.heard)
	}
}

// What does not need anything of a class has room as far as the other classes go.
func TestANeedOfNothingBoundsNoRoom(t *testing.T) {
	if n := machines([]need{{class: 0, amount: 0}, {class: 1, amount: 3}}, []int64{0, 10}); n != 3 {
		t.Errorf("room for %d", n)
	}
}

// A list that changed has no queue told of again that stays; one that is told in full goes on with the new list.
func TestAListThatChanges(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("b", 1), q("c", 1)})
	a.Observe(beacon(1, 8), at(0))
	told := func(sec float64) []compute.QueueName {
		adv, _ := a.Next(at(sec), depths{}.of)
		return named(adv)
	}
	if got := told(0); !slices.Equal(got, []compute.QueueName{"b", "c"}) {
		t.Errorf("at first: %v", got)
	}
	a.SetQueues([]compute.Queue{q("c", 1), q("a", 1)})
	if got := told(1); !slices.Equal(got, []compute.QueueName{"a"}) {
		t.Errorf("then: %v, and only a is new", got)
	}
	if got := slices.Sorted(maps.Keys(a.told)); !slices.Equal(got, []compute.QueueName{"a", "c"}) {
		t.Errorf("remembered: %v", got)
	}
	if got := told(29); got != nil {
		t.Errorf("before the time: %v", got)
	}
	if got := told(30); !slices.Equal(got, []compute.QueueName{"a", "c"}) {
		t.Errorf("in full: %v", got)
	}
}

// Telling in full that is under way when the list changes begins anew with the list.
func TestAListThatChangesWhileAllIsTold(t *testing.T) {
	rules := DefaultRules()
	rules.Most = 4
	a := New(rules)
	list := []compute.Queue{q("a", 1), q("b", 1), q("c", 1), q("d", 1), q("e", 1)}
	a.SetQueues(list)
	if adv, _ := a.Next(at(0), depths{}.of); len(adv.About) != 4 {
		t.Fatalf("%v are told of", named(adv)) // two by turns, two since they are news
	}
	a.SetQueues(list)
	if adv, _ := a.Next(at(1), depths{}.of); !slices.Equal(named(adv), []compute.QueueName{"a", "b", "e"}) || adv.Full {
		t.Errorf("the first two, and what is news: %v, full: %t", named(adv), adv.Full)
	}
	if adv, _ := a.Next(at(2), depths{}.of); !slices.Equal(named(adv), []compute.QueueName{"c", "d"}) {
		t.Errorf("the next two: %v", named(adv))
	}
}

// After a reset all is told at once.
func TestReset(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1), q("b", 1)})
	a.Observe(beacon(1, 8), at(0))
	a.Next(at(0), depths{}.of)
	if _, any := a.Next(at(1), depths{}.of); any {
		t.Fatal("there is news without any")
	}
	a.Reset()
	if len(a.told) != 0 {
		t.Errorf("remembered: %v", a.told)
	}
	if adv, any := a.Next(at(2), depths{}.of); !any || !adv.Full || len(adv.About) != 2 {
		t.Errorf("told: %+v", adv)
	}
}

// Where it was too early to tell, it is asked for again at the first moment at which it is not.
func TestNextIn(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	if in := a.NextIn(at(0)); in != time.Second {
		t.Errorf("before anything was told: in %s", in)
	}
	a.Next(at(0), depths{}.of)
	for sec, want := range map[float64]time.Duration{0.25: 750 * time.Millisecond, 1: time.Second, 7: time.Second} {
		if in := a.NextIn(at(sec)); in != want {
			t.Errorf("at %v: in %s", sec, in)
		}
	}
}

// Since when work lies there is said by the log, and so is what is told, whatever the caller's clock shows.
func TestWorkHasLainByTheLog(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		a := New(DefaultRules())
		a.SetQueues([]compute.Queue{q("a", 1)})
		a.Ahead(ahead)
		a.Next(at(0), depths{}.of)
		lies := func(compute.QueueName) Progress { return Progress{Depth: 1, Oldest: at(10).Add(-ahead)} }
		a.MarkDirty("a")
		if _, any := a.Next(at(10.25), lies); any {
			t.Errorf("%s ahead: what came just now is told", ahead)
		}
		if adv, any := a.Next(at(10.5), lies); !any || !adv.At.Equal(at(10.5).Add(-ahead)) {
			t.Errorf("%s ahead: what has lain is told as %+v", ahead, adv)
		}
	}
}

// Of more queues than a record has room for, half a record goes by turns: rounded up, so that one is enough.
func TestTurnsOfTellingInFull(t *testing.T) {
	for _, c := range []struct{ queues, most, want int }{{3, 4, 3}, {4, 4, 4}, {5, 4, 2}, {6, 5, 3}, {2, 1, 1}} {
		rules := DefaultRules()
		rules.Most = c.most
		a := New(rules)
		a.queues = make([]queue, c.queues)
		if n := a.room(); n != c.want {
			t.Errorf("%d queues, at most %d in a record: %d go by turns", c.queues, c.most, n)
		}
	}
}

// Where much comes into a queue and no host has room, none is asked to wait.
func TestNobodyWaitsWhereThereIsNoRoom(t *testing.T) {
	f := flow{rate: 100}
	for name, c := range map[string]struct {
		eligible uint32
		room     uint64
		want     uint32
	}{"no host": {0, 10, 0}, "no room": {10, 0, 0}, "one": {1, 1, 1}} {
		if n := f.waiters(c.eligible, c.room); n != c.want {
			t.Errorf("%s: %d", name, n)
		}
	}
	f.rate = 1 / compute.SampleHolds.Seconds() // one machine while a lot holds, and each host has room for one
	if n := f.waiters(100, 100); n != compute.UsualWaiters+1 {
		t.Errorf("for one machine: %d", n)
	}
}

// A flow is what came a second: it settles while something comes, and fades while nothing does.
func TestFlowFades(t *testing.T) {
	var f flow
	for sec := range 100 {
		f.see(uint64(8*sec), at(float64(sec)))
	}
	if f.rate < 7.9 || f.rate > 8 || !f.flows() {
		t.Fatalf("8 come a second: %v", f.rate)
	}
	before := f
	if f.see(800, at(99)); f != before {
		t.Error("another look in the same moment counts")
	}
	rate, last := f.rate, f.came
	f.see(last, at(99+11)) // 10 s of quiet and one second in which nothing came
	if want := rate / 3; f.rate > want || f.rate < want*0.95 {
		t.Errorf("after 11 s without any: %v of %v", f.rate, rate)
	}
	if f.see(last, at(1000)); f.flows() {
		t.Errorf("it still flows: %v", f.rate)
	}
	f.rate = 5
	if f.see(last-1, at(1001)); f.rate != 0 || f.came != last-1 {
		t.Errorf("a queue that was made anew: %+v", f)
	}
}

// Of very many hosts some are drawn without looking at all, none twice, and as many as were asked for.
func TestDrawnOfManyAreAsManyAsWereAskedFor(t *testing.T) {
	a := New(RingingRules())
	a.SetQueues([]compute.Queue{q("a", 1)})
	for id := range 400 {
		a.Observe(beacon(id, 1+int64(id%8), rings), at(0))
		a.Reaches(beacon(id, 0).Host, true)
	}
	for n := range 12 {
		looked := 0
		got := a.Sample("a", n, func(compute.HostID) bool { looked++; return false })
		sorted := slices.Sorted(slices.Values(got))
		if len(got) != n || len(slices.Compact(sorted)) != n {
			t.Errorf("%d: %v", n, got)
		}
		if looked > 40*n {
			t.Errorf("for %d of 400 hosts %d are looked at", n, looked)
		}
	}
	if got := a.Sample("a", -1, func(compute.HostID) bool { return false }); got != nil {
		t.Errorf("fewer than none: %v", got)
	}
}

// Of a class of which all is reserved nothing is in use, whatever is said to be free.
func TestWhatIsReservedIsNotInUse(t *testing.T) {
	b := compute.Beacon{
		Inventory: compute.Inventory{
			Totals:   compute.Resources{compute.VCPU: 10, compute.MemoryMB: 100, compute.DiskGB: 3},
			Reserved: compute.Resources{compute.VCPU: 2, compute.DiskGB: 3},
		},
		Free: compute.Resources{compute.VCPU: 6, compute.MemoryMB: 90},
	}
	if u := used(b); u != 0.25 {
		t.Errorf("in use: %v", u)
	}
	b.Inventory.Totals[compute.DiskGB] = 4 // the one that is left is in use
	if u := used(b); u != 1 {
		t.Errorf("in use with a single unit of a class: %v", u)
	}
}
