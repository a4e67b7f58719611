// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"testing"
	"time"
)

func TestClocks(t *testing.T) {
	now := bubble.Add(1000 * time.Second)
	for _, c := range []Clock{{}, {Off: 3600}, {Off: -7300, Drift: 0.0005}, {Drift: -0.5}} {
		shown := c.Shows(now)
		drifted := time.Duration(c.Drift * 1000 * float64(time.Second))
		if off := shown.Sub(now) - c.Off.Duration() - drifted; off.Abs() > time.Microsecond {
			t.Errorf("%+v shows %s", c, shown)
		}
		if back := c.When(shown); back.Sub(now).Abs() > time.Microsecond {
			t.Errorf("%+v: %s is %s", c, shown, back)
		}
	}
	w := World{Clocks: []Clock{{Who: "host-1", Off: 90}}}
	if w.ClockOf("host-2") != nil || w.ClockOf("host-1") == nil || w.Kinds()[0] != "clock host" {
		t.Errorf("%v", w.Kinds())
	}
}
