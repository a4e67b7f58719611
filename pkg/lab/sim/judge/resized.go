// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// resized has what is wanted of boots be what their flavor was when they were admitted, where it became another. What
// may have been in force then follows from what operators asked for, and when; which of two it was, the first
// record with a size says. All that comes later, on whatever host, has to be the same.
func (r *Recording) resized(all map[string]Wanted) {
	if !r.Schedule.Resizes("") {
		return
	}
	said := map[string]bool{}
	for _, w := range r.Log {
		name, i := w.Instance.Boot.Name, w.Instance
		x, ok := all[name]
		if !ok || said[name] || w.Removed || len(i.Resources) == 0 || !r.Schedule.Resizes(x.Boot.Flavor) {
			continue
		}
		said[name] = true
		for _, f := range r.flavorsAt(x.Boot.Flavor, latest(x.Began, i.AcceptedAt), w.Seen) {
			all[name] = wantOf(r.Schedule, x.Ask, f, true)
			if all[name].Resources.Equal(i.Resources) {
				break
			}
		}
	}
}

// flavorsAt is what a flavor may have been when something was decided, which was in the log then. A queue is for what it
// was made for until it is closed, which nobody promises where queue managers are hindered.
func (r *Recording) flavorsAt(name compute.FlavorName, decided, logged time.Time) (all []compute.Flavor) {
	asks, before := r.inForce(decided, logged,
		func(a Ask) bool { return a.Op == schedule.LoadResize && a.Flavor.Name == name },
		func(Ask) bool { return r.Schedule.Lists() })
	if f, ok := r.Schedule.Flavor(name); ok && before {
		all = append(all, f)
	}
	for _, a := range asks {
		all = append(all, *a.Flavor)
	}
	return all
}

// Needs is the room that a host has to have until it looks where an instance waits: what that takes, or what its queue may
// be for by now, if that is more. Work from before its flavor became larger waits for the room of the larger one; and
// a queue that is closed is for what it was for as long as anything waits there.
func (r *Recording) Needs(i compute.Instance) compute.Resources {
	r.mu.Lock()
	defer r.mu.Unlock()
	needs := i.Resources
	for _, a := range r.Asks {
		if a.Op == schedule.LoadResize && a.Flavor.Name == i.Boot.Flavor {
			needs = needs.Max(a.Flavor.Resources)
		}
	}
	return needs
}

// anew is how much longer work may wait where the queue of a flavor that became another is made anew. What is put into a
// queue just as it goes is put there again after 30 s; if the conductor's producer hears only by this that the topic is
// another one, what it sends is lost once more, and comes a minute later.
func (r *Recording) anew() time.Duration {
	if r.Schedule.Resizes("") {
		return time.Minute
	}
	return 0
}
