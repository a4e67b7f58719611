// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func TestTimesAreThoseOfTheFirstObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLedger()
		b := &boot{name: "a", due: start}
		l.enter([]*boot{b})
		for _, s := range []compute.State{
			compute.StateQueued, compute.StateQueued, compute.StateActive, compute.StateDeleting, compute.StateDeleted,
		} {
			time.Sleep(time.Second)
			l.observe(time.Now(), []observation{{name: "a", id: "1", state: s}, {name: "a stranger", state: s}})
		}
		want := map[string]struct {
			got  time.Time
			want time.Duration
		}{
			"queued": {b.queued, 1 * time.Second}, "starting": {b.starting, 3 * time.Second},
			"active": {b.active, 3 * time.Second}, "ended": {b.ended, 5 * time.Second},
		}
		for name, w := range want {
			if got := w.got.Sub(start); got != w.want {
				t.Errorf("%s after %s, want %s", name, got, w.want)
			}
		}
	})
}

// A boot that was tried three times says so once more than once, whatever else
// is seen of it in between.
func TestAttemptsAboveOneAreRetries(t *testing.T) {
	l := newLedger()
	boots := []*boot{{name: "a"}, {name: "b"}, {name: "never seen"}}
	l.enter(boots)
	for _, s := range []observation{
		{name: "a", state: compute.StateQueued, attempt: 1}, {name: "a", state: compute.StateStarting, attempt: 1},
		{name: "a", state: compute.StateQueued, attempt: 2}, {name: "a", state: compute.StateQueued, attempt: 3},
		{name: "a", state: compute.StateActive, attempt: 3}, {name: "b", state: compute.StateActive, attempt: 1},
	} {
		l.observe(time.Now(), []observation{s})
	}
	r := Result{Denied: 3, Released: 4}
	r.count(boots)
	if r.Attempts != 2 || r.Retries != 9 {
		t.Errorf("%d attempts above 1 and %d retries, want 2 and 9", r.Attempts, r.Retries)
	}
}

func TestLatenciesAreFromWhenItWasDue(t *testing.T) {
	start := time.Now()
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	r := Result{}
	r.count([]*boot{
		{
			due:      start,
			accepted: after(3),
			queued:   after(5),
			starting: after(13),
			active:   after(20),
			state:    compute.StateActive,
		},
		{due: after(10), refused: compute.Conflict("a", "b", "c", "d")},
		{due: after(20), accepted: after(24), queued: after(25), ended: after(26), state: compute.StateError},
	})
	one := func(x float64) Quantiles { return Quantiles{x, x, x, x} }
	if r.GrantedMS != one(13) || r.ActiveMS != one(20) || r.AcceptedGrantedMS != one(10) {
		t.Errorf("granted %v, active %v, accepted to granted %v", r.GrantedMS, r.ActiveMS, r.AcceptedGrantedMS)
	}
	if r.AcceptMS.P50 != 3 || r.AcceptMS.Max != 4 || r.QueuedMS.P50 != 5 {
		t.Errorf("accept %v, queued %v", r.AcceptMS, r.QueuedMS)
	}
	if r.Boots != 3 || r.Active != 1 || r.Error != 1 || r.Refused != 1 || r.BootsPerS != 50 {
		t.Errorf("%+v", r)
	}
}

func TestAwaitGivesUpOnlyWhenNothingMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		boots := []*boot{{name: "a"}, {name: "b"}, {name: "c"}}
		l.enter(boots)
		go func() { // something moves every 50 s, and then nothing does
			for i, s := range []compute.State{compute.StateQueued, compute.StateStarting, compute.StateActive} {
				time.Sleep(50 * time.Second)
				l.observe(time.Now(), []observation{{name: boots[i%2].name, state: s}})
			}
		}()
		start := time.Now()
		done, err := l.await(t.Context(), boots, time.Minute, (*boot).settled)
		if done || err != nil {
			t.Fatalf("%v, %v: c never came", done, err)
		}
		if took := time.Since(start); took != 210*time.Second {
			t.Errorf("gave up after %s, want 60 s after the last news", took)
		}
		l.touch()
		go func() {
			time.Sleep(time.Second)
			l.observe(
				time.Now(),
				[]observation{{name: "b", state: compute.StateActive}, {name: "c", state: compute.StateError}},
			)
		}()
		if done, err := l.await(t.Context(), boots, time.Minute, (*boot).settled); !done || err != nil {
			t.Errorf("%v, %v: all have settled", done, err)
		}
	})
}

func TestChurnDeletesTheOldest(t *testing.T) {
	l := newLedger()
	boots := []*boot{{name: "a"}, {name: "b"}, {name: "c"}}
	l.enter(boots)
	for _, b := range boots {
		l.observe(time.Now(), []observation{{name: b.name, state: compute.StateActive}})
	}
	if got := l.oldest(2); len(got) != 1 || got[0].name != "a" || !got[0].deleting {
		t.Errorf("got %v", got)
	}
	if got := l.oldest(2); len(got) != 0 {
		t.Errorf("and again %v", got)
	}
}
