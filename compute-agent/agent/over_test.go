// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// Of each list the oldest are forgotten, and many that failed have none forgotten that were given back.
func TestTheLastClaimsAreRemembered(t *testing.T) {
	o := newOverClaims(journal.State{
		Given: []journal.Given{{Instance: "given", Attempt: 1, Claim: "c"}, {Instance: "given", Attempt: 1, Claim: "c"}},
		Failed: []journal.FailedClaim{{
			Instance: "failed", Attempt: 1, Claim: "c", Why: journal.Failure{Class: compute.FailureHost, Message: "1"},
		}, {
			Instance: "failed", Attempt: 2, Claim: "c", Why: journal.Failure{Class: compute.FailureHost, Message: "2"},
		}},
	})
	for i := range journal.Remembered - 1 {
		o.failed.keep(claimKey{"failed", compute.Attempt(i + 3), "c"}, task.Failure{Message: "later"})
	}
	for name, want := range map[compute.InstanceID]map[compute.Attempt]*task.Past{
		"given": {1: {}, 2: nil},
		"failed": {
			1: nil, 2: {Failed: &task.Failure{Class: compute.FailureHost, Message: "2"}},
			journal.Remembered + 1: {Failed: &task.Failure{Message: "later"}},
		},
		"unknown": {1: nil},
	} {
		for attempt, want := range want {
			got := o.past(compute.Command{Instance: name, Attempt: attempt, Claim: "c"})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %d: %s", name, attempt, diff)
			}
		}
	}
	if len(o.given.order) != 1 || len(o.failed.order) != journal.Remembered || len(o.failed.of) != journal.Remembered {
		t.Errorf("it remembers %d, and %d, %d", len(o.given.order), len(o.failed.order), len(o.failed.of))
	}
}
