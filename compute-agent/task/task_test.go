// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// Work that was found in a queue keeps its record there until it is answered; pinned work has none.
func TestNewTask(t *testing.T) {
	b := compute.Build{Instance: "i", Queue: "q", Attempt: 2, Group: &compute.BuildGroup{Name: "g"}}
	for _, pinned := range []bool{false, true} {
		want := Task{Instance: "i", Queue: "q", Attempt: 2, Claim: "c", Fence: 3, Group: "g", Pinned: pinned, Lay: "q"}
		if pinned {
			want.Lay, want.Answered = "", true
		}
		if diff := cmp.Diff(want, New(b, compute.Place{}, "c", 3, pinned)); diff != "" {
			t.Errorf("pinned %t (-want +got):\n%s", pinned, diff)
		}
	}
}

func TestStages(t *testing.T) {
	for s, want := range map[Stage]struct{ granted, building bool }{
		Preparing: {false, true}, Claiming: {false, true}, Launching: {true, true}, Running: {true, false},
		Ending: {false, false}, Over: {false, false},
	} {
		x := Task{Stage: s}
		if x.Granted() != want.granted || x.Building() != want.building {
			t.Errorf("%s: granted %t, building %t, want %+v", s, x.Granted(), x.Building(), want)
		}
	}
}

// What is destroyed waits for Kafka alone: a time that is due for ever would keep the agent busy.
func TestWhatIsDestroyedIsNotDue(t *testing.T) {
	now := time.Unix(1e9, 0)
	x := Task{Stage: Ending, End: &End{How: EndGone}, Answered: true, Destroyed: true, RetryAt: now, SayAt: now}
	if due := DefaultRules().Due(x); !due.IsZero() {
		t.Errorf("due at %s", due)
	}
}

func TestDestroyIsTriedAgainAfterLongerAndLonger(t *testing.T) {
	x := Task{Stage: Ending, End: &End{How: EndGone}, Answered: true}
	now := time.Unix(1e9, 0)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		x, _ = DefaultRules().Step(x, DestroyFailed{}, now)
		if got := DefaultRules().Due(x).Sub(now); got != want*time.Second {
			t.Errorf("the %dth time it is tried again after %s, want %d s", x.Tries, got, want)
		}
	}
}
