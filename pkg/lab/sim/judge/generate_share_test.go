// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// What hardly ever takes place finds nothing: each sort of fault is planned in at least two
// of a hundred schedules. How many of those take place the report of a run says.
func TestEachSortIsPlanned(t *testing.T) {
	const schedules = 10000
	s := NewStats()
	for seed := range uint64(schedules) {
		r := NewRecording(schedule.Generate(seed + 1))
		s.Schedules++
		s.share(r)
	}
	if len(s.PlannedIn) < 60 {
		t.Errorf("%d sorts of faults: %v", len(s.PlannedIn), s.PlannedIn)
	}
	for sort, n := range s.PlannedIn {
		if float64(n) < leastShare*schedules {
			t.Errorf("%s is planned in %d of %d schedules", sort, n, schedules)
		}
	}
}
