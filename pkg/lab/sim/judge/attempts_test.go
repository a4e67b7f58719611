// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckAttempts(t *testing.T) {
	fails := func(r *Recording, at schedule.Seconds, class compute.FailureClass) compute.Instance {
		r.Log = r.Log[:2]
		i := r.Log[1].Instance
		i.State, i.Attempt, i.Host, i.Claim = compute.StateQueued, 2, "", ""
		i.Failures = []compute.Failure{{Host: "host-1", Attempt: 1, Class: class}}
		r.logged(at, i)
		return i
	}
	asks := func(r *Recording) *compute.Boot { return r.Asks[0].Load.Boot }
	again := func(r *Recording, at schedule.Seconds, failed ...compute.HostID) {
		b := r.Builds[0]
		b.Seen, b.Attempt, b.Failed = moment(at), 2, failed
		r.Builds = append(r.Builds, b)
	}
	ends := func(code compute.ReasonCode) func(*Recording) {
		return func(r *Recording) {
			i := fails(r, 4, compute.FailureHost)
			i.State, i.Reason = compute.StateError, &compute.Reason{Code: code}
			r.Log[2].Instance = i
		}
	}
	// givenBack has the set of vm-1 give back its attempt then, of which no host can build what it is about.
	givenBack := func(at, latency schedule.Seconds, killed string) func(*Recording) {
		return func(r *Recording) {
			if r.Schedule.World.Latency = latency; killed != "" {
				r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: killed}}
			}
			i := r.Log[0].Instance
			r.Log, i.Attempt = r.Log[:1], 2
			r.logged(at, i)
			r.Asks[0].Set = "set-1"
			r.Broke = []Broke{{moment(2.7), "host-1", madeID, 1, "Prepare", compute.FailureRequest, false}}
			r.Given = append(r.Given, Given{moment(9), "host-2", hypervisor.Spec{Instance: madeID, Attempt: 2}})
		}
	}
	sees(t, checkAttempts, map[string]func(*Recording){
		"right: a second after it failed": func(r *Recording) {
			fails(r, 4, compute.FailureHost)
			again(r, 5, "host-1")
		},
		"right: its conductor's clock is fast": func(r *Recording) {
			r.Schedule.World.Clocks = []schedule.Clock{{Who: "conductor-1", Drift: 0.0005}}
			fails(r, 4, compute.FailureHost)
			again(r, 4.8, "host-1")
		},
		"attempt 2 of vm-1 comes into its queue at 4.800s": func(r *Recording) {
			fails(r, 4, compute.FailureHost)
			again(r, 4.8, "host-1")
		},
		"does not say that one failed on host-1": func(r *Recording) {
			fails(r, 4, compute.FailureHost)
			again(r, 5)
		},
		"is tried again, and no host can build it": func(r *Recording) {
			fails(r, 4, compute.FailureRequest)
		},
		"is tried again after 1 failures": func(r *Recording) {
			asks(r).Attempts = 1
			fails(r, 4, compute.FailureHost)
		},
		"was given up after 1 failures, and was to be tried 3": ends(compute.AttemptsExhausted),
		"given up after one failure that another attempt":      ends(compute.BuildFailed),
		"ran, and ends as one that did not start": func(r *Recording) {
			i := r.Log[2].Instance
			i.State, i.Reason = compute.StateError, &compute.Reason{Code: compute.BuildFailed}
			r.logged(5, i)
		},
		"counts a failure of attempt 1, of 2, that it has already": func(r *Recording) {
			i := fails(r, 4, 0)
			i.Failures = append(i.Failures, i.Failures...)
			r.logged(5, i)
		},
		"has 0 failures, and had 1": func(r *Recording) { i := fails(r, 4, 0); i.Failures = nil; r.logged(5, i) },
		"attempt 2 of vm-1 begins on host-2 at 4.500s": func(r *Recording) {
			fails(r, 4, compute.FailureHost)
			r.Given = append(r.Given, Given{moment(4.5), "host-2", hypervisor.Spec{Instance: madeID, Attempt: 2}})
		},
		"attempt 2 begins on host-2 at 9.000s, and at 2.700s host-1 said of attempt 1": func(r *Recording) {
			r.Broke = []Broke{{moment(2.7), "host-1", madeID, 1, "Prepare", compute.FailureRequest, false}}
			r.Given = append(r.Given, Given{moment(9), "host-2", hypervisor.Spec{Instance: madeID, Attempt: 2}})
		},
		"right: host-1 has it, and a copy fails elsewhere": func(r *Recording) {
			r.Broke = []Broke{{moment(2.7), "host-2", madeID, 1, "Prepare", compute.FailureRequest, false}}
			r.Given = append(r.Given, Given{moment(9), "host-2", hypervisor.Spec{Instance: madeID, Attempt: 2}})
		},
		"right: its set has given back the attempt that no host can build": givenBack(2.6, 0, ""),
		"right: that is heard later":                                       givenBack(3, 0.01, ""),
		"attempt 2 begins on host-2 at 9.000s":                             givenBack(2.8, 0, ""),
		"attempt 2 begins on host-2 at 9.000s, and":                        givenBack(3.5, 0.01, ""),
		"right: a conductor may hear of it when its set has given back":    givenBack(2.8, 0, "conductor-1"),
		"attempt 2 begins on host-2 at 9.000s, and at":                     givenBack(2.8, 0, "queues-1"),
	})
}
