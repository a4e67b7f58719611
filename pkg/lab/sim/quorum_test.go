// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
)

func TestCheckBack(t *testing.T) {
	for name, x := range map[string]struct {
		back   Seconds
		faults []Fault
		wrong  bool
	}{
		"nothing was away":      {-1, nil, false},
		"written before":        {10, []Fault{{Kind: FaultQuorum}}, false},
		"written late":          {-5, []Fault{{Kind: FaultQuorum}}, true},
		"and more was wrong":    {-5, []Fault{{Kind: FaultQuorum}, {Kind: FaultKill}}, false},
		"written in time, then": {0, []Fault{{Kind: FaultQuorum}}, false},
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
		if (len(found) == 1) != x.wrong || x.wrong && !strings.Contains(found[0].String(), "after the brokers were back") {
			t.Errorf("%s: %v", name, found)
		}
	}
}
