// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func saves(q string, needs int64) func(*compute.Beacon) {
	return func(b *compute.Beacon) {
		b.Saves, b.Saving = true, &compute.Saving{
			Queue: compute.QueueName(q), Needs: compute.Resources{compute.VCPU: needs}, Left: time.Minute,
		}
	}
}

func knows(b *compute.Beacon) { b.Saves, b.Rings = true, true }

func nowhere(compute.HostID) bool { return false }

// A host that saves is eligible for what fits beside, and for what it saves for as for any.
func TestWhatFitsBeside(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("big", 6), q("bit", 1), q("two", 2)})
	a.Observe(beacon(1, 7, saves("big", 6)), at(0))
	for name, want := range map[compute.QueueName]uint64{"big": 1, "bit": 1, "two": 0} {
		if hosts, room := a.Eligible(name); uint64(hosts) != want || room != want {
			t.Errorf("%s: %d hosts with room for %d", name, hosts, room)
		}
	}
	told, _ := a.Next(at(1), depths{}.of)
	for _, x := range told.About {
		if want := uint32(map[bool]int{true: 1}[x.Queue == "big"]); x.Savers != want {
			t.Errorf("%s has %d savers", x.Queue, x.Savers)
		}
	}
	a.Observe(beacon(1, 7), at(2))
	told, news := a.Next(at(3), depths{}.of)
	if hosts, _ := a.Eligible("two"); hosts != 1 || !news || len(told.About) == 0 {
		t.Errorf("after the saving %d hosts are eligible, told is %+v", hosts, told)
	}
}

// Hosts that may be told to save are those that would have the room when emptier, take work, know how, and save for
// none.
func TestWhoCanBeToldToSave(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("big", 8, "t"), q("other", 1)})
	has := func(b *compute.Beacon) { b.Inventory.Traits = []compute.Trait{"t"} }
	in := func(s compute.HostState) func(*compute.Beacon) { return func(b *compute.Beacon) { b.State = s } }
	foreign := func(b *compute.Beacon) { b.Inventory.Unmanaged = compute.Resources{compute.VCPU: 1} }
	asks := func(b *compute.Beacon) { b.Asks = true }
	for i, is := range [][]func(*compute.Beacon){
		{has, knows}, {has, knows}, {knows}, {has}, {has, knows, saves("other", 1)}, {has, knows, in(compute.HostDraining)},
		{has, knows, foreign}, {has, knows, asks},
	} {
		a.Observe(beacon(i, int64(2+2*i)%8, is...), at(0))
		a.Reaches(compute.HostID(fmt.Sprintf("h%d", i)), true)
	}
	got := map[compute.HostID]float64{}
	a.Full("big", func(h compute.HostID, missing float64) { got[h] = missing })
	if len(got) != 2 || got["h0"] != 0.75 || got["h1"] != 0.5 {
		t.Errorf("hosts are %v", got)
	}
	if _, known := a.Saves("h5"); known || a.TakesWork() != 6 {
		t.Errorf("of %d hosts that take work the draining one is: %t", a.TakesWork(), known)
	}
	if !a.Restarts("h7") || a.Restarts("h5") || a.Restarts("h0") || a.Restarts("nobody") {
		t.Error("h7 asks whether it is alone, and nobody else")
	}
	a.Observe(beacon(0, 2, has, knows, func(b *compute.Beacon) { b.Leaves = true }), at(1))
	if !a.Restarts("h0") {
		t.Error("h0 has ended")
	}
	for _, s := range []struct {
		state compute.HostState
		asks  bool
		want  bool
	}{
		{compute.HostQuarantined, true, true}, {compute.HostQuarantined, false, false}, {compute.HostDraining, true, false},
	} {
		a.Observe(beacon(0, 2, has, knows, in(s.state), func(b *compute.Beacon) { b.Asks = s.asks }), at(2))
		if got := a.Restarts("h0"); got != s.want {
			t.Errorf("%s, asks %t: it restarts %t", s.state, s.asks, got)
		}
	}
	if s, known := a.Saves("h4"); !known || s.For() != "other" {
		t.Errorf("h4 saves %+v, %t", s, known)
	}
	var savers []compute.HostID
	a.EachSaver(func(h compute.HostID, _ compute.Saving, _ time.Time) { savers = append(savers, h) })
	if a.Forget("h4"); len(savers) != 1 || len(a.savers) != 0 {
		t.Errorf("%v save, and after one is forgotten %v", savers, a.savers)
	}
	if a.FitsSome("big", nowhere) || !a.FitsSome("other", nowhere) {
		t.Error("what fits some host, or none, is not known")
	}
}

// A host makes room where what its preemptible machines have, with what is free, is enough, and the host is large
// enough.
func TestWhoMakesRoom(t *testing.T) {
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("big", 6), q("huge", 9)})
	may := func(n int64) func(*compute.Beacon) {
		return func(b *compute.Beacon) { b.Preempts, b.Preemptible = true, compute.Resources{compute.VCPU: n} }
	}
	old := func(b *compute.Beacon) { b.Preempts = false }
	foreign := func(b *compute.Beacon) { b.Inventory.Unmanaged = compute.Resources{compute.VCPU: 3} }
	for i, c := range []struct {
		free  int64
		is    []func(*compute.Beacon)
		makes bool
	}{
		{2, []func(*compute.Beacon){may(4)}, true}, {2, []func(*compute.Beacon){may(3)}, false},
		{2, []func(*compute.Beacon){may(0)}, false}, {2, []func(*compute.Beacon){may(4), old}, false},
		{2, []func(*compute.Beacon){may(6), foreign}, false}, {7, []func(*compute.Beacon){may(1)}, false}, // it fits
		{2, []func(*compute.Beacon){may(4), saves("big", 6)}, true},
		{2, []func(*compute.Beacon){may(4), func(b *compute.Beacon) { b.State = compute.HostDraining }}, false},
	} {
		a.Observe(beacon(i, c.free, append([]func(*compute.Beacon){knows}, c.is...)...), at(0))
		id := compute.HostID(fmt.Sprintf("h%d", i))
		if a.Reaches(id, true); a.MakesRoom("big", id) != c.makes || a.MakesRoom("huge", id) || a.MakesRoom("none", id) {
			t.Errorf("case %d: makes room is not %t", i, c.makes)
		}
		takesWork := a.hosts[id].takesWork()
		if a.IsFull("big", id) != (takesWork && c.free < 6) || a.IsFull("none", id) {
			t.Errorf("case %d: takes work %t, is full %t", i, takesWork, a.IsFull("big", id))
		}
	}
}

// What hosts take is counted of those that are heard of, by their last beacons.
func TestTaken(t *testing.T) {
	takes := func(n uint32) func(*compute.Beacon) {
		return func(b *compute.Beacon) { b.Taking = map[compute.QueueName]uint32{"q": n} }
	}
	a := New(DefaultRules())
	a.SetQueues([]compute.Queue{q("q", 1)})
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { a.Observe(beacon(1, 7, takes(2)), at(0)); a.Observe(beacon(2, 7, takes(3)), at(0)) }, 5},
		{func() { a.Observe(beacon(1, 7, takes(1)), at(50)) }, 4},
		{func() { a.Next(at(61), depths{}.of) }, 1},
		{func() { a.Observe(beacon(2, 7, takes(3)), at(62)) }, 4},
		{func() { a.Observe(beacon(1, 7), at(62)) }, 3},
		{func() { a.Forget("h2") }, 0},
		{func() { a.Forget("h1") }, 0},
	} {
		if step.do(); a.Taken("q") != step.want {
			t.Errorf("step %d: %d are taken, want %d", i, a.Taken("q"), step.want)
		}
	}
}
