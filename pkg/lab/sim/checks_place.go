// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
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
	apart := time.Second + r.Schedule.slack()
	if len(r.Schedule.Faults) > 0 {
		apart = time.Minute
	}
	var before, perhaps, depth uint64
	for id, i := range logged {
		if i.State != compute.StateQueued || string(i.Queue) != string(g.Queue) || i.Boot.Host != "" {
			continue
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
			g.Name, is.Position, is.Depth, g.Queue, before, before+perhaps, depth)
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
