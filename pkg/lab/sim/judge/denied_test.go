// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckDenied(t *testing.T) {
	deny := func(at schedule.Seconds, claim compute.ClaimID) Denied {
		c := compute.Command{Op: compute.CommandDeny, Instance: madeID, Attempt: 1, Claim: claim, At: moment(at)}
		return Denied{moment(at), "host-1", c}
	}
	for name, x := range map[string]struct {
		at    schedule.Seconds
		claim compute.ClaimID
		wrong bool
	}{
		"another claim": {5, "c2", false}, "before the grant": {1.5, "c1", true}, "while it runs": {30, "c1", true},
		"when it is over": {90, "c1", false},
	} {
		r := made()
		over := r.Log[len(r.Log)-1].Instance
		over.State, over.Version, over.ChangedAt = compute.StateDeleted, over.Version+1, moment(80)
		r.logged(80, over)
		r.Denials = []Denied{deny(x.at, x.claim)}
		found := checkDenied(r)
		if (len(found) == 1) != x.wrong || x.wrong && !strings.Contains(found[0].String(), "is denied at") {
			t.Errorf("%s: %v", name, found)
		}
	}
}
