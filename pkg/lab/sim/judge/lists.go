// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// placeDiffers says how the place that a node shows something at which waits is not the one it
// has by the log: among all that waits in its queue, what came first is first. What came
// within a second of each other may stand either way, within a minute where something goes
// wrong: what was decided first may be written last. Empty: it is there.
func (r *Recording) placeDiffers(
	g rest.Instance, logged map[compute.InstanceID]compute.Instance, came map[compute.InstanceID]time.Time,
) string {
	if g.Waiting == nil || g.Waiting.Place == nil {
		return ""
	}
	apart := time.Second + r.Schedule.Slack()
	if len(r.Schedule.Faults) > 0 {
		apart = time.Minute
	}
	var before, perhaps, depth uint64
	line, _ := lineOf(logged[g.ID])
	for id, i := range logged {
		if q, own := lineOf(i); i.State != compute.StateQueued || q != line || !own || i.Boot.Host != "" || i.Boot.In().ID != "" {
			continue
		}
		if i.Boot.Placeholder().Kept {
			continue // it waits for what has taken it, and for no host
		}
		depth++
		switch after := came[g.ID].Sub(came[id]); {
		case id == g.ID:
		case after > apart:
			before++
		case after > -apart:
			perhaps++
		}
	}
	is := g.Waiting.Place
	if is.Depth != depth || is.Position < before || is.Position > before+perhaps {
		return fmt.Sprintf("%s is said to have %d of %d before it in %s, and has %d to %d of %d",
			g.Name, is.Position, is.Depth, line, before, before+perhaps, depth)
	}
	return ""
}

// firstSeen is when each instance was first in the log.
func (r *Recording) firstSeen() map[compute.InstanceID]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := map[compute.InstanceID]time.Time{}
	for _, w := range r.Log {
		if _, known := first[w.Instance.ID]; !known && !w.Removed {
			first[w.Instance.ID] = w.Seen
		}
	}
	return first
}

// ListDiffers says how a list is not the log; empty: it is.
func (r *Recording) ListDiffers(got []rest.Instance, p compute.Project, wants func(compute.Instance) bool) string {
	logged, came, seen := r.Instances(), r.firstSeen(), map[compute.InstanceID]bool{}
	named := wants
	wants = func(i compute.Instance) bool { return !i.IsPlaceholder() && named(i) }
	for _, g := range got {
		i, state := logged[g.ID], g.State.Compute()
		switch {
		case seen[g.ID]:
			return fmt.Sprintf("%s is there twice", g.Name)
		case i.Project != p || !wants(i):
			return fmt.Sprintf("%s, which is %s on %q, is there and should not be", g.Name, i.State, i.Host)
		case i.Version != g.Version || i.State != state && state != compute.StateUnknown || i.Host != g.Host:
			return fmt.Sprintf("%s is shown as version %d, %s on %q, and is version %d, %s on %q",
				g.Name, g.Version, g.State, g.Host, i.Version, i.State, i.Host)
		}
		if wrong := r.placeDiffers(g, logged, came); wrong != "" {
			return wrong
		}
		seen[g.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(logged)) {
		if i := logged[id]; i.Project == p && wants(i) && !seen[id] {
			return fmt.Sprintf("%s, which is %s on %q, is missing", i.Boot.Name, i.State, i.Host)
		}
	}
	return ""
}
