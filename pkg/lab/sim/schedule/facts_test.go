// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// A tier is made twice only by what may have a queue manager end, or not hear of another one.
func TestRepeats(t *testing.T) {
	high := compute.Boot{Rules: compute.RulesOf("", compute.Set{}, compute.PriorityHigh)}
	ranked, plain := []Load{{Op: LoadBoot, Boot: &high}}, []Load{{Op: LoadBoot, Boot: &compute.Boot{}}}
	for what, x := range map[string]struct {
		load []Load
		f    Fault
		want bool
	}{
		"a manager is killed":            {ranked, Fault{Kind: FaultKill, Who: "queues-1"}, true},
		"a manager misses an answer":     {ranked, Fault{Kind: FaultLose, Who: "queues-1"}, true},
		"there are no tiers":             {plain, Fault{Kind: FaultKill, Who: "queues-1"}, false},
		"a conductor is killed":          {ranked, Fault{Kind: FaultKill, Who: "conductor-1"}, false},
		"a manager goes on, and is well": {ranked, Fault{Kind: FaultForge, Who: "queues-1"}, false},
	} {
		s := Schedule{Load: x.load, Faults: []Fault{x.f}}
		if got := s.Repeats(); got != x.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
