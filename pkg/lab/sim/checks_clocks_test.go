// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func TestCheckClocks(t *testing.T) {
	ends := func(r *Recording, at Seconds, why compute.ReasonCode) {
		i := r.Log[0].Instance
		i.State, i.Reason = compute.StateError, &compute.Reason{Code: why}
		r.Log = r.Log[:1]
		r.logged(at, i)
	}
	sees(t, checkClocks, map[string]func(*Recording){
		"asked for at 1.000s, ended by its deadline at 30.000s": func(r *Recording) { ends(r, 30, compute.DeadlineExceeded) },
		"right: at its deadline":                                func(r *Recording) { ends(r, 61.1, compute.DeadlineExceeded) },
		"ended by its time without a host at 8.000s":            func(r *Recording) { ends(r, 8, compute.WaitingForCapacity) },
		"is said to be accepted at 3601.050s": func(r *Recording) {
			r.Log[0].Instance.AcceptedAt = r.Log[0].Instance.AcceptedAt.Add(time.Hour)
		},
		"is said to have changed at -3597.000s": func(r *Recording) {
			r.Log[1].Instance.ChangedAt = r.Log[1].Instance.ChangedAt.Add(-time.Hour)
		},
	})
}

func TestClocks(t *testing.T) {
	now := bubble.Add(1000 * time.Second)
	for _, c := range []Clock{{}, {Off: 3600}, {Off: -7300, Drift: 0.0005}, {Drift: -0.5}} {
		shown := c.Shows(now)
		if off := shown.Sub(now) - c.Off.Duration() - time.Duration(c.Drift*1000*float64(time.Second)); off.Abs() > time.Microsecond {
			t.Errorf("%+v shows %s", c, shown)
		}
		if back := c.When(shown); back.Sub(now).Abs() > time.Microsecond {
			t.Errorf("%+v: %s is %s", c, shown, back)
		}
	}
	w := World{Clocks: []Clock{{Who: "host-1", Off: 90}}}
	if w.clockOf("host-2") != nil || w.clockOf("host-1") == nil || w.kinds()[0] != "clock host" {
		t.Errorf("%v", w.kinds())
	}
}
