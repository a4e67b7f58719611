// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// decider notes by which time it is asked.
type decider struct {
	wire.Handler
	turn wire.Turn
	wake time.Time
}

func (d *decider) Turn(in wire.Turn) wire.Result { d.turn = in; return wire.Result{Wake: d.wake} }

// anHourFast is a clock that shows an hour more than it is.
type anHourFast struct{}

func (anHourFast) Shows(now time.Time) time.Time  { return now.Add(time.Hour) }
func (anHourFast) When(shown time.Time) time.Time { return shown.Add(-time.Hour) }

// A loop that goes by the right time runs a handler whose clock is wrong.
func TestMisled(t *testing.T) {
	now := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
	fast := Clocks{anHourFast{}}
	d := &decider{wake: now.Add(time.Hour + time.Second)}
	res := fast.handler(d).Turn(wire.Turn{Now: now, TimersUntil: map[int32]time.Time{1: now}})
	if !d.turn.Now.Equal(now.Add(time.Hour)) || !d.turn.TimersUntil[1].Equal(now.Add(time.Hour)) ||
		!res.Wake.Equal(now.Add(time.Second)) {
		t.Errorf("decides at %s until %v, and wakes at %s", d.turn.Now, d.turn.TimersUntil, res.Wake)
	}
	if h := (Clocks{}).handler(d); h != wire.Handler(d) || (Clocks{}).now() != nil ||
		!fast.shown(time.Time{}).IsZero() {
		t.Error("a right clock changes something")
	}
}
