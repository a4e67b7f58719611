// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// What a rogue took waits until then, and again when it was published again and hosts were rung, or should have been:
// once nothing is left of what lay in its queue before.
func TestWaitsBesideARogue(t *testing.T) {
	const other = compute.InstanceID("00000000-0000-4000-8000-0000000000bb")
	at := func(s schedule.Seconds, of compute.InstanceID) Published {
		return Published{moment(s), compute.Build{Instance: of, Attempt: 1, At: moment(s)}}
	}
	m := func(s schedule.Seconds) Published { return at(s, madeID) }
	o := func(s schedule.Seconds) Published { return at(s, other) }
	type (
		builds []Published
		s      []schedule.Seconds
	)
	for what, x := range map[string]struct {
		taken   schedule.Seconds // zero: never
		builds  builds           // of both, in the order of the queue
		claimed schedule.Seconds // the other; zero: never
		waits   s
	}{
		"nobody took it":               {0, builds{m(2.1)}, 0, s{2.1, 400}},
		"it is never published again":  {22, builds{m(2.1)}, 0, s{2.1, 22, 22 + 90, 400}},
		"published again":              {22, builds{m(2.1), m(52)}, 0, s{2.1, 22, 52 + 16, 400}},
		"published again late":         {22, builds{m(2.1), m(150)}, 0, s{2.1, 22, 22 + 90, 400}},
		"the reader came late":         {22, builds{m(52)}, 0, s{52, 22, 52 + 16, 400}},
		"behind what waits":            {22, builds{o(2.05), m(2.1)}, 100, s{2.1, 22, 100 + 90, 400}},
		"behind it, and again":         {22, builds{o(2.05), m(2.1), m(110)}, 100, s{2.1, 22, 110 + 16, 400}},
		"before what waits":            {22, builds{m(2.1), o(2.2)}, 100, s{2.1, 22, 22 + 90, 400}},
		"before what is there again":   {22, builds{m(2.1), o(2.2), o(60)}, 100, s{2.1, 22, 22 + 90, 400}},
		"behind what was given back":   {22, builds{o(2.05), m(2.1), o(60)}, 300, s{2.1, 22, 60 + 90, 400}},
		"behind what waits for ever":   {22, builds{o(2.05), m(2.1)}, 0, s{2.1, 22, 400 + 90, 400}},
		"behind what waits, reader so": {22, builds{o(2.05), m(110)}, 100, s{110, 22, 110 + 16, 400}},
	} {
		r := made()
		r.Log, r.Claims, r.Settled = r.Log[:1], nil, moment(400)
		r.Builds = x.builds
		i := r.Log[0].Instance
		i.ID = other
		r.logged(2.02, i)
		if x.claimed > 0 {
			c := compute.Report{Op: compute.ReportClaim, Instance: other, Attempt: 1, Claim: "c9", Host: "host-2"}
			r.Claims = append(r.Claims, Claimed{moment(x.claimed), c})
		}
		if x.taken > 0 {
			taken := at(2.1, madeID)
			taken.Seen = moment(x.taken)
			r.Robbed = []Published{taken}
		}
		var waits s
		for _, w := range r.waits() {
			if w.instance.ID == madeID {
				waits = append(waits, schedule.Seconds(w.from.Sub(began).Seconds()), schedule.Seconds(w.to.Sub(began).Seconds()))
			}
		}
		if d := cmp.Diff(x.waits, waits); d != "" {
			t.Errorf("%s: it waits (-want +got):\n%s", what, d)
		}
		want := schedule.Seconds(0)
		if x.taken > 0 {
			want = min(x.waits[2], 400) - 2
		}
		if got := r.awaitsConductor(madeID, moment(2)); got != want.Duration() {
			t.Errorf("%s: it waits for its conductor for %s, not %s", what, got, want.Duration())
		}
	}
}
