// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

// saver is a host of ten processors, rung and told to save for queue "big", and how its savings ended.
func newSaver(t *testing.T, queues ...string) (*fixture, *[]string) {
	d := newFixture(t, queues...)
	var ended []string
	d.o.Saved = func(how string) { ended = append(ended, how) }
	d.Advise(compute.Advice{At: d.now, Rings: true}, d.now)
	return d, &ended
}

func (d *fixture) ring(l compute.Look) {
	d.Ring(l, d.now)
	d.look()
}

// While a host saves, other work gets what is left beside; once the work fits, its queue is fetched alone.
func TestOtherWorkGetsWhatIsBeside(t *testing.T) {
	d, ended := newSaver(t, "big 8", "bit 1")
	d.uses = 7
	d.ring(compute.Look{Queue: "big", Save: time.Minute})
	d.ring(compute.Look{Queue: "bit"})
	d.told() // three are free, and none beside
	s := d.Saving(d.now.Add(10 * time.Second))
	if s.For() != "big" || s.Age != 10*time.Second || s.Left != 50*time.Second || s.Needs[compute.VCPU] != 8 {
		t.Errorf("it saves %+v", s)
	}
	d.uses = 2
	d.Freed(d.now)
	d.look()
	d.told("open big 100ms")
	d.ended("big", -1, 0)
	d.uses = 1
	d.Changed()
	d.look()
	d.told("open bit 100ms") // one is free beside
	d.uses = 2
	d.ended("bit", 7, 1)
	d.p.told = nil
	d.Took("big")
	if d.Saving(d.now) != nil || !slices.Equal(*ended, []string{SavingTaken}) {
		t.Errorf("it saves %+v, %v", d.Saving(d.now), *ended)
	}
}

// Work for this host alone that waits, and might be taken away for what the host saves for, leaves it the room and has
// what is left beside. Other work for this host alone goes first.
func TestPinnedWorkBesideASaving(t *testing.T) {
	later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	goes := compute.Build{Preemptible: true, WaitUntil: later}
	inside := goes
	inside.In = compute.InPlaceholder{ID: "1"}
	for name, x := range map[string]struct {
		uses   int64 // of ten
		pinned compute.Build
		class  compute.Priority // of what is saved for
		fits   bool             // what is pinned, while the host saves
		opened bool             // a fetch of what is saved for
	}{
		"it would go again":        {2, goes, compute.PriorityNormal, false, true},
		"it has room beside":       {0, goes, compute.PriorityNormal, true, true},
		"it stays":                 {2, compute.Build{WaitUntil: later}, compute.PriorityNormal, true, false},
		"it does not wait":         {2, compute.Build{Preemptible: true}, compute.PriorityNormal, true, false},
		"it has its room":          {2, inside, compute.PriorityNormal, true, true},
		"nothing goes for the low": {2, goes, compute.PriorityLow, true, false},
	} {
		d, _ := newSaver(t)
		d.SetQueue(compute.Queue{
			Name: "big", Group: "g", TopicID: "t", Resources: compute.Resources{compute.VCPU: 8}, Priority: x.class,
		}, d.now)
		d.uses = x.uses
		x.pinned.Resources = compute.Resources{compute.VCPU: 2}
		d.Pin(x.pinned)
		fits := func() bool { return d.RoomForPinned(x.pinned, d.supply().Room).Fits(x.pinned.Resources) }
		if !fits() {
			t.Errorf("%s: it does not fit before anything is saved", name)
		}
		d.Ring(compute.Look{Queue: "big", Save: time.Minute, Preempt: true}, d.now)
		if x.fits != fits() {
			t.Errorf("%s: that it fits is %t", name, !x.fits)
		}
		d.look()
		var want []string
		if x.opened {
			want = []string{"open big 100ms"}
		}
		d.told(want...)
		d.Took("big")
		if !x.opened && !fits() {
			t.Errorf("%s: it does not fit after the saving", name)
		}
	}
}

// What starts beside a saving has a place that leaves the other work one.
func TestPlaceBesideASaving(t *testing.T) {
	d, _ := newSaver(t, "big 4")
	d.Ring(compute.Look{Queue: "big", Save: time.Minute}, d.now)
	nodes := []compute.NUMANode{{ID: 0, CPUs: []int{0, 1, 2, 3}}, {ID: 1, CPUs: []int{4, 5, 6, 7}}}
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 8}}
	room := offer.Terms{OneNode: true}.Offer(inv, nodes, nil).Room()
	goes := compute.Build{Preemptible: true, WaitUntil: d.now.Add(time.Hour)}
	goes.Resources = compute.Resources{compute.VCPU: 2}
	for n := range 2 {
		place, _, fits := d.RoomForPinned(goes, room).Allocate(goes.Resources, compute.Place{})
		room = room.Hold(goes.Resources, place)
		if !fits || !room.Fits(compute.Resources{compute.VCPU: 4}) {
			t.Errorf("after %d more: %t, and the other work fits: %t", n, fits, room.Fits(compute.Resources{compute.VCPU: 4}))
		}
	}
	if d.RoomForPinned(goes, room).Fits(goes.Resources) {
		t.Error("it may have the last place of the other work")
	}
}

// Where fetches are open that have the room for work beside a saving, it waits for them to end, and its share is kept.
func TestPinnedWorkThatFitsBesideASaving(t *testing.T) {
	d, _ := newSaver(t, "big 4", "a 3", "b 3")
	d.ring(compute.Look{Queue: "a"})
	d.told("open a 100ms")
	goes := compute.Build{Preemptible: true, WaitUntil: d.now.Add(time.Hour)}
	goes.Resources = compute.Resources{compute.VCPU: 5}
	d.Pin(goes)
	d.ring(compute.Look{Queue: "big", Save: time.Minute})
	d.ring(compute.Look{Queue: "b"})
	d.told()
	d.ended("a", -1, 0)
	if !d.RoomForPinned(goes, d.supply().Room).Fits(goes.Resources) {
		t.Error("with no fetch open it has no room")
	}
	d.look()
	d.told("open big 100ms")
	if !d.RoomForPinned(goes, d.supply().Room).Fits(goes.Resources) {
		t.Error("beside the fetch that is open for the other work it has no room")
	}
}

// A saving ends with its time, with its queue, as it is told, and when the host takes no work.
func TestSavingsEnd(t *testing.T) {
	for how, end := range map[string]func(*fixture){
		SavingTime:    func(d *fixture) { d.now = d.now.Add(time.Minute) },
		SavingGone:    func(d *fixture) { d.RemoveQueue("big") },
		SavingStopped: func(d *fixture) { d.Look(Supply{}, d.now) },
		SavingTaken:   func(d *fixture) { d.Took("big") },
		"told":        func(d *fixture) { d.Ring(compute.Look{Queue: "big", Spend: true}, d.now) },
	} {
		d, ended := newSaver(t, "big 8", "bit 1")
		d.uses = 7
		d.ring(compute.Look{Queue: "big", Save: time.Minute})
		if !d.Due().Before(d.now.Add(61 * time.Second)) {
			t.Errorf("due is %v", d.Due())
		}
		end(d)
		d.ring(compute.Look{Queue: "bit"})
		if how == "told" {
			how = SavingGone
		}
		if !slices.Equal(*ended, []string{how}) || d.Saving(d.now) != nil {
			t.Errorf("%s: %v, and it saves %+v", how, *ended, d.Saving(d.now))
		}
		d.told("open bit 100ms")
	}
}

// What is said of another queue changes nothing, a host saves for one at a time; told again it does so for longer.
func TestOneSavingAtATime(t *testing.T) {
	d, ended := newSaver(t, "big 8", "other 9")
	d.uses = 7
	d.ring(compute.Look{Queue: "big", Save: time.Minute})
	d.ring(compute.Look{Queue: "other", Save: time.Hour})
	d.ring(compute.Look{Queue: "other", Spend: true})
	d.ring(compute.Look{Queue: "big"}) // a ring as any
	d.now = d.now.Add(time.Second)
	d.ring(compute.Look{Queue: "big", Save: time.Minute})
	if s := d.Saving(d.now); s.For() != "big" || s.Age != time.Second || s.Left != time.Minute || len(*ended) > 0 {
		t.Errorf("it saves %+v, %v", s, *ended)
	}
}

// Work that has waited for long is fetched alone, before other work that lies at the same broker.
func TestLateWorkGoesFirst(t *testing.T) {
	d, _ := newSaver(t, "b1 1", "b2 8")
	d.uses = 1
	d.Advise(compute.Advice{At: d.now, Rings: true, About: []compute.QueueAdvice{
		{Queue: "b1", Depth: 5, Oldest: d.now.Add(-time.Hour)}, {Queue: "b2", Depth: 1, Late: true},
	}}, d.now)
	d.Ring(compute.Look{Queue: "b1"}, d.now)
	d.ring(compute.Look{Queue: "b2"})
	d.told("open b2 100ms")
	d.ended("b2", -1, 0)
	d.look()
	d.told("open b1 100ms")
}

// Late work that is said to lie where a host only waits is looked for alone once, and then together with what else it
// waits for: a queue manager may say so for a while after that work has gone.
func TestLateWorkIsLookedForAloneOnce(t *testing.T) {
	d, _ := newSaver(t, "b1 1", "b2 8")
	d.Advise(compute.Advice{At: d.now, Rings: true, About: []compute.QueueAdvice{
		{Queue: "b2", Depth: 1, Late: true, Oldest: d.now.Add(-time.Minute)},
	}}, d.now)
	d.Ring(compute.Look{Queue: "b1", Hold: time.Minute}, d.now)
	d.ring(compute.Look{Queue: "b2", Hold: time.Minute})
	d.told("open b2 100ms")
	for range 2 {
		d.ended("b2", -1, 0)
		d.look()
		d.told("open b1 b2")
	}
}

// A host that saves looks for a moment, and then waits for the work that it saves for: other work comes beside.
func TestOtherWorkIsFetchedBesideWhatAHostSavesFor(t *testing.T) {
	d, _ := newSaver(t, "b1 1", "b2 8")
	d.Ring(compute.Look{Queue: "b1", Hold: time.Minute}, d.now)
	d.Ring(compute.Look{Queue: "b2", Hold: time.Minute}, d.now)
	d.ring(compute.Look{Queue: "b2", Save: time.Minute})
	d.told("open b2 100ms")
	d.ended("b2", -1, 0)
	d.look()
	d.look()
	d.told("open b2", "open beside b1")
}

// In its last slot a host looks in turn for what it saves for and for what it was rung for.
func TestTurnsInTheLastSlot(t *testing.T) {
	d, _ := newSaver(t, "b1 1", "b2 8")
	d.slots = 1
	d.Ring(compute.Look{Queue: "b1", Hold: time.Minute}, d.now)
	d.ring(compute.Look{Queue: "b2", Hold: time.Minute, Save: time.Minute})
	d.told("open b2 100ms")
	for range 2 {
		d.ended("b2", -1, 0)
		d.look()
		d.told("open b1")
		d.ended("b1", -1, 0)
		d.look()
		d.told("open b2")
	}
}

// What does not fit beside what a host saves for keeps nothing else waiting.
func TestWhatDoesNotFitBesideASavingHoldsNothingBack(t *testing.T) {
	d, _ := newSaver(t, "a 10", "b1 1", "b2 2")
	d.ring(compute.Look{Queue: "b2", Hold: time.Minute, Save: time.Minute})
	d.told("open b2")
	d.ring(compute.Look{Queue: "a"})
	d.told()
	d.ring(compute.Look{Queue: "b1"})
	d.told("open beside b1 100ms")
}
