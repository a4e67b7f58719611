// SPDX-License-Identifier: Apache-2.0

package save

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func forAMinute(r *Rules) { r.For = time.Minute }

// A host that has not said yet that it saves is told, once, that it need not; then there is nothing to look at.
func TestAHostIsToldAtOnceThatNothingWaits(t *testing.T) {
	w := newWorld(t, 5)
	w.mute = true
	w.wait("q", "a")
	w.want(w.pass(30*time.Second), "h00 saves q")
	w.wait("q")
	w.want(w.pass(0), "h00 spends q")
	if !w.Next().IsZero() {
		t.Errorf("it wants to be asked again at %s", w.Next())
	}
	w.want(w.pass(0))

	w = newWorld(t, 5, func(r *Rules) { r.Each = 1 }) // what is left avoids it
	w.mute = true
	w.waits["q"] = []Build{{Key: "a"}, {Key: "b", Not: func(h compute.HostID) bool { return h == "h00" }}}
	w.want(w.pass(30*time.Second), "h00 saves q")
	w.waits["q"] = w.waits["q"][1:]
	w.want(w.pass(0), "h00 spends q", "h01 saves q")
}

// A saving for which machines go is made longer before it ends, and its host is told so at once; one that has come to
// its end is not, nor is a host told anew each second that there is no more.
func TestHowASavingIsMadeLonger(t *testing.T) {
	begin := func(cannot bool) *world {
		w := newWorld(t, 5, forAMinute)
		w.moves, w.cannot = map[compute.HostID]bool{"h02": true}, cannot
		w.wait("q", "a")
		w.want(w.pass(30*time.Second), "h02 makes room for q")
		w.pass(45*time.Second - Every) // told at 45, 60 and 75 s
		return w
	}
	w := begin(false)
	w.want(w.pass(0), "h02 makes room for q") // 14 s before its end
	w.want(w.pass(0))
	for w.now.Before(time.Date(2026, 1, 1, 0, 11, 16, 0, time.UTC)) { // 14 s before it is over for good
		w.pass(0)
	}
	times := 0
	for range 14 {
		times += len(w.pass(0))
	}
	if times > 1 {
		t.Errorf("told %d times in 14 s", times)
	}

	w = begin(true)
	w.pass(14*time.Second - Every)
	w.saving["h02"] = &compute.Saving{Queue: "q", Left: time.Hour, Preempt: true} // too late
	w.pass(0)
	w.saves(0, 0)
}

// A host that has just saved in vain does not save on, though its beacon says so still, or does not any more.
func TestItsBeaconIsNotWaitedFor(t *testing.T) {
	for _, says := range []*compute.Saving{nil, {Queue: "q", Left: time.Hour}} {
		w := newWorld(t, 1, forAMinute)
		w.wait("q", "a")
		w.want(w.pass(90*time.Second-Every), "h00 saves q")
		w.saving["h00"] = says
		w.want(w.pass(0))
		w.saves(0, 0)
		w.saving["h00"] = nil
		w.want(w.pass(time.Minute - 2*Every)) // the queue pauses
		w.want(w.pass(0), "h00 saves q")
	}
}

// beginnings are the seconds at which more hosts save than the second before.
func (w *world) beginnings(d time.Duration) (all []int) {
	began := w.now
	for w.now.Sub(began) < d {
		_, before := w.Saved()
		at := int(w.now.Sub(began).Seconds())
		w.pass(0)
		if _, after := w.Saved(); after > before {
			all = append(all, at)
		}
	}
	return all
}

// A queue pauses when as many have saved in vain as did and one more; until then another host saves at once.
func TestWhenAQueuePauses(t *testing.T) {
	w := newWorld(t, 60, forAMinute)
	w.wait("q", "a", "b")
	w.pass(89 * time.Second)
	w.want(w.pass(0), "h02 saves q") // for h00
	w.want(w.pass(0))                // not for h01: a pause of a minute, and of two when h02 has saved in vain, too

	w = newWorld(t, 60, forAMinute)
	w.wait("q", "a", "b")
	if got, want := w.beginnings(15*time.Minute), []int{30, 31, 270, 271, 870, 871}; !slices.Equal(got, want) {
		t.Errorf("more hosts save after %d s, want %d", got, want)
	}
}

// After a host took the work that it saved for, what was in vain before does not count any more.
func TestWhatWasInVainIsForgotten(t *testing.T) {
	w := newWorld(t, 60, forAMinute)
	w.wait("q", "a")
	w.want(w.pass(90*time.Second), "h00 saves q")
	w.want(w.pass(59*time.Second - Every))
	w.want(w.pass(Every), "h01 saves q")
	w.saving["h01"] = nil // it has taken its work
	w.wait("q", "b")
	w.want(w.pass(90*time.Second), "h01 saves q")
	w.want(w.pass(59*time.Second - Every)) // a pause of a minute again
	w.want(w.pass(0), "h02 saves q")

	w = newWorld(t, 60, forAMinute)
	w.wait("q", "a")
	w.pass(4 * time.Second)
	w.wait("q", "a", "b")
	w.pass(84 * time.Second)
	w.want(w.pass(0), "h02 saves q") // for h00
	w.saving["h01"] = nil
	w.wait("q", "b", "c")
	w.pass(59*time.Second - Every)
	w.want(w.pass(0), "h03 saves q") // for h02: again it is the first in vain
}

// A host whose agent is started again is kept while machines go, and told again when it is back, as often as one that
// was never told; one that only saves is not, nor is one for longer than it may save.
func TestAgentsThatAreStartedAgain(t *testing.T) {
	begin := func(moves bool) *world {
		w := newWorld(t, 20, func(r *Rules) { r.For = 2 * time.Minute })
		w.moves = map[compute.HostID]bool{"h02": moves}
		w.wait("q", "a")
		w.pass(66 * time.Second) // told at 30, 45 and 60 s
		w.gone, w.begins = map[compute.HostID]bool{}, map[compute.HostID]bool{}
		for _, h := range []compute.HostID{"h00", "h02"} {
			if w.saving[h] != nil {
				w.gone[h], w.begins[h], w.saving[h] = true, true, nil
			}
		}
		return w
	}
	w := begin(true)
	w.want(w.pass(time.Second))
	w.gone, w.begins, w.mute = nil, nil, true
	w.want(w.pass(0), "h02 makes room for q")
	w.want(w.pass(14*time.Second - Every))
	w.want(w.pass(0), "h02 makes room for q")
	w.want(w.pass(14*time.Second - Every))
	w.want(w.pass(0), "h00 saves q")

	w = begin(true)
	w.moves = nil
	w.want(w.pass(150*time.Second-67*time.Second), "h00 saves q")
	w = begin(false)
	w.want(w.pass(0), "h01 saves q")
}

// A host that says that it saves for another queue does not save for this one any more.
func TestAHostThatSavesForAnotherQueue(t *testing.T) {
	w := newWorld(t, 20)
	w.wait("q", "a")
	w.want(w.pass(30*time.Second), "h00 saves q")
	w.saving["h00"] = &compute.Saving{Queue: "other", Left: time.Minute}
	w.want(w.pass(0), "h00 spends other", "h01 saves q")
}

// An elected queue manager goes by what hosts say that still save: as many as may, for what they may have.
func TestWhatAnElectedOneIsToldOf(t *testing.T) {
	w := newWorld(t, 20, func(r *Rules) { r.Each = 1 })
	not := func(h compute.HostID) bool { return h == "h04" }
	w.waits["q"], w.waits["over"] = []Build{{Key: "a", Not: not}}, []Build{{Key: "b"}}
	for h, q := range map[compute.HostID]compute.QueueName{"h01": "q", "h02": "q", "h03": "over", "h04": "q",
		"h05": "none"} {
		w.saving[h], w.heard[h] = &compute.Saving{Queue: q, Left: time.Minute}, w.now
	}
	for _, h := range []compute.HostID{"h03", "h05"} {
		w.heard[h] = w.now.Add(-time.Minute)
	}
	var told []compute.HostID
	for _, x := range w.Tell(w.now) {
		told = append(told, x.Host)
	}
	if !slices.Equal(told, []compute.HostID{"h04"}) {
		t.Errorf("told at once: %s", told)
	}
	w.saves(1, 1)
	w.saving["h01"] = nil // it has taken its work
	w.now = w.now.Add(Every)
	w.Tell(w.now)
	if _, saves := w.queues["q"].savers["h01"]; saves {
		t.Error("it saves on")
	}
}
