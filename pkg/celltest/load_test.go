// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// roomyHosts have room for 64 small machines each.
func roomyHosts(n int) []cell.SimulatedHost {
	hosts := smallHosts(n)
	for i := range hosts {
		hosts[i].Inventory.Totals = compute.Resources{
			compute.VCPU:     64,
			compute.MemoryMB: 256 << 10,
			compute.DiskGB:   2000,
		}
	}
	return hosts
}

// fullLoad is how many boots are asked for, and how many a second, where a test
// says two thousand at 100/s: a quarter of it under the race detector, which
// costs so much that the machine would be what is tested.
func fullLoad() (boots, rate int) {
	if raced {
		return 500, 50
	}
	return 2000, 100
}

// bootAtRate asks for n machines, so many a second, whatever becomes of them.
// Like any careful client it gives each an id, so that it may be repeated.
func (r *rig) bootAtRate(p compute.Project, n, rate int, what func(i int) compute.Boot) []compute.InstanceID {
	r.t.Helper()
	c := r.as(p)
	ids := make([]compute.InstanceID, n)
	errs := make(chan error, n)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		ids[i] = compute.InstanceID(uuid.NewString())
		go func() {
			_, err := c.Boot(r.t.Context(), ids[i], what(i))
			errs <- err
		}()
	}
	for range n {
		r.must(<-errs)
	}
	return ids
}

// logLatency says how long the steps took; it asserts nothing.
func (r *rig) logLatency(ids []compute.InstanceID) {
	for _, step := range []struct {
		name     string
		from, to func(compute.Instance) time.Time
	}{
		{"accepted→queued", accepted, queued}, {"queued→granted", queued, granted},
		{"accepted→granted", accepted, granted}, {"granted→active", granted, active},
	} {
		var took []time.Duration
		for _, id := range ids {
			inst := r.seen.get(id)
			took = append(took, step.to(inst).Sub(step.from(inst)))
		}
		slices.Sort(took)
		at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100].Round(time.Millisecond) }
		r.t.Logf("%-16s p50 %s p99 %s over %d boots", step.name, at(50), at(99), len(ids))
	}
}

func accepted(i compute.Instance) time.Time { return i.AcceptedAt }
func queued(i compute.Instance) time.Time   { return i.QueuedAt }
func granted(i compute.Instance) time.Time  { return i.StartingAt }
func active(i compute.Instance) time.Time   { return i.ActiveAt }
