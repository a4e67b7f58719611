// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/berth-project/berth/pkg/compute"

// Capacity is how many machines of one kind hosts could have.
type Capacity struct {
	Counts Counts
	Room   int64 // that could begin now
	Empty  int64 // that there could be if hosts had no other machines

	free compute.Resources // of the hosts that take such machines, or would when emptier
}

// Add counts a host in.
func (c *Capacity) Add(w Wanted, h Host) {
	s := w.At(h)
	now, empty := w.room(s, h)
	c.Counts[s], c.Room, c.Empty = c.Counts[s]+1, c.Room+now, c.Empty+empty
	if !s.Now() && s != Full {
		return
	}
	if c.free == nil {
		c.free = make(compute.Resources, len(w.Resources))
	}
	for class := range w.Resources {
		c.free[class] += max(0, h.Beacon.Free[class])
	}
}

// Stranded is how many more could begin if what is free on different hosts were on one.
func (c *Capacity) Stranded(w Wanted) int64 {
	if c.free == nil {
		return 0
	}
	return max(0, times(w.Resources, c.free)-c.Room)
}
