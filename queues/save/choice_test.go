// SPDX-License-Identifier: Apache-2.0

package save

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func (w *world) saves(queues, hosts int) {
	w.t.Helper()
	if q, h := w.Saved(); q != queues || h != hosts {
		w.t.Errorf("%d hosts save for %d queues, want %d for %d", h, q, hosts, queues)
	}
}

// The queue counts that has the oldest build now, wherever that lies in it; not one that has gone.
func TestTheQueueOfTheOldestBuildComesFirst(t *testing.T) {
	for _, names := range [][2]compute.QueueName{{"a", "z"}, {"z", "a"}} {
		old, young := names[0], names[1]
		w := newWorld(t, 1)
		w.fits = true
		w.wait(old, "1")
		w.pass(9 * time.Second)
		w.wait(young, "2")
		w.pass(9 * time.Second)
		w.wait(old, "3", "1")
		w.pass(39 * time.Second)
		w.fits = false
		w.want(w.pass(0), fmt.Sprintf("h00 saves %s", old))

		w = newWorld(t, 1)
		w.fits = true
		w.wait(old, "1")
		w.pass(9 * time.Second)
		w.wait(young, "2")
		w.pass(24 * time.Second)
		w.wait(old, "1", "3")
		w.pass(4 * time.Second)
		w.wait(old, "3")
		w.pass(39 * time.Second)
		w.fits = false
		w.want(w.pass(0), fmt.Sprintf("h00 saves %s", young))
	}
}

// Within a second too, no host saves for two queues, and no more save than may; a host counts though its beacon does
// not say yet that it saves.
func TestQueuesOfOneSecond(t *testing.T) {
	for hosts, want := range map[int][]string{20: {"h00 saves one", "h01 saves two"}, 5: {"h00 saves one"}} {
		w := newWorld(t, hosts)
		w.mute = true
		w.wait("one", "a")
		w.wait("two", "b")
		w.wait("three")
		w.pass(29 * time.Second)
		w.want(w.pass(0), want...)
	}
	for hosts, want := range map[int][]string{20: {"h01 saves two"}, 5: nil} {
		w := newWorld(t, hosts)
		w.mute = true
		w.wait("one", "a")
		w.pass(0)
		w.wait("two", "b")
		w.pass(28 * time.Second)
		w.want(w.pass(0), "h00 saves one")
		w.want(w.pass(0), want...)
	}
}

// For few queues hosts are looked for in a second. Those count for which some were looked through.
func TestHostsAreLookedForForFewQueuesAtATime(t *testing.T) {
	w := newWorld(t, 200)
	for i := range mostLooked + 2 {
		w.wait(compute.QueueName(fmt.Sprint("q", i)), "a")
	}
	w.pass(29 * time.Second)
	if told := w.pass(0); len(told) != mostLooked {
		t.Errorf("told: %v", told)
	}
	if told := w.pass(0); len(told) != 2 {
		t.Errorf("told a second later: %v", told)
	}
	w = newWorld(t, 200)
	w.nobody = map[compute.QueueName]bool{}
	for i := range 2 * mostLooked {
		q := compute.QueueName(fmt.Sprint("q", i))
		w.nobody[q] = true
		w.wait(q, "a")
	}
	w.wait("some", "a")
	w.pass(29 * time.Second)
	w.want(w.pass(0), "h00 saves some")
}

// Hosts are looked through now and then for a queue for which none was found, and, where as many save as may, for one
// for which none could make room. For the low class, no machines go, so they are not.
func TestHowOftenHostsAreLookedThrough(t *testing.T) {
	for name, c := range map[string]struct {
		hosts int
		class compute.Priority
		most  int
	}{"no host": {0, compute.PriorityNormal, 7}, "full": {5, compute.PriorityNormal, 7},
		"full, low": {5, compute.PriorityLow, 0}} {
		w := newWorld(t, c.hosts)
		w.wait("a", "1")
		w.pass(31 * time.Second)
		w.waits["b"] = []Build{{Key: "2", Class: c.class}}
		if w.pass(31 * time.Second); c.hosts == 0 {
			w.wait("a")
			w.pass(0)
		}
		w.looks = 0
		w.pass(time.Minute)
		if w.looks > c.most {
			t.Errorf("%s: hosts were looked through %d times in a minute, want %d at most", name, w.looks, c.most)
		}
	}
}

// A host that rests after it has saved in vain may still make room for another queue: what is free there is taken as
// before.
func TestAHostThatRestsMayMakeRoom(t *testing.T) {
	w := newWorld(t, 1)
	w.wait("one", "a")
	w.want(w.pass(11*time.Minute), "h00 saves one")
	w.moves = map[compute.HostID]bool{"h00": true}
	w.wait("two", "b")
	w.want(w.pass(31*time.Second), "h00 makes room for two")
}

// A host may make room for what waits beside one that only saves: as many as builds lie before the first placeholder.
func TestOneMakesRoomBesideOneThatSaves(t *testing.T) {
	w := newWorld(t, 20)
	w.waits["q"] = []Build{{Key: "a"}, {Key: "p", Placeholder: true}}
	w.pass(29 * time.Second)
	w.want(w.pass(0), "h00 saves q")
	w.moves = map[compute.HostID]bool{"h03": true}
	w.want(w.pass(0), "h03 makes room for q")
}

// A host does not count as one that cannot make room before its beacon says that it saves, nor does what is free lie
// idle on one whose agent is started again while machines go.
func TestHostsThatMakeRoomSoon(t *testing.T) {
	begin := func() *world {
		w := newWorld(t, 5)
		w.moves = map[compute.HostID]bool{"h02": true}
		w.wait("q", "a")
		w.pass(0)
		w.wait("other", "b")
		w.pass(28 * time.Second)
		return w
	}
	w := begin()
	w.mute, w.moves["h03"] = true, true
	w.want(w.pass(0), "h02 makes room for q")
	w.want(w.pass(0), "h03 makes room for other")

	w = begin()
	w.wait("other")
	w.want(w.pass(0), "h02 makes room for q")
	w.moves = nil
	w.gone["h02"], w.saving["h02"], w.begins = true, nil, map[compute.HostID]bool{"h02": true}
	w.wait("other", "b")
	w.want(w.pass(31*time.Second), "h00 saves other")

	w = begin()
	w.wait("other")
	w.want(w.pass(0), "h02 makes room for q")
	w.pass(time.Second) // it has said that it does
	w.moves = map[compute.HostID]bool{"h03": true}
	w.gone["h02"], w.saving["h02"], w.begins = true, nil, map[compute.HostID]bool{"h02": true}
	w.wait("other", "b")
	w.want(w.pass(31*time.Second), "h03 makes room for other")
}

// Work is late though there is no host at all; what none may have is late for nobody.
func TestLate(t *testing.T) {
	w := newWorld(t, 0)
	w.wait("q", "a")
	w.pass(31 * time.Second)
	if !w.Late("q") {
		t.Error("what waits without any host is not late")
	}
	w = newWorld(t, 5)
	w.waits["q"] = []Build{{Key: "a", Not: func(compute.HostID) bool { return true }}}
	w.pass(time.Minute)
	if w.Late("q") {
		t.Error("what no host may have is late")
	}
}
