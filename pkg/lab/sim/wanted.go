// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Wanted is a boot as a client asked for it, and what has to come of it: worked out from
// the schedule alone, by nothing that Berth has written.
type Wanted struct {
	Ask
	Boot      compute.Boot // with the defaults that the API promises
	Queue     compute.QueueName
	Resources compute.Resources
	Required  []compute.Trait
	Offered   bool // something like it is offered at some time
}

// wanted are all boots of the schedule, by name. Of two requests under one key that
// differ it is the one that the log has: which of them that is nobody promises, and
// checkKeys looks at what their callers were told.
func (r *Recording) wanted() map[string]Wanted {
	all, won := map[string]Wanted{}, r.twinsThatWon()
	for _, a := range r.Asks {
		if a.Op == LoadBoot && (!r.Schedule.twin(a.Name) || twinOf(*a.Load.Boot) == won[a.Name]) {
			all[a.Name] = r.Schedule.want(a)
		}
	}
	return all
}

func (s Schedule) want(a Ask) Wanted {
	x := Wanted{Ask: a, Boot: *a.Load.Boot, Resources: compute.Resources{}}
	x.Boot.Name = a.Name
	x.Boot.Attempts = cmp.Or(x.Boot.Attempts, compute.DefaultAttempts)
	x.Boot.Deadline = cmp.Or(x.Boot.Deadline, compute.DefaultDeadline)
	f, ok := s.flavor(x.Boot.Flavor)
	if !ok {
		return x
	}
	x.Offered = true
	parts := []string{string(f.Name)}
	x.Resources = x.Resources.Plus(f.Resources)
	x.Required = append(x.Required, f.Required...)
	for axis, chosen := range x.Boot.With {
		parts = append(parts, string(axis)+"-"+string(chosen))
		for _, v := range s.axis(axis).Values {
			if v.Value == chosen {
				x.Resources = x.Resources.Plus(v.Consumes)
				x.Required = append(x.Required, v.Requires...)
			}
		}
	}
	slices.Sort(parts[1:])
	x.Queue = compute.QueueName(strings.Join(parts, "."))
	slices.Sort(x.Required)
	x.Required = slices.Compact(x.Required)
	return x
}

// flavor is one that is offered at some time; all of one name are the same.
func (s Schedule) flavor(name compute.FlavorName) (compute.Flavor, bool) {
	for _, f := range s.World.Flavors {
		if f.Name == name {
			return f, true
		}
	}
	for _, l := range s.Load {
		if l.Op == LoadAddFlavor && l.Flavor.Name == name {
			return *l.Flavor, true
		}
	}
	return compute.Flavor{}, false
}

func (s Schedule) axis(name compute.AxisName) compute.Capability {
	for _, a := range s.World.Axes {
		if a.Axis == name {
			return a
		}
	}
	return compute.Capability{}
}

// host is one of the schedule's.
func (s Schedule) host(id compute.HostID) (Host, bool) {
	for _, h := range s.World.Hosts {
		if h.ID == id {
			return h, true
		}
	}
	return Host{}, false
}

// slack is how much later than it would be without a network something may be seen.
func (s Schedule) slack() time.Duration { return 60 * s.World.Latency.Duration() }
