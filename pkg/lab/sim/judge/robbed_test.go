// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// What a rogue took counts as waiting when it was published again and hosts were rung, or should have been: once
// nothing is left of what lay in its queue before.
func TestWaitsAfterARogue(t *testing.T) {
	const before = compute.InstanceID("00000000-0000-4000-8000-0000000000bb")
	at := func(s schedule.Seconds, of compute.InstanceID) Published {
		return Published{moment(s), compute.Build{Instance: of, Attempt: 1}}
	}
	// earlier has another wait in the same queue before it, until it is claimed.
	earlier := func(from, to schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			i := r.Log[0].Instance
			i.ID = before
			r.logged(from, i)
			r.Builds = append(r.Builds, at(from, before))
			c := compute.Report{Op: compute.ReportClaim, Instance: before, Attempt: 1, Claim: "c9", Host: "host-2"}
			r.Claims = append(r.Claims, Claimed{moment(to), c})
		}
	}
	for what, x := range map[string]struct {
		taken, again schedule.Seconds // zero: never
		change       func(*Recording)
		from         schedule.Seconds
	}{
		"nobody took it":                 {0, 0, nil, 2.1},
		"it is never published again":    {2.2, 0, nil, 2.2 + 90},
		"published again":                {2.2, 32, nil, 32 + 16},
		"late":                           {2.2, 150, nil, 2.2 + 90},
		"behind what waits":              {2.2, 0, earlier(2.05, 100), 100 + 90},
		"behind it, and published again": {2.2, 110, earlier(2.05, 100), 110 + 16},
		"before what waits":              {2.2, 0, earlier(30, 100), 2.2 + 90},
		"behind what has used up its deliveries": {2.2, 0, func(r *Recording) {
			earlier(2.05, 300)(r)
			r.Builds = append(r.Builds, at(60, before))
		}, 60 + 90},
	} {
		r := made()
		r.Log, r.Claims = r.Log[:1], nil
		r.Settled = moment(400)
		r.Builds = []Published{at(2.1, madeID)}
		if x.again > 0 {
			r.Builds = append(r.Builds, at(x.again, madeID))
		}
		if x.taken > 0 {
			r.Robbed = []Published{at(x.taken, madeID)}
		}
		if x.change != nil {
			x.change(r)
		}
		var from time.Time
		for _, w := range r.waits() {
			if w.instance.ID == madeID {
				from = w.from
			}
		}
		if !from.Equal(moment(x.from)) {
			t.Errorf("%s: it waits from %s, not from %gs", what, r.At(from), float64(x.from))
		}
		if x.taken > 0 && r.robbed(madeID, moment(2)) != moment(x.from).Sub(moment(2)) {
			t.Errorf("%s: for %s it waits for its conductor", what, r.robbed(madeID, moment(2)))
		}
	}
}
