// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Wanted is a boot as a client asked for it, and what has to come of it: worked out from
// the schedule alone, by nothing that Berth has written.
type Wanted struct {
	Ask
	Boot      compute.Boot // with the defaults that the API promises
	Queue     compute.QueueName
	Resources compute.Resources
	Required  []compute.Trait
	Offered   bool      // something like it is offered at some time
	Begins    time.Time // that of its reservation; zero: it is in none
	Until     time.Time // of a placeholder: the end of its reservation; zero: it is none
}

// logged is the earliest time that the log, which counts in milliseconds, can have for a request.
func (x Wanted) logged() time.Time { return x.Began.Truncate(time.Millisecond) }

// wanted are all boots of the schedule, by name. Of two requests under one key that
// differ it is the one that the log has: which of them that is nobody promises, and
// checkKeys looks at what their callers were told.
func (r *Recording) wanted() map[string]Wanted {
	all, won := map[string]Wanted{}, r.twinsThatWon()
	for _, a := range r.Asks {
		if a.Op == schedule.LoadBoot && (!r.Schedule.Twin(a.Name) || schedule.TwinOf(*a.Load.Boot) == won[a.Name]) {
			all[a.Name] = want(r.Schedule, a)
		}
	}
	r.spread(all)
	r.resized(all)
	return all
}

// version is one of a record that a client asked for.
type version struct {
	Written
	old   compute.Instance // the one before it; zero: there is none
	asked Wanted
}

// versions are all that clients asked for, with where they are in the log.
func (r *Recording) versions() iter.Seq2[int, version] {
	return func(yield func(int, version) bool) {
		asked, last := r.wanted(), map[compute.InstanceID]compute.Instance{}
		for n, w := range r.Log {
			old := last[w.Instance.ID]
			last[w.Instance.ID] = w.Instance
			if x, ok := asked[w.Instance.Boot.Name]; ok && !w.Removed && !yield(n, version{w, old, x}) {
				return
			}
		}
	}
}

func want(s schedule.Schedule, a Ask) Wanted {
	f, ok := s.Flavor(a.Load.Boot.Flavor)
	return wantOf(s, a, f, ok)
}

// wantOf is that where the flavor is this one.
func wantOf(s schedule.Schedule, a Ask, f compute.Flavor, offered bool) Wanted {
	x := Wanted{Ask: a, Boot: *a.Load.Boot, Resources: compute.Resources{}}
	x.Boot.Name = a.Name
	x.Boot.Attempts = cmp.Or(x.Boot.Attempts, compute.DefaultAttempts)
	x.Boot.Deadline = cmp.Or(x.Boot.Deadline, compute.DefaultDeadline)
	if x.Offered = offered; !offered {
		return x
	}
	parts := []string{string(f.Name)}
	x.Resources = x.Resources.Plus(f.Resources)
	x.Required = append(x.Required, f.Required...)
	for axis, chosen := range x.Boot.With {
		parts = append(parts, string(axis)+"-"+string(chosen))
		for _, v := range s.Axis(axis).Values {
			if v.Value == chosen {
				x.Resources = x.Resources.Plus(v.Consumes)
				x.Required = append(x.Required, v.Requires...)
			}
		}
	}
	slices.Sort(parts[1:])
	if p := x.Boot.Priority(); p != compute.PriorityNormal { // the class is one more choice, and the last one
		parts = append(parts, "priority-"+p.String())
	}
	x.Queue = compute.QueueName(strings.Join(parts, "."))
	slices.Sort(x.Required)
	x.Required = slices.Compact(x.Required)
	return x
}
