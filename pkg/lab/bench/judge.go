// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// verdict is what was lost or doubled.
type verdict struct {
	lost, doubled int
	wrong         []string
}

func (v *verdict) lose(format string, args ...any) {
	v.lost++
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *verdict) double(format string, args ...any) {
	v.doubled++
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// judge compares what the log says of boots with what happened in the world.
// Nothing failed on purpose there, so a machine is launched once, or its boot
// has ended without.
func judge(boots []*boot, events []fake.Event, overfull []string) verdict {
	var v verdict
	launched := map[compute.InstanceID]int{}
	for _, e := range events {
		if e.Kind == fake.Launched {
			launched[e.Instance]++
		}
	}
	for _, b := range boots {
		n := launched[b.id]
		delete(launched, b.id)
		switch {
		case n > 1:
			v.double("doubled: %s was launched %d times, and the log says %s", b.id, n, b.state)
		case !b.active.IsZero() && n == 0:
			v.lose("lost: %s is active and was never launched", b.id)
		case !b.settled():
			v.lose("lost: %s is %s%s", b.called(), b.said(), b.where())
		case b.deleting && !b.over():
			v.lose("lost: the end of %s, which is %s%s", b.id, b.state, b.where())
		}
	}
	for id, n := range launched {
		v.double("doubled: %s was launched %d times, and nobody asked for it", id, n)
	}
	for _, line := range overfull {
		v.double("doubled: %s", line)
	}
	if v.doubled == 0 { // or these are of the same instances, seen from another side
		for _, line := range fake.Violations(events) {
			v.double("doubled: %s", line)
		}
	}
	return v
}

// called is the id, as soon as there is one.
func (b *boot) called() string {
	if b.id != "" {
		return string(b.id)
	}
	return b.name + " of " + string(b.project)
}

// said is the state as a reader would look for it.
func (b *boot) said() string {
	switch {
	case b.state != compute.StateNone:
		return b.state.String()
	case !b.accepted.IsZero():
		return "accepted, and not in the log"
	}
	return "not answered"
}

func (b *boot) where() string {
	if b.host == "" {
		return ""
	}
	return " on " + string(b.host)
}

// wasted counts the machines that were prepared for these boots and taken away
// without having run.
func wasted(boots []*boot, events []fake.Event) int64 {
	ours := map[compute.InstanceID]bool{}
	for _, b := range boots {
		ours[b.id] = true
	}
	n := int64(0)
	for _, e := range events {
		if e.Kind == fake.Undone && ours[e.Instance] {
			n++
		}
	}
	return n
}

// taken is how many processors machines have, of which each takes at least one.
func taken(w *fake.World) int64 {
	n := int64(0)
	for _, h := range w.Hosts() {
		for _, m := range h.Machines() {
			n += m.Resources[compute.VCPU]
		}
	}
	return n
}

// fill is how much of the hosts' processors is taken.
func (c *cloud) fill(taken int64) float64 {
	have := int64(0)
	for _, h := range c.hosts {
		have += h.Inventory.Totals[compute.VCPU]
	}
	return round(float64(taken) / float64(have))
}

// overfull finds hosts that ever held more than they have.
func overfull(w *fake.World, hosts []benchHost) []string {
	room := map[compute.HostID]compute.Resources{}
	for _, h := range hosts {
		room[h.ID] = h.Inventory.Totals
	}
	var wrong []string
	for _, h := range w.Hosts() {
		if !h.Worst().FitsIn(room[h.ID()]) {
			wrong = append(wrong, fmt.Sprintf("%s held %s and has %s", h.ID(), h.Worst(), room[h.ID()]))
		}
	}
	return wrong
}
