// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// standing is what a host is to a queue: the first that applies, in this order.
type standing uint8

const (
	neverFits   standing = iota // too small even when empty, or lacking a trait
	silent                      // not heard of
	disabled                    // taken out by an operator
	draining                    // being emptied
	quarantined                 // stopped offering
	full                        // would fit when emptier
	eligible                    // fits now
	standings
)

type counts [standings]uint32

// names numbers the resource classes and traits that queues ask for, so that
// hosts and queues are compared without looking anything up.
type names struct {
	classes map[compute.ResourceClass]int
	traits  map[compute.Trait]int
}

func newNames() *names {
	return &names{classes: map[compute.ResourceClass]int{}, traits: map[compute.Trait]int{}}
}

func number[T comparable](m map[T]int, x T) int {
	n, ok := m[x]
	if !ok {
		n = len(m)
		m[x] = n
	}
	return n
}

// queue is what a queue needs, in numbers, and what comes into it.
type queue struct {
	name      compute.QueueName
	needs     []need
	required  []int
	forbidden []int
	flow      flow
}

func (q queue) compare(name compute.QueueName) int { return cmp.Compare(q.name, name) }

type need struct {
	class  int
	amount int64
}

func (n *names) queue(q compute.Queue) queue {
	out := queue{name: q.Name}
	for _, c := range q.Resources.Classes() {
		out.needs = append(out.needs, need{class: number(n.classes, c), amount: q.Resources[c]})
	}
	for _, t := range q.Required {
		out.required = append(out.required, number(n.traits, t))
	}
	for _, t := range q.Forbidden {
		out.forbidden = append(out.forbidden, number(n.traits, t))
	}
	return out
}

// host is what was last heard of one host.
type host struct {
	beacon compute.Beacon
	heard  time.Time
	silent bool
	index  int                          // in the order of all hosts
	stream bool                         // its command stream is there
	taking map[compute.QueueName]uint32 // as last counted
	rank   float64                      // of two hosts the one with the lower rank is drawn

	empty, free []int64 // what one machine may have at most, of each class, numbered by names
	left        []int64 // what all may have together
	beside      []int64 // what one machine may have of queues for which it does not save; nil: as free
	besideLeft  []int64 // what all of those may have together
	traits      []bool  // by number
	is          []standing
	room        []uint16 // machines of each queue it is eligible for that fit
}

// measure numbers what the beacon says.
func (h *host) measure(n *names) {
	inv := h.beacon.Inventory
	h.rank = rank(h.beacon)
	h.empty, h.free = make([]int64, len(n.classes)), make([]int64, len(n.classes))
	h.left, h.traits = make([]int64, len(n.classes)), make([]bool, len(n.traits))
	for c, i := range n.classes {
		h.empty[i] = largestMachine(inv.Totals[c]-inv.Reserved[c], inv.Largest, c)
		h.free[i] = largestMachine(h.beacon.Free[c], h.beacon.Largest, c)
		h.left[i] = h.beacon.Free[c]
	}
	h.measureBeside(n)
	for _, t := range inv.Traits {
		if i, ok := n.traits[t]; ok {
			h.traits[i] = true
		}
	}
}

// measureBeside works out what is left for other queues than the one that it saves for.
func (h *host) measureBeside(n *names) {
	h.beside, h.besideLeft = nil, nil
	s := h.beacon.Saving
	if s == nil {
		return
	}
	h.beside, h.besideLeft = slices.Clone(h.free), slices.Clone(h.left)
	for c, amount := range s.Needs {
		if i, ok := n.classes[c]; ok {
			h.besideLeft[i] -= amount
			h.beside[i] = min(h.free[i], h.besideLeft[i])
		}
	}
}

// roomFor is what one machine of a queue may have at most, and all of them together.
func (h *host) roomFor(q *queue) (one, all []int64) {
	if h.beside == nil || h.beacon.Saving.Queue == q.name {
		return h.free, h.left
	}
	return h.beside, h.besideLeft
}

// largestMachine is how much of a class one machine may have of what there is.
func largestMachine(there int64, largest compute.Resources, c compute.ResourceClass) int64 {
	if n, less := largest[c]; less {
		return min(n, there)
	}
	return there
}

// sameAs says whether a beacon brings nothing that matters here.
func (h *host) sameAs(b compute.Beacon) bool {
	old := h.beacon
	return old.State == b.State && old.Asks == b.Asks && old.Leaves == b.Leaves &&
		old.Rings == b.Rings && old.Saves == b.Saves && old.Preempts == b.Preempts &&
		old.Preemptible.Equal(b.Preemptible) && sameSaving(old.Saving, b.Saving) &&
		old.Weigher == b.Weigher && old.Free.Equal(b.Free) &&
		maps.Equal(old.Largest, b.Largest) && maps.Equal(old.Inventory.Largest, b.Inventory.Largest) &&
		old.Inventory.Totals.Equal(b.Inventory.Totals) && old.Inventory.Reserved.Equal(b.Inventory.Reserved) &&
		slices.Equal(old.Inventory.Traits, b.Inventory.Traits)
}

// sameSaving says whether a host saves for the same queue as before. How long it does changes all the time.
func sameSaving(a, b *compute.Saving) bool {
	return a.For() == b.For() && (a == nil || a.Needs.Equal(b.Needs) && a.Preempt == b.Preempt)
}

func (h *host) standing(q *queue) standing {
	if !h.has(q) || !fits(q.needs, h.empty) {
		return neverFits
	}
	if h.silent {
		return silent
	}
	switch h.beacon.State {
	case compute.HostDisabled:
		return disabled
	case compute.HostDraining:
		return draining
	case compute.HostQuarantined:
		return quarantined
	case compute.HostSilent:
		return silent
	}
	if one, _ := h.roomFor(q); !fits(q.needs, one) {
		return full
	}
	return eligible
}

func (h *host) has(q *queue) bool {
	for _, t := range q.required {
		if !h.traits[t] {
			return false
		}
	}
	for _, t := range q.forbidden {
		if h.traits[t] {
			return false
		}
	}
	return true
}

func fits(needs []need, in []int64) bool {
	for _, n := range needs {
		if n.amount > in[n.class] {
			return false
		}
	}
	return true
}

// machines is how many of what needs so much fit into what is left.
func machines(needs []need, left []int64) uint16 {
	n := int64(math.MaxUint16)
	for _, x := range needs {
		if x.amount > 0 {
			n = min(n, left[x.class]/x.amount)
		}
	}
	return uint16(n)
}
