// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// TestProjectsTakeTurns: on a full host a project's one boot starts after some of the 150 that another project booted
// before it, and not after all of them; and these start as well.
func TestProjectsTakeTurns(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		const burst = 150
		r, p := oneFlavor(t, b, smallHost(1))
		all := r.boot(p, burst, compute.Boot{Flavor: "m1.small"})
		one := r.boot(r.as("q"), 1, compute.Boot{Flavor: "m1.small"})[0]
		r.await([]compute.InstanceID{one}, compute.StateQueued)
		// By what the host has done: what is read of one project's partition may lag behind the other's.
		started := func() int { return slices.Index(r.launchedIDs(), one) }
		for len(all) > 0 && started() < 0 {
			var active []compute.InstanceID
			r.poll("the host is full", func() bool {
				active = nil
				for _, id := range all {
					if r.seen.get(id).State == compute.StateActive {
						active = append(active, id)
					}
				}
				return len(active) > 0 || started() >= 0
			})
			r.delete(p, active)
			r.await(active, compute.StateDeleted)
			all = without(all, active)
		}
		r.await([]compute.InstanceID{one}, compute.StateActive)
		// Those that ran already, the window, and those that start beside it are half of it. The window is as much larger as
		// the host claimed in one second, so as the machine is fast.
		if n, most := started(), burst*2/3; n > most {
			t.Errorf("%d of the burst have started before it, want at most %d", n, most)
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
