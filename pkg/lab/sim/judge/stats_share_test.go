// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestShares(t *testing.T) {
	s := NewStats()
	for n := range 100 {
		r := made()
		r.Schedule.Faults = []schedule.Fault{
			{Kind: schedule.FaultKill, Who: "host-1", Point: "sent:Produce"},
			{Kind: schedule.FaultKill, Who: "host-2"},
		}
		r.Came = map[string]int{"kill host": 1, "kill host sent:Produce": 1}
		if n < 5 {
			r.Schedule.Faults = append(
				r.Schedule.Faults,
				schedule.Fault{Kind: schedule.FaultDriver, Who: "host-1", Key: "Destroy"},
			)
		}
		if n < 1 {
			r.Came["driver Destroy"] = 2
		}
		s.Add(r, false)
	}
	if absent := s.Absent(); len(absent) > 0 {
		t.Errorf("absent: %v", absent)
	}
	s.CameIn["driver Destroy"], s.PlannedIn["driver Destroy"] = 0, enoughPlans
	if absent := s.Absent(); len(absent) != 1 || absent[0] != "driver Destroy" {
		t.Errorf("absent: %v", absent)
	}
	s.CameIn["driver Destroy"], s.PlannedIn["driver Destroy"] = 1, 5
	for _, want := range []string{
		"(was planned): driver Destroy 1.0 (5.0), kill host 100.0 (100.0)\n", "in less than 2 of 100: driver Destroy\n",
	} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in %s", want, s)
		}
	}
}
