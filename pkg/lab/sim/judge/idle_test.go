// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A host that an operator asked to offer nothing does not offer from then on, though its next beacon may not know of that.
func TestAHostThatIsAskedToCloseIsNotIdle(t *testing.T) {
	for what, c := range map[string]struct {
		wish string
		to   schedule.Seconds
	}{
		"asked to close":   {"disable", 10},
		"asked to go on":   {"enable", 20},
		"asked to go away": {"drain", 10},
	} {
		r := &Recording{}
		for _, o := range []struct {
			at schedule.Seconds
			compute.HostState
		}{{5, compute.HostEnabled}, {12, compute.HostEnabled}, {20, compute.HostDisabled}} {
			r.Offers = append(r.Offers, Offered{Seen: moment(o.at), Host: "host-1", State: o.HostState})
		}
		r.Asks = []Ask{{Began: moment(10), Load: schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: c.wish}}}
		idle := r.hostLives()["host-1"].idle(span{moment(5), moment(30)}, compute.Resources{}, compute.Resources{})
		if !idle.from.Equal(moment(5)) || !idle.to.Equal(moment(c.to)) {
			t.Errorf("%s: idle from %v to %v", what, idle.from, idle.to)
		}
	}
}
