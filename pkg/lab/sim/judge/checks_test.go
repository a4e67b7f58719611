// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckEnded(t *testing.T) {
	// placed has the last work placed then, which failed at these times before.
	placed := func(r *Recording, at schedule.Seconds, failed ...schedule.Seconds) {
		r.Awaited, r.Placed, r.Settled = "vm-1 is queued", moment(at), moment(at+10)
		i := r.Log[0].Instance
		for _, at := range failed {
			i.Failures = append(i.Failures, compute.Failure{Host: "host-1"})
			r.logged(at, i)
		}
	}
	clone := func(r *Recording) {
		r.Clones = append(r.Clones, Cloned{Of: "host-1", From: moment(10), To: moment(59)})
	}
	crowd := func(r *Recording) {
		r.Schedule.World.Share = 1
		for _, id := range []compute.InstanceID{"other-1", "other-2"} {
			i := r.Log[0].Instance
			i.ID, i.Boot.Name, i.State = id, string(id), compute.StateQueued
			r.logged(5, i)
		}
	}
	sees(t, checkEnded, map[string]func(*Recording){
		"right: within 90 s of the calm":                             func(r *Recording) { placed(r, 149) },
		"I6: 1m31s after everything was up and well: vm-1 is queued": func(r *Recording) { placed(r, 151) },
		"right: a clone's host takes nothing until 119":              func(r *Recording) { clone(r); placed(r, 208) },
		"I6: 1m31s": func(r *Recording) { clone(r); placed(r, 210) },
		"right: two attempts failed, 1 + 14 s and 2 + 14 s":    func(r *Recording) { placed(r, 180, 100, 110) },
		"right: two others keep it in the conductor, 5 + 10 s": func(r *Recording) { placed(r, 164); crowd(r) },
		"I6: 1m46s": func(r *Recording) { placed(r, 166); crowd(r) },
		"I6: 2m2s":  func(r *Recording) { placed(r, 182, 100, 110) },
		"I6: 2m0s":  func(r *Recording) { placed(r, 180, 50, 110) }, // the first before the calm
	})
}
