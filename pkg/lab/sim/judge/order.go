// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// overtakes is for how long work may still wait after later work of its queue was
// begun with: the fetch that the earlier is handed out to lasts 5 s at most.
const overtakes = 7 * time.Second

// checkOrder: where nothing goes wrong and no operator holds hosts back, work that any
// host may do is begun with in the order in which it came into its queue.
func checkOrder(r *Recording) []Violation {
	held := slices.ContainsFunc(r.Schedule.Load, func(l schedule.Load) bool {
		return l.Op == schedule.LoadHost || l.Op == schedule.LoadDropFlavor || l.Op == schedule.LoadDropAxis
	})
	if held || len(r.Schedule.Faults)+len(r.Schedule.World.Bad)+len(r.Schedule.World.Clocks) > 0 {
		return nil
	}
	most := overtakes + 60*r.Schedule.World.Latency.Duration()
	given, ended := r.begun(), r.overs()
	queues := map[compute.QueueName][]Published{}
	for _, b := range r.Builds {
		if b.Attempt == 1 && len(b.Avoid) == 0 && !r.ruled(b.Name) {
			queues[b.Queue] = append(queues[b.Queue], b)
		}
	}
	for _, queue := range queues {
		for n, late := range queue {
			at, ok := given[late.Instance]
			if !ok {
				continue
			}
			for _, early := range queue[:n] {
				until := latest(r.Calm, r.Settled)
				for _, t := range []map[compute.InstanceID]time.Time{given, ended} {
					if end, ok := t[early.Instance]; ok && end.Before(until) {
						until = end
					}
				}
				if until.Sub(at) > most {
					return broken(
						"order",
						early.Instance,
						until,
						"%s came into %s at %s and waits until %s, and %s, which came at %s, was begun with at %s",
						early.Name,
						early.Queue,
						r.At(early.Seen),
						r.At(until),
						late.Name,
						r.At(late.Seen),
						r.At(at),
					)
				}
			}
		}
	}
	return nil
}

// begun is when a hypervisor was first asked to prepare each instance.
func (r *Recording) begun() map[compute.InstanceID]time.Time {
	first := map[compute.InstanceID]time.Time{}
	for _, g := range r.Given {
		if at, ok := first[g.Spec.Instance]; !ok || g.At.Before(at) {
			first[g.Spec.Instance] = g.At
		}
	}
	return first
}

// overs is when each instance first stopped waiting.
func (r *Recording) overs() map[compute.InstanceID]time.Time {
	first := map[compute.InstanceID]time.Time{}
	for _, w := range r.Log {
		if at, ok := first[w.Instance.ID]; w.Instance.State != compute.StateQueued && (!ok || w.Seen.Before(at)) {
			first[w.Instance.ID] = w.Seen
		}
	}
	return first
}
