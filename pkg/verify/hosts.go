// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// onHost is what the log has on one host, and what that host said last.
type onHost struct {
	id       compute.HostID
	beacon   *compute.Beacon // nil: it was never heard of, or is forgotten
	count    int             // instances that may be there
	deleting int             // of them, those that the host may have destroyed already
	uses     compute.Resources
}

// take counts an instance. Of a placeholder and what has its room there one has resources.
func (h *onHost) take(i compute.Instance, taken bool) {
	h.count++
	if i.State == compute.StateDeleting {
		h.deleting++
	}
	if !taken {
		h.uses = h.uses.Plus(i.Resources)
	}
}

// heldRoom is the room that a host holds for a placeholder: another attempt at it is in other room.
type heldRoom struct {
	project compute.Project
	in      compute.InPlaceholder
	host    compute.HostID
}

// noteTakers finds the room of placeholders that machines have. What has that of one that its host is to give up does
// not say so any more, but the placeholder does.
func (c *comparison) noteTakers() {
	type taker struct {
		project compute.Project
		id      compute.InstanceID
	}
	left := map[taker]compute.Instance{}
	for _, r := range c.Records {
		i := r.Instance
		if in := i.Boot.In(); in.ID != "" && i.State.OnHost() {
			c.taken[heldRoom{i.Project, in, i.Host}] = true
		}
		if p := i.Boot.Placeholder(); p.Taker != "" && i.State == compute.StateDeleting {
			left[taker{i.Project, p.Taker}] = i
		}
	}
	for _, r := range c.Records {
		p, ok := left[taker{r.Instance.Project, r.Instance.ID}]
		if ok && r.Instance.State.OnHost() && r.Instance.Host == p.Host {
			c.taken[roomOf(p)] = true
		}
	}
}

func roomOf(p compute.Instance) heldRoom {
	return heldRoom{p.Project, compute.InPlaceholder{ID: p.ID, Attempt: p.Attempt}, p.Host}
}

// isTaken says whether an instance is a placeholder of which the room is a machine's.
func (c *comparison) isTaken(i compute.Instance) bool {
	return i.IsPlaceholder() && c.taken[roomOf(i)]
}

// silent says whether nobody can speak for a host.
func (c *comparison) silent(id compute.HostID) bool {
	h := c.hosts[id]
	return h == nil || h.beacon == nil || c.Now.Sub(h.beacon.At) > compute.SilentAfter
}

func (c *comparison) compareHosts() {
	for _, id := range slices.Sorted(maps.Keys(c.hosts)) {
		switch h := c.hosts[id]; {
		case h.beacon == nil:
			c.find(Difference{
				Level: Fail, About: "host " + string(id), Host: id, Says: "never heard of, or forgotten",
				Want: fmt.Sprintf("a host with %d machines", h.count),
				Why:  "the log has machines there; nobody can say whether they run",
				Fix: fmt.Sprintf(
					"start its agent, or, if it is dead for certain: berth host evacuate %s --fenced", id,
				),
			})
		case c.silent(id):
			if h.count > 0 {
				c.find(Difference{
					Level: Warn, About: "host " + string(id), Host: id,
					Says: fmt.Sprintf("silent for %s", c.Now.Sub(h.beacon.At).Round(time.Second)),
					Want: fmt.Sprintf("a word about %d machines", h.count),
					Why:  "they show unknown; silence moves nothing",
					Fix: fmt.Sprintf(
						"start its agent, or, if it is dead for certain: berth host evacuate %s --fenced", id,
					),
				})
			}
		default:
			c.compareHost(h)
		}
	}
}

// compareHost holds a host's word against the log. What it is building it may
// have no grant for yet, what it destroys the log may have given up, and what it
// has destroyed the log may not know yet: only what none explains is a difference.
func (c *comparison) compareHost(h *onHost) {
	b := h.beacon
	about := Difference{Level: Fail, About: "host " + string(h.id), Host: h.id}
	machines, building := int(b.Machines), int(b.Building)
	switch {
	case h.count-h.deleting > machines+building:
		about.Says = fmt.Sprintf("%d machines and %d builds", machines, building)
		about.Want = fmt.Sprintf("%d at least, as in the log", h.count-h.deleting)
		about.Why = "machines are gone that nobody deleted"
		about.Fix = fmt.Sprintf(
			"berth verify --repair asks %s for each of them: what it does not know ends as HostLost", h.id,
		)
		c.find(about)
	case h.count < machines:
		about.Says, about.Want = fmt.Sprintf("%d machines", machines), fmt.Sprintf("%d, as in the log", h.count)
		about.Why = "machines run there that belong to nobody, and use its room"
		about.Fix = fmt.Sprintf(
			"berth verify --repair has %s told again what it should have; what is left, look for at its hypervisor",
			h.id,
		)
		c.find(about)
	}
	c.compareRoom(h, about)
}

// compareRoom holds what a host says is free against what the log has there.
func (c *comparison) compareRoom(h *onHost, about Difference) {
	inv := h.beacon.Inventory
	left := inv.Totals.Minus(inv.Reserved).Minus(inv.Unmanaged).Minus(h.uses)
	for _, class := range left.Classes() {
		n := left[class]
		switch free := h.beacon.Free[class]; {
		case n < 0:
			about.Says, about.Want = fmt.Sprintf("%s %d too little", class, -n), "room for what it has"
			about.Why = "the machines on it use more than it has: its totals shrank, or machines that Berth did " +
				"not start take the room"
			about.Fix = "look at what runs there beside Berth; delete or move machines"
			about.Level = Warn
			c.find(about)
		case free > n && h.count > int(h.beacon.Machines):
			continue // the same machines are missing
		case free > n:
			about.Says, about.Want = fmt.Sprintf("%s %d free", class, free), fmt.Sprintf("%d at most, by the log", n)
			about.Why = "the host offers room that its machines use"
			about.Fix = fmt.Sprintf("berth verify --repair asks %s for each machine", h.id)
			about.Level = Fail
			c.find(about)
		}
	}
}
