// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// What the journal keeps of a task comes back; Running comes back as granted.
func TestRemember(t *testing.T) {
	full := task.Task{
		Instance: "i", Project: "p", Name: "web", Queue: "q", Pinned: true, Attempt: 2, Claim: "c",
		Fence: 3, Group: "web", Place: compute.Place{Devices: []compute.PCIAddress{"0000:01:00.0"}, Nodes: []int{1}},
		Lay: "whole", MadeRoom: 2, Preemptible: true, TimesTaken: 1, Wanted: true,
		Resources: compute.Resources{compute.VCPU: 1}, Trace: "00-1", Version: 7, Reboots: []compute.CommandID{"r"},
	}
	for _, stage := range []task.Stage{task.Preparing, task.Claiming, task.Launching, task.Running, task.Ending} {
		for _, how := range []task.Outcome{task.EndQuiet, task.EndReturned, task.EndFailed, task.EndGone} {
			want := full
			want.Stage = stage
			switch stage {
			case task.Claiming:
				want.Broken = &task.Failure{Class: compute.FailureRequest, Message: "no image"}
			case task.Ending:
				want.End = &task.End{How: how}
				if how == task.EndFailed {
					want.End.Failure = task.Failure{Class: compute.FailureTimeout, Message: "slow"}
				}
			}
			given := want
			given.Power, given.Busy, given.Answered = compute.PowerRunning, task.BusyPower, true
			if stage == task.Running {
				want.Stage = task.Launching
			}
			if stage > task.Claiming { // it is in no queue any more
				want.Lay, want.MadeRoom = "", 0
			}
			if diff := cmp.Diff(want, recall(remember(given))); diff != "" {
				t.Errorf("%s %s: %s", stage, how, diff)
			}
		}
	}
}

// A word that the journal of another version has is read as the most careful one: the machine
// ends, and nothing is told of it.
func TestRememberUnknownWords(t *testing.T) {
	got := recall(journal.Entry{Stage: "half-done", End: &journal.End{How: "moved"}})
	if got.Stage != task.Ending || got.End.How != task.EndQuiet {
		t.Errorf("it is read as %s, %s", got.Stage, got.End.How)
	}
}
