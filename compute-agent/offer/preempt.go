// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Movable is a machine that may be taken away so that other work finds room.
type Movable struct {
	Held
	Instance compute.InstanceID
	Taken    uint32    // how often it was taken away before, here or elsewhere
	Since    time.Time // when it came; zero: nobody knows, and it counts as old
}

// mostTried bounds how many ways to make room are looked at. With very many machines that are all different more may go then
// than would have had to, but none that could stay beside the others.
const mostTried = 20_000

// Preempt chooses which machines have to go so that one with these needs has room beside what is kept: the fewest, of
// equally many those with least of what the host has, then those that were taken away least often, all together, then
// the youngest. It chooses none where nothing has to go, and where it would not do if all went.
func (h Host) Preempt(kept []Held, movable []Movable, needs compute.Resources) []compute.InstanceID {
	slices.SortFunc(movable, func(a, b Movable) int {
		return cmp.Or(cmp.Compare(a.Taken, b.Taken), b.Since.Compare(a.Since), cmp.Compare(a.Instance, b.Instance))
	})
	c := &choice{rest: h.Room(kept...), movable: movable, needs: needs, total: h.empty.free, left: mostTried}
	if c.fits(c.all()) || !c.fits(nil) {
		return nil
	}
	c.number()
	for n := 1; n <= len(movable) && c.best == nil && c.left > 0; n++ {
		c.search(nil, 0, n, c.lacks(c.all()))
	}
	if c.best == nil {
		c.best = c.irredundant()
	}
	var out []compute.InstanceID
	for _, i := range c.best {
		out = append(out, movable[i].Instance)
	}
	return out
}

// choice is a search for the fewest machines that have to go.
type choice struct {
	rest    Room // beside what is kept, if all that can go has gone
	movable []Movable
	needs   compute.Resources
	total   compute.Resources
	alike   []int // of each: the one before it of the same size at the same place; -1: none
	left    int   // ways that may still be looked at
	best    []int
	least   float64 // share of the host that the best have
	taken   uint64  // how often they were taken before
}

// all are the numbers of all that can go.
func (c *choice) all() []int {
	out := make([]int, len(c.movable))
	for i := range out {
		out[i] = i
	}
	return out
}

// room is what is left where these stay.
func (c *choice) room(stay []int) Room {
	r := c.rest
	for _, i := range stay {
		r = r.Hold(c.movable[i].Resources, c.movable[i].Place)
	}
	return r
}

func (c *choice) fits(stay []int) bool { return c.room(stay).Fits(c.needs) }

// lacks is how much is missing where these stay, of the classes that are no devices: those exclude each other.
func (c *choice) lacks(stay []int) compute.Resources {
	free, out := c.room(stay).free, compute.Resources{}
	for class, n := range c.needs {
		if n > free[class] && !c.rest.devices.have(class) {
			out[class] = n - free[class]
		}
	}
	return out
}

// number finds for each machine one that does as well, and goes first: it was taken less often, or is younger.
func (c *choice) number() {
	for i, m := range c.movable {
		before := -1
		for j := i - 1; j >= 0 && before < 0; j-- {
			o := c.movable[j]
			if len(m.Devices)+len(o.Devices) == 0 && m.Resources.Equal(o.Resources) && slices.Equal(m.Nodes, o.Nodes) {
				before = j
			}
		}
		c.alike = append(c.alike, before)
	}
}

// search looks through the ways in which n machines more go, from one on, when lacking is missing still.
func (c *choice) search(gone []int, from, n int, lacking compute.Resources) {
	if n == 0 {
		c.consider(gone)
		return
	}
	for i := from; i <= len(c.movable)-n && c.left > 0; i++ {
		if before := c.alike[i]; before >= 0 && !slices.Contains(gone, before) {
			continue // the one before does as well
		}
		c.left--
		if still := less(lacking, c.movable[i].Resources); c.reaches(still, i+1, n-1) {
			c.search(append(slices.Clone(gone), i), i+1, n-1, still)
		}
	}
}

// reaches says whether n machines from one on may have what is missing, by the largest of each class.
func (c *choice) reaches(lacking compute.Resources, from, n int) bool {
	for class, missing := range lacking {
		most := int64(0)
		for _, m := range c.movable[from:] {
			most = max(most, m.Resources[class])
		}
		if most*int64(n) < missing {
			return false
		}
	}
	return true
}

func less(lacking, by compute.Resources) compute.Resources {
	out := compute.Resources{}
	for class, n := range lacking {
		if n > by[class] {
			out[class] = n - by[class]
		}
	}
	return out
}

// consider takes the way if it is one, and better than the best so far.
func (c *choice) consider(gone []int) {
	c.left--
	if !c.fits(c.without(gone)) {
		return
	}
	cost, taken := 0.0, uint64(0)
	for _, i := range gone {
		cost += c.share(i)
		taken += uint64(c.movable[i].Taken)
	}
	if less := cost - c.least; c.best == nil || less < -1e-9 || less < 1e-9 && taken < c.taken {
		c.best, c.least, c.taken = gone, cost, taken
	}
}

// without are those that stay.
func (c *choice) without(gone []int) []int {
	return slices.DeleteFunc(c.all(), func(i int) bool { return slices.Contains(gone, i) })
}

// share is how much of the host a machine has.
func (c *choice) share(i int) (sum float64) {
	for class, n := range c.movable[i].Resources {
		if total := c.total[class]; total > 0 {
			sum += float64(n) / float64(total)
		}
	}
	return sum
}

// irredundant are machines of which none could stay, where there are too many ways to find the fewest: the smallest
// stay first, then those that were taken most often, then the oldest.
func (c *choice) irredundant() (gone []int) {
	order := c.all()
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(c.share(a), c.share(b)), cmp.Compare(b, a)) })
	var stay []int
	for _, i := range order {
		if with := append(slices.Clone(stay), i); c.fits(with) {
			stay = with
		} else {
			gone = append(gone, i)
		}
	}
	return gone
}
