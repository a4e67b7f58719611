// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"maps"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckLabels(t *testing.T) {
	asks := func(r *Recording, at schedule.Seconds) string {
		r.asks(at, schedule.Load{Op: schedule.LoadLabel, Label: "team"}, nil)
		return Label(len(r.Asks) - 1)
	}
	has := func(r *Recording, at schedule.Seconds, value string, more func(*compute.Instance)) {
		i := r.Log[len(r.Log)-1].Instance
		was := i.ChangedAt
		i.Boot.Metadata = maps.Clone(i.Boot.Metadata)
		if i.Boot.Metadata == nil {
			i.Boot.Metadata = map[string]string{}
		}
		i.Boot.Metadata["team"], i.BootedAs = value, 1
		r.logged(at, i)
		w := &r.Log[len(r.Log)-1].Instance
		if w.ChangedAt = was; more != nil {
			more(w)
		}
	}
	taken := func(then ...compute.State) func(*Recording) { // its place, and it goes on as these
		return func(r *Recording) {
			asks(r, 10)
			i := r.Log[len(r.Log)-1].Instance
			i.Reason = &compute.Reason{Code: compute.Preempted}
			for n, s := range then {
				i.State = s
				r.logged(schedule.Seconds(11+n), i)
			}
		}
	}
	sees(t, checkLabels, map[string]func(*Recording){
		`was given the label team=given-`: func(r *Recording) { asks(r, 10) },
		"right: it is there":              func(r *Recording) { has(r, 10.05, asks(r, 10), nil) },
		"right: another took its place": func(r *Recording) {
			has(r, 10.05, asks(r, 10), nil)
			has(r, 12.05, asks(r, 12), nil)
		},
		`and in the end it is "given-`: func(r *Recording) {
			first := asks(r, 10)
			asks(r, 12)
			has(r, 12.05, first, nil)
		},
		"right: it is deleted meanwhile": func(r *Recording) {
			r.asks(9, schedule.Load{Op: schedule.LoadDelete}, nil)
			asks(r, 10)
		},
		"right: its place is taken meanwhile": taken(compute.StateDeleting),
		"right: and its flavor is gone":       taken(compute.StateQueued, compute.StateError),
		"was given the label team=given":      taken(compute.StateQueued, compute.StateStarting),
		"got other labels at": func(r *Recording) {
			has(r, 10.05, asks(r, 10), func(i *compute.Instance) { i.State = compute.StateDeleting })
		},
		"and in the end it is \"x\"": func(r *Recording) {
			asks(r, 10)
			has(r, 12, "x", nil)
		},
	})
}

// TestRequestWithLabels: what was given by then is no other request's; what nobody gave is.
func TestRequestWithLabels(t *testing.T) {
	is := func(at schedule.Seconds, value string) func(*Recording) {
		return func(r *Recording) {
			r.asks(10, schedule.Load{Op: schedule.LoadLabel, Label: "team"}, nil)
			i := r.Log[len(r.Log)-1].Instance
			i.Boot.Metadata = maps.Clone(i.Boot.Metadata)
			i.Boot.Metadata["team"] = value
			r.logged(at, i)
		}
	}
	n := len(made().Asks)
	sees(t, checkRequest, map[string]func(*Recording){
		"right: it was given":       is(11, Label(n)),
		"the record of vm-1: metad": is(11, Label(n+7)),
		"the record of vm-1: meta":  is(9, Label(n)),
	})
}
