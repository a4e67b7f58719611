// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckImages(t *testing.T) {
	bad := func(r *Recording) { r.Schedule.World.Bad = []schedule.BadImage{{Image: "debian", Host: "host-2"}} }
	fails := func(r *Recording, at schedule.Seconds, a compute.Attempt) {
		r.Broke = append(r.Broke, Broke{moment(at), "host-2", madeID, a, "Prepare", compute.FailureHost, true})
	}
	publishes := func(r *Recording, at schedule.Seconds, a compute.Attempt) {
		r.Builds = append(r.Builds, Published{moment(at), compute.Build{Instance: madeID, Attempt: a}})
	}
	ends := func(r *Recording, why compute.ReasonCode, message string) {
		bad(r)
		i := r.Log[len(r.Log)-1].Instance
		for a := compute.Attempt(1); a <= 3; a++ {
			fails(r, 5+schedule.Seconds(a), a)
			i.Failures = append(
				i.Failures,
				compute.Failure{Host: "host-2", Attempt: a, Class: compute.FailureHost, Message: message},
			)
		}
		i.State, i.Reason, i.Attempt = compute.StateError, &compute.Reason{Code: why}, 3
		r.logged(10, i)
	}
	asks := false
	says := func(r *Recording, faults ...schedule.Fault) {
		r.Schedule.Faults = faults
		r.Offers = append(r.Offers, Offered{moment(9), "host-2", compute.HostQuarantined, asks, moment(9)})
	}
	sees(t, checkImages, map[string]func(*Recording){
		"host-2 says at 9.000s that it is quarantined": func(r *Recording) {
			says(r, schedule.Fault{Kind: schedule.FaultKill, Who: "host-2"})
		},
		"right: it has begun again, and asks whether it is alone": func(r *Recording) {
			asks = true
			says(r, schedule.Fault{Kind: schedule.FaultKill, Who: "host-2"})
			asks = false
		},
		"host-2 says at 9.000s that it is quarantined, and none of": func(r *Recording) {
			asks = true
			says(r, schedule.Fault{Kind: schedule.FaultKill, Who: "host-1"})
			asks = false
		},
		"right: its hypervisor fails": func(r *Recording) {
			says(r, schedule.Fault{Kind: schedule.FaultDriver, Who: "host-2"})
		},
		"right: it has a twin": func(r *Recording) {
			says(r, schedule.Fault{Kind: schedule.FaultClone})
		},
		"attempt 1 is launched on host-1, where debian is broken": func(r *Recording) {
			r.Schedule.World.Bad = []schedule.BadImage{{Image: "debian"}}
		},
		"right: it is broken elsewhere": bad,
		"right: it ended by its image": func(r *Recording) {
			ends(r, compute.AttemptsExhausted, "image debian is broken")
		},
		"is said to have by host: no": func(r *Recording) { ends(r, compute.AttemptsExhausted, "no") },
		"ends with BuildFailed":       func(r *Recording) { ends(r, compute.BuildFailed, "image debian is broken") },
		"vm-1 was to be tried 3 times, and its image fails in 4 attempts": func(r *Recording) {
			ends(r, compute.AttemptsExhausted, "image debian is broken")
			fails(r, 20, 4)
		},
		"right: it was preempted, and has all its attempts again": func(r *Recording) {
			ends(r, compute.AttemptsExhausted, "image debian is broken")
			fails(r, 20, 4)
			last := r.Log[len(r.Log)-1].Instance
			taken := r.Log[0].Instance
			taken.Reason = &compute.Reason{Code: compute.Preempted}
			r.logged(6, taken)
			r.logged(10, last)
		},
		"attempt 2 of vm-1 fails on host-2 twice": func(r *Recording) {
			fails(r, 20, 2)
			fails(r, 21, 2)
		},
		"right: it was published twice": func(r *Recording) {
			publishes(r, 18, 2)
			publishes(r, 19, 2)
			fails(r, 20, 2)
			fails(r, 21, 2)
		},
		"attempt 2 of vm-1 fails on host-2 twice, by": func(r *Recording) {
			publishes(r, 18, 2)
			fails(r, 20, 2)
			fails(r, 21, 2)
			publishes(r, 23, 2)
			r.Told = append(r.Told, Told{moment(18), "host-1", compute.Build{Instance: madeID, Attempt: 2}})
		},
		"right: it was in its queue and in the host's stream": func(r *Recording) {
			publishes(r, 18, 2)
			r.Told = append(r.Told, Told{moment(19), "host-2", compute.Build{Instance: madeID, Attempt: 2}})
			fails(r, 20, 2)
			fails(r, 21, 2)
		},
		"right: a conductor was killed between": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "conductor-1"}}
			fails(r, 20, 2)
			fails(r, 21, 2)
		},
	})
}
