// SPDX-License-Identifier: Apache-2.0

package save

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// world is what the saver is told: one queue waits for eight processors unless it is said otherwise.
type world struct {
	*Saver
	t      *testing.T
	now    time.Time
	waits  map[compute.QueueName][]Build
	fits   bool
	free   map[compute.HostID]float64 // hosts that are full, and how much is missing there
	gone   map[compute.HostID]bool
	saving map[compute.HostID]*compute.Saving
	heard  map[compute.HostID]time.Time
	moves  map[compute.HostID]bool // hosts on which it fits once preemptible machines are gone, by sums
	roomy  map[compute.HostID]bool // hosts that have the room
	begins map[compute.HostID]bool // hosts whose agents are started again
	cannot bool                    // they do not go: NUMA nodes do not allow it
	takes  map[compute.QueueName]int
	nobody map[compute.QueueName]bool // queues whose work no host would fit when emptier
	mute   bool                       // beacons are late: none says yet what its host was told
	looks  int                        // how often hosts were looked through
}

func (w *world) Waiting(_ time.Time, each func(compute.QueueName, []Build, int)) {
	for q := range w.waits {
		if len(w.waits[q]) > 0 {
			each(q, w.waits[q], w.takes[q])
		}
	}
}

func (w *world) FitsSome(_ compute.QueueName, not func(compute.HostID) bool) bool {
	if not != nil {
		w.looks++
	}
	return w.fits
}

func (w *world) TakesWork() int { return len(w.free) - len(w.gone) }

func (w *world) Full(q compute.QueueName, each func(compute.HostID, float64)) {
	w.looks++
	for h, missing := range w.free {
		if !w.gone[h] && w.saving[h] == nil && !w.nobody[q] {
			each(h, missing)
		}
	}
}

func (w *world) IsFull(_ compute.QueueName, h compute.HostID) bool { return !w.roomy[h] }

func (w *world) MakesRoom(_ compute.QueueName, h compute.HostID) bool { return w.moves[h] }

func (w *world) Restarts(h compute.HostID) bool { return w.begins[h] }

func (w *world) Saves(h compute.HostID) (*compute.Saving, bool) { return w.saving[h], !w.gone[h] }

func (w *world) EachSaver(each func(compute.HostID, compute.Saving, time.Time)) {
	for _, h := range slices.Sorted(maps.Keys(w.saving)) {
		if s := w.saving[h]; s != nil && !w.gone[h] {
			each(h, *s, w.heard[h])
		}
	}
}

// newWorld has so many hosts, h00 the one that lacks least.
func newWorld(t *testing.T, hosts int, change ...func(*Rules)) *world {
	w := &world{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), waits: map[compute.QueueName][]Build{},
		free: map[compute.HostID]float64{}, gone: map[compute.HostID]bool{},
		saving: map[compute.HostID]*compute.Saving{}, heard: map[compute.HostID]time.Time{},
	}
	for i := range hosts {
		w.free[compute.HostID(fmt.Sprintf("h%02d", i))] = float64(i+1) / float64(hosts+1)
	}
	rules := DefaultRules()
	for _, f := range change {
		f(&rules)
	}
	w.Saver = New(rules, w)
	return w
}

// wait has builds lie in a queue.
func (w *world) wait(q compute.QueueName, keys ...string) {
	w.waits[q] = nil
	for _, k := range keys {
		w.waits[q] = append(w.waits[q], Build{Key: k})
	}
}

// pass lets time go by and answers what hosts are told, for the first time or the last.
func (w *world) pass(d time.Duration) (told []string) {
	for end := w.now.Add(d); !w.now.After(end); w.now = w.now.Add(Every) {
		for _, x := range w.Tell(w.now) {
			what := "spends " + string(x.Look.Queue)
			if !x.Look.Spend {
				what = "saves " + string(x.Look.Queue)
			}
			if x.Look.Preempt {
				what = "makes room for " + string(x.Look.Queue)
			}
			told = append(told, string(x.Host)+" "+what)
			w.hears(x)
		}
		for h, s := range w.saving {
			if s != nil && !w.now.Before(w.heard[h].Add(s.Left)) {
				w.saving[h] = nil
			}
		}
	}
	return slices.Compact(told)
}

// hears has the host do as it is told, and say so.
func (w *world) hears(x Told) {
	if w.mute {
		return
	}
	if w.heard[x.Host] = w.now; x.Look.Spend {
		w.saving[x.Host] = nil
		return
	}
	w.saving[x.Host] = &compute.Saving{Queue: x.Look.Queue, Left: x.Look.Save, Preempt: x.Look.Preempt && !w.cannot}
}

func (w *world) want(got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("told: %s\nwant: %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

func TestTheNearestHostSavesForWhatHasWaited(t *testing.T) {
	w := newWorld(t, 5)
	w.wait("q", "a")
	w.want(w.pass(29 * time.Second))
	w.want(w.pass(time.Minute), "h00 saves q")
	if queues, hosts := w.Saved(); queues != 1 || hosts != 1 || !w.Late("q") || w.Late("other") {
		t.Errorf("%d hosts save for %d queues", hosts, queues)
	}
	w.wait("q")
	w.want(w.pass(5*time.Second), "h00 spends q")
	if queues, hosts := w.Saved(); queues != 0 || hosts != 0 || !w.Next().IsZero() {
		t.Errorf("%d hosts save for %d queues, and it wants to be asked at %v", hosts, queues, w.Next())
	}
}

func TestNoneSavesForWhatFits(t *testing.T) {
	w := newWorld(t, 5)
	w.fits = true
	w.wait("q", "a")
	w.want(w.pass(time.Hour))
	if w.Late("q") {
		t.Error("what fits somewhere is called late")
	}
}

func TestNoneSavesIfThatIsSwitchedOff(t *testing.T) {
	w := newWorld(t, 5, func(r *Rules) { r.After = 0 })
	w.wait("q", "a")
	w.want(w.pass(time.Hour))
}

// While work waits it is asked again each second, and looks at nothing before that.
func TestWhenItWantsToBeAsked(t *testing.T) {
	w := newWorld(t, 1)
	w.wait("q", "a")
	began := w.now
	for _, c := range []struct {
		at, next time.Duration
		told     int
	}{{0, 1000, 0}, {29500, 30500, 0}, {30000, 30500, 0}, {30500, 31500, 1}} {
		told := w.Tell(began.Add(c.at * time.Millisecond))
		if next := w.Next().Sub(began); len(told) != c.told || next != c.next*time.Millisecond {
			t.Errorf("after %d ms %d hosts are told, want %d, and it is asked again at %s, want %d ms", c.at, len(told),
				c.told, next, c.next)
		}
		if queues, hosts := w.Saved(); queues != c.told || hosts != c.told {
			t.Errorf("after %d ms %d hosts save for %d queues", c.at, hosts, queues)
		}
	}
}

// A queue manager that has been elected again looks at once, and knows nothing of what was in vain before.
func TestResetForgetsAll(t *testing.T) {
	w := newWorld(t, 1)
	w.wait("q", "a")
	w.want(w.pass(11*time.Minute), "h00 saves q")
	now := w.now.Add(-Every)
	if w.Reset(); !w.Next().IsZero() {
		t.Errorf("it wants to be asked at %s", w.Next())
	}
	if w.Tell(now); !w.Next().Equal(w.now) {
		t.Errorf("asked again at once it does not look: next at %v, want %s", w.Next(), w.now)
	}
	w.want(w.pass(31*time.Second), "h00 saves q")
}

// A host that took the work saves no more; what waits next has another, and has waited by then.
func TestAHostThatTookTheWorkIsNotTold(t *testing.T) {
	w := newWorld(t, 20)
	w.wait("q", "a", "b")
	w.want(w.pass(40*time.Second), "h00 saves q", "h01 saves q")
	w.saving["h00"], w.free = nil, map[compute.HostID]float64{"h01": 0.5, "h02": 0.5}
	w.wait("q", "b")
	w.want(w.pass(10*time.Second), "h01 saves q") // once more
	if _, hosts := w.Saved(); hosts != 1 {
		t.Errorf("%d hosts save", hosts)
	}
}

// One host in ten saves at most, and the work that has waited longest comes first.
func TestFewSaveAndTheLongestWaitingFirst(t *testing.T) {
	w := newWorld(t, 20)
	w.wait("young")
	w.wait("z-old", "1", "2")
	w.pass(10 * time.Second)
	w.wait("young", "3", "4")
	w.want(w.pass(50*time.Second), "h00 saves z-old", "h01 saves z-old", "h00 saves z-old", "h01 saves z-old",
		"h00 saves z-old", "h01 saves z-old")
	w.wait("z-old")
	w.want(w.pass(3*time.Second), "h01 spends z-old", "h00 spends z-old", "h00 saves young", "h01 saves young")
}

// A queue for which hosts have saved in vain pauses, longer each time, and then another host saves.
func TestInVain(t *testing.T) {
	w := newWorld(t, 3)
	w.wait("q", "a")
	var began []time.Duration
	first, start := map[string]bool{}, w.now
	was := ""
	for range 3 * 3600 {
		for _, x := range w.pass(0) {
			if x != was {
				began, was = append(began, w.now.Sub(start).Round(time.Minute)), x
			}
			first[x] = true
		}
	}
	// 10 min each; the pauses between are of 10, 20 and 40 min
	want := []time.Duration{1 * time.Minute, 21 * time.Minute, 51 * time.Minute, 101 * time.Minute}
	if len(began) < 4 || !slices.Equal(began[:4], want) || len(first) != 3 {
		t.Errorf("hosts began to save at %v, %v did", began, slices.Collect(maps.Keys(first)))
	}
}

// Where hosts are few, one that has saved for a queue in vain does not save for the next one at once: other work has as long.
func TestAHostThatSavedInVainHasAsLongForOthers(t *testing.T) {
	w := newWorld(t, 1)
	w.wait("one", "a")
	w.wait("two", "b")
	w.want(w.pass(11*time.Minute), "h00 saves one")
	w.want(w.pass(9 * time.Minute))
	w.want(w.pass(11*time.Minute), "h00 saves one") // which has waited longer; then that pauses for 20 min
	w.want(w.pass(9 * time.Minute))
	w.want(w.pass(2*time.Minute), "h00 saves two")
}

// The host that avoids the work, or takes none, does not save for it.
func TestHostsThatMayNotHaveIt(t *testing.T) {
	w := newWorld(t, 3)
	w.waits["q"] = []Build{{Key: "a", Not: func(h compute.HostID) bool { return h == "h00" }}}
	w.gone["h01"] = true
	w.want(w.pass(40*time.Second), "h02 saves q")
	w.gone["h02"], w.gone["h01"] = true, false
	w.want(w.pass(15*time.Second), "h01 saves q")
}

// Of many late builds few are looked at each time, and each of them now and then: what some host may have is found
// among 10,000 that none may.
func TestHostsAreLookedThroughForFewAtATime(t *testing.T) {
	w := newWorld(t, 20)
	not := func(compute.HostID) bool { return true }
	for i := range 312 {
		q := compute.QueueName(fmt.Sprintf("q%03d", i))
		for n := range MostBuilds {
			w.waits[q] = append(w.waits[q], Build{Key: fmt.Sprint(q, "-", n), Not: not})
		}
	}
	w.waits["some"] = []Build{{Key: "a", Not: func(h compute.HostID) bool { return h != "h07" }}}
	var told []string
	for second := 0; len(told) == 0; second++ {
		w.looks = 0
		told = w.pass(0)
		if most := 2*mostAsked + 8; w.looks > most {
			t.Fatalf("hosts were looked through %d times at once, want %d at most", w.looks, most)
		}
		if second > 7200 {
			t.Fatal("nothing was found in two hours")
		}
	}
	w.want(told, "h07 saves some")
}

// What was found out of a build is looked at again: the host that may have it may be gone, or may have it by now.
func TestWhatNoHostMayHaveIsLookedAtAgain(t *testing.T) {
	w := newWorld(t, 3)
	kept := true
	w.waits["q"] = []Build{{Key: "a", Not: func(compute.HostID) bool { return kept }}}
	w.want(w.pass(time.Minute))
	kept, w.looks = false, 0
	w.want(w.pass(lookedEvery), "h00 saves q")
	w.fits, w.looks = true, 0
	w.pass(time.Minute)
	if w.looks > 12 {
		t.Errorf("hosts were looked through %d times in a minute for one build", w.looks)
	}
}

// A host saves no more once what it saved for has gone elsewhere and all that is left avoids it.
func TestAHostIsToldThatWhatIsLeftAvoidsIt(t *testing.T) {
	w := newWorld(t, 3, func(r *Rules) { r.Each = 1 })
	left := Build{Key: "b", Not: func(h compute.HostID) bool { return h == "h00" }}
	w.waits["q"] = []Build{{Key: "a"}, left}
	w.moves = map[compute.HostID]bool{"h00": true}
	w.waits["q"][0].Class, left.Class = compute.PriorityHigh, compute.PriorityHigh
	w.want(w.pass(40*time.Second), "h00 makes room for q")
	w.waits["q"] = []Build{left}
	w.want(w.pass(20*time.Second), "h00 spends q", "h01 saves q")
}

// A queue manager that is elected counts the hosts that save, and ends what nothing waits for.
func TestAnElectedOneTakesOver(t *testing.T) {
	w := newWorld(t, 3)
	w.saving["h01"], w.heard["h01"] = &compute.Saving{Queue: "q", Left: 5 * time.Minute}, w.now
	w.saving["h02"], w.heard["h02"] = &compute.Saving{Queue: "gone", Left: 5 * time.Minute}, w.now
	w.wait("q", "a")
	w.want(w.pass(4*time.Minute), "h02 spends gone", "h01 saves q")
	if queues, hosts := w.Saved(); queues != 1 || hosts != 1 {
		t.Errorf("%d hosts save for %d queues", hosts, queues)
	}
	w.Reset()
	if _, hosts := w.Saved(); hosts != 0 {
		t.Errorf("%d hosts save after a reset", hosts)
	}
}

// A host that does not say that it saves is told a few times; then another is.
func TestAHostThatDoesNotSave(t *testing.T) {
	w := newWorld(t, 3)
	w.wait("q", "a")
	hosts := map[compute.HostID]int{}
	for range 120 {
		w.now = w.now.Add(time.Second)
		for _, x := range w.Tell(w.now) { // nobody says a thing
			hosts[x.Host]++
		}
	}
	if !maps.Equal(hosts, map[compute.HostID]int{"h00": 2, "h01": 2, "h02": 2}) {
		t.Errorf("told were %v", hosts)
	}
}

// A host that can make room goes before one that lacks less, but not for work of the low class.
func TestMachinesAreTakenAwayForHigherWork(t *testing.T) {
	for class, want := range map[compute.Priority]string{
		compute.PriorityLow: "h00 saves q", compute.PriorityNormal: "h02 makes room for q",
		compute.PriorityHigh: "h02 makes room for q",
	} {
		w := newWorld(t, 5)
		w.moves = map[compute.HostID]bool{"h02": true, "h04": true}
		w.waits["q"] = []Build{{Key: "a", Class: class}}
		w.want(w.pass(time.Minute), want)
	}
}

// Hosts that make room are not of the few that may save, since nothing lies idle there; each late build has one host
// still.
func TestManyMakeRoom(t *testing.T) {
	w := newWorld(t, 5)
	w.wait("q", "a")
	w.want(w.pass(31*time.Second), "h00 saves q") // one host in ten saves
	w.moves = map[compute.HostID]bool{"h01": true, "h02": true, "h03": true}
	w.wait("other", "b", "c")
	w.waits["low"] = []Build{{Key: "d", Class: compute.PriorityLow}}
	w.want(w.pass(31*time.Second), "h00 saves q", "h01 makes room for other", "h02 makes room for other")
}

// TestMachinesGoOnOneHostAlone: an agent that is started again while its machines go is told again, and no other host's
// go. One that does not come back, or has come back and lets other work have the room, saves no more.
func TestMachinesGoOnOneHostAlone(t *testing.T) {
	begin := func(moves ...compute.HostID) *world {
		w := newWorld(t, 20)
		w.moves = map[compute.HostID]bool{}
		for _, h := range moves {
			w.moves[h] = true
		}
		w.wait("big", "a")
		w.pass(29 * time.Second)
		w.want(w.pass(5*time.Second), "h02 makes room for big")
		w.gone["h02"], w.saving["h02"] = true, nil
		return w
	}
	w := begin("h02", "h03")
	w.begins = map[compute.HostID]bool{"h02": true}
	w.want(w.pass(40 * time.Second))
	delete(w.gone, "h02")
	delete(w.begins, "h02")
	w.moves["h02"] = false // what could go goes
	w.want(w.pass(10*time.Second), "h02 makes room for big")
	w.saving["h02"] = nil // other work has the room
	w.want(w.pass(2*time.Second), "h03 makes room for big")

	w = begin("h02", "h03")
	w.begins = map[compute.HostID]bool{"h02": true}
	w.want(w.pass(40 * time.Second))
	delete(w.begins, "h02") // it is silent
	w.want(w.pass(2*time.Second), "h03 makes room for big")

	w = begin("h02", "h03") // it is drained
	w.want(w.pass(2*time.Second), "h03 makes room for big")
}

// Nothing is taken away for a placeholder, nor for what lies behind one and would leave the room to it.
func TestNoRoomIsMadeForPlaceholders(t *testing.T) {
	a, b, p := Build{Key: "a"}, Build{Key: "b"}, Build{Key: "p", Placeholder: true}
	for _, c := range []struct {
		waits []Build
		want  []string
	}{
		{[]Build{p}, []string{"h00 saves q"}},
		{[]Build{p, a}, []string{"h00 saves q"}},
		{[]Build{a, p, b}, []string{"h01 makes room for q", "h00 saves q"}},
		{[]Build{a, b, p}, []string{"h01 makes room for q", "h02 makes room for q", "h00 saves q"}},
	} {
		w := newWorld(t, 5)
		w.moves = map[compute.HostID]bool{"h01": true, "h02": true, "h03": true}
		w.waits["q"] = c.waits
		w.want(w.pass(34*time.Second), c.want...)
		w.waits["q"] = []Build{p, {Key: "c"}, {Key: "d"}}
		for _, told := range w.pass(time.Minute) {
			if strings.Contains(told, "makes room") {
				t.Errorf("%v, and then a placeholder before others: %s", c.waits, told)
			}
		}
	}
}

// A host that saves already makes room once it can. One that an elected queue manager finds goes on as it was told.
func TestMakesRoomLater(t *testing.T) {
	w := newWorld(t, 5)
	w.wait("q", "a")
	w.want(w.pass(31*time.Second), "h00 saves q")
	w.moves = map[compute.HostID]bool{"h00": true}
	w.want(w.pass(15*time.Second), "h00 makes room for q")
	w.moves = nil // what could go goes
	w.Reset()
	w.want(w.pass(16*time.Second), "h00 makes room for q")
}

// What a host has taken and nobody has claimed yet is queued, and needs no room: neither that which a host took at
// once, nor that for which one made room.
func TestNoRoomIsMadeForWhatAHostTakes(t *testing.T) {
	w := newWorld(t, 5)
	w.moves = map[compute.HostID]bool{"h02": true, "h03": true, "h04": true}
	w.wait("q", "a")
	w.takes = map[compute.QueueName]int{"q": 1}
	w.want(w.pass(time.Minute))
	w.wait("q", "a", "b")
	w.want(w.pass(31*time.Second), "h02 makes room for q")
	w.saving["h02"], w.takes["q"] = nil, 2 // its beacon says both
	delete(w.moves, "h02")
	w.want(w.pass(time.Minute))
	w.wait("q", "b")
	w.takes["q"] = 0 // it was given back
	w.want(w.pass(time.Second), "h03 makes room for q")
	w.takes["q"] = 1 // by another host: the one that saves goes on, and has no more machines taken away
	w.want(w.pass(20*time.Second), "h03 saves q")
}

// A host of which sums say that it could make room, and which cannot, is one of the few that save, and is chosen once.
func TestAHostThatCannotMakeRoom(t *testing.T) {
	w := newWorld(t, 5)
	w.moves, w.cannot = map[compute.HostID]bool{"h02": true, "h03": true}, true
	w.wait("q", "a", "b")
	w.waits["low"] = []Build{{Key: "d", Class: compute.PriorityLow}}
	w.want(w.pass(35*time.Second), "h02 makes room for q") // one host in ten saves, and two builds wait
	w.wait("q", "a")
	var all []string
	for range 4 {
		all = append(all, w.pass(21*time.Minute)...)
	}
	if !slices.Contains(all, "h00 saves q") {
		t.Errorf("no other host was ever asked: %v", slices.Compact(all))
	}
}

// A saving for which machines go lasts as long as their guests may have to stop; another one as long as rules say, and
// so does one that has the room already: what waits may be for no host.
func TestASavingLastsUntilGuestsHaveStopped(t *testing.T) {
	for _, c := range []struct {
		cannot, roomy bool
		want          time.Duration
	}{{false, false, 11 * time.Minute}, {true, false, time.Minute}, {false, true, time.Minute}} {
		w := newWorld(t, 5, func(r *Rules) { r.For = time.Minute })
		w.moves, w.cannot, w.roomy = map[compute.HostID]bool{"h02": true}, c.cannot, map[compute.HostID]bool{"h02": c.roomy}
		w.wait("q", "a")
		w.pass(30 * time.Second)
		w.moves = nil
		began := w.now.Add(-Every)
		for w.saving["h02"] != nil {
			w.pass(0)
		}
		if lasted := w.now.Add(-Every).Sub(began); lasted != c.want {
			t.Errorf("%+v: it saved for %s", c, lasted)
		}
	}
}
