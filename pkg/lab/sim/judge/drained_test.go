// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// A host that offers nothing begins nothing, but the rest of what it took whole.
func TestCheckDrained(t *testing.T) {
	// closed has host-1 say at 1 s that it offers nothing; it begins with vm-1 at 2.5 s.
	closed := func(r *Recording) {
		r.Offers = []Offered{{Seen: moment(1), Host: "host-1", State: compute.HostDraining}}
	}
	// whole has vm-1 be part of a set of which the host has begun with another part.
	whole := func(other schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			closed(r)
			parts := []compute.Build{{Instance: madeID}, {Instance: "vm-9"}}
			r.Wholes = []Published{{moment(0.2), compute.Build{Instance: madeID, Parts: parts}}}
			r.Given = append(r.Given, Given{moment(other), "host-1", hypervisor.Spec{Instance: "vm-9"}})
		}
	}
	sees(t, checkDrained, map[string]func(*Recording){
		"host-1 is draining since 1.000s":          closed,
		"right: it took the set whole":             whole(0.5),
		"host-1 is draining since 1.000s, and":     whole(2.4),
		"right: it is asked to offer by then":      func(r *Recording) { closed(r); r.asks(0.5, enable("host-1"), nil) },
		"host-1 is draining since 1.000s, and beg": func(r *Recording) { closed(r); r.asks(0.5, enable("host-2"), nil) },
	})
}

func enable(h compute.HostID) schedule.Load {
	return schedule.Load{Op: schedule.LoadHost, Host: h, Wish: "enable"}
}
