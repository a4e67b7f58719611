// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckBack(t *testing.T) {
	for name, x := range map[string]struct {
		back   schedule.Seconds
		faults []schedule.Fault
		wrong  bool
	}{
		"nothing was away": {-1, nil, false},
		"written before":   {10, []schedule.Fault{{Kind: schedule.FaultQuorum}}, false},
		"written late":     {-5, []schedule.Fault{{Kind: schedule.FaultQuorum}}, true},
		"and more was wrong": {
			-5, []schedule.Fault{{Kind: schedule.FaultQuorum}, {Kind: schedule.FaultKill}}, false,
		},
		"written in time, then": {0, []schedule.Fault{{Kind: schedule.FaultQuorum}}, false},
	} {
		r := made()
		r.Schedule.Faults = x.faults
		if x.faults != nil {
			r.Back = moment(x.back)
		}
		if x.wrong {
			r.Log[0].Seen = moment(9)
		}
		found := checkBack(r)
		if (len(found) == 1) != x.wrong ||
			x.wrong && !strings.Contains(found[0].String(), "after the brokers were back") {
			t.Errorf("%s: %v", name, found)
		}
	}
}
