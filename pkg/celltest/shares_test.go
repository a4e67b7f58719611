// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// TestProjectsTakeTurns: on a full host a project's one boot starts after some of the 150 that another project booted
// before it, and not after all of them; and these start as well.
func TestProjectsTakeTurns(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		const burst, room, window = 150, 16, compute.UsualShare + 4 // the host counts as one that would take work until it says that it is full
		r, p := oneFlavor(t, b, smallHost(1))
		all := r.boot(p, burst, compute.Boot{Flavor: "m1.small"})
		one := r.boot(r.as("q"), 1, compute.Boot{Flavor: "m1.small"})[0]
		r.await([]compute.InstanceID{one}, compute.StateQueued)
		started := 0
		for len(all) > 0 {
			var active []compute.InstanceID
			r.poll("the host is full", func() bool {
				active = nil
				for _, id := range all {
					if r.seen.get(id).State == compute.StateActive {
						active = append(active, id)
					}
				}
				return len(active) > 0
			})
			if started += len(active); r.seen.get(one).State == compute.StateActive {
				break
			}
			r.delete(p, active)
			r.await(active, compute.StateDeleted)
			all = without(all, active)
		}
		// those that ran already, as many more in the queue as were claimed in one second, and the last that start beside it
		if most := room + window + room + room; started > most {
			t.Errorf("%d of the burst have started before it, want at most %d", started, most)
		}
	})
}

func without(ids, gone []compute.InstanceID) (left []compute.InstanceID) {
	is := map[compute.InstanceID]bool{}
	for _, id := range gone {
		is[id] = true
	}
	for _, id := range ids {
		if !is[id] {
			left = append(left, id)
		}
	}
	return left
}
