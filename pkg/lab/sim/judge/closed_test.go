// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckClosed(t *testing.T) {
	wish := func(r *Recording, at schedule.Seconds, what string) {
		l := schedule.Load{Op: schedule.LoadHost, Host: "host-1", Wish: what}
		r.Asks = append(r.Asks, Ask{Load: l, Began: moment(at), Answered: moment(at + 0.1), OK: true})
	}
	begins := func(r *Recording, at schedule.Seconds) {
		r.Works = append(r.Works, Worked{"host-1", "vm-9", "Prepare", moment(at), moment(at + 1)})
	}
	says := func(r *Recording, at schedule.Seconds, s compute.HostState) {
		r.Offers = append(r.Offers, Offered{moment(at), "host-1", s, false, moment(at)})
	}
	sees(t, checkClosed, map[string]func(*Recording){
		"host-1 is to drain, and at 8.000s it begins":   func(r *Recording) { wish(r, 5, "drain"); begins(r, 8) },
		"host-1 is to disable, and at 8.000s it begins": func(r *Recording) { wish(r, 5, "disable"); begins(r, 8) },
		"right: it had not heard of it":                 func(r *Recording) { wish(r, 5, "drain"); begins(r, 6) },
		"right: it was asked to offer again": func(r *Recording) {
			wish(r, 5, "drain")
			wish(r, 8, "enable")
			begins(r, 8.1)
		},
		"right: nobody knows which of two came last": func(r *Recording) {
			wish(r, 5, "drain")
			wish(r, 5.05, "enable")
			begins(r, 9)
		},
		"right: it hears nothing": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultDeaf, Who: "host-1"}}
			wish(r, 5, "drain")
			begins(r, 9)
		},
		"that host-1 is to drain, and at 9.000s it": func(r *Recording) {
			r.Schedule.Faults = []schedule.Fault{{Kind: schedule.FaultKill, Who: "host-1"}}
			wish(r, 5, "drain")
			begins(r, 9)
		},
		"is enabled, and since 6.000s it says that it is": func(r *Recording) {
			wish(r, 5, "drain")
			says(r, 6, compute.HostDraining)
			wish(r, 20, "enable")
			says(r, 29, compute.HostEnabled)
		},
		"right: it offers again": func(r *Recording) {
			wish(r, 5, "drain")
			says(r, 6, compute.HostDraining)
			wish(r, 20, "enable")
			says(r, 25, compute.HostEnabled)
		},
	})
}
