// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// AddUpgraded notes that the agent of a host is of this version from now on.
func (r *Recording) AddUpgraded(h compute.HostID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Upgraded[h] = true
}

// reads is up to which schema the agent of a host reads by now.
func (r *Recording) reads(h compute.HostID) compute.Schema {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Schedule.Upgrades(string(h)) && !r.Upgraded[h] {
		return schedule.BeforeReservations
	}
	return r.Schedule.World.Reads(string(h))
}

// upgraded is when all agents that were older may be of this version, where an instance waits for that: one that an operator
// says is dead begins later. Zero: it does not.
func (r *Recording) upgraded(i compute.Instance) (at time.Time) {
	for _, h := range r.Schedule.World.Hosts {
		if i.IsPlaceholder() && r.Schedule.Upgrades(string(h.ID)) {
			at = latest(r.Calm, r.Up)
		}
	}
	return at
}

// unreadable holds what a host is sent against what its agent reads.
func (r *Recording) unreadable(h compute.HostID, rec wire.Record) {
	if reads := r.reads(h); wire.LaterThan(rec, reads) {
		r.AddViolation("schema", compute.InstanceID(rec.Key), "%s is told something in schema %s, and reads up to %d",
			h, rec.Header(wire.HeaderSchema), reads)
	}
}

// unreadableWork holds what is put into a queue against what all agents read, but for those that an operator may have said are
// gone: one that comes to work it cannot read can only leave it.
func (r *Recording) unreadableWork(rec wire.Record) {
	for _, h := range r.Schedule.World.Hosts {
		if reads := r.reads(h.ID); wire.LaterThan(rec, reads) && !r.Schedule.Forgets(h.ID) {
			r.AddViolation("schema", compute.InstanceID(rec.Key), "work is put into a queue in schema %s, and %s reads up to %d",
				rec.Header(wire.HeaderSchema), h.ID, reads)
		}
	}
}
