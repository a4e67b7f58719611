// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckClocks(t *testing.T) {
	ends := func(r *Recording, at schedule.Seconds, why compute.ReasonCode) {
		i := r.Log[0].Instance
		i.State, i.Reason = compute.StateError, &compute.Reason{Code: why}
		r.Log = r.Log[:1]
		r.logged(at, i)
	}
	sees(t, checkClocks, map[string]func(*Recording){
		"asked for at 1.000s, ended by its deadline at 30.000s": func(r *Recording) {
			ends(r, 30, compute.DeadlineExceeded)
		},
		"right: at its deadline": func(r *Recording) {
			ends(r, 61.1, compute.DeadlineExceeded)
		},
		"ended by its time without a host at 8.000s": func(r *Recording) {
			ends(r, 8, compute.WaitingForCapacity)
		},
		"is said to be accepted at 3601.050s": func(r *Recording) {
			r.Log[0].Instance.AcceptedAt = r.Log[0].Instance.AcceptedAt.Add(time.Hour)
		},
		"is said to have changed at -3597.000s": func(r *Recording) {
			r.Log[1].Instance.ChangedAt = r.Log[1].Instance.ChangedAt.Add(-time.Hour)
		},
	})
}
