// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// A record is written in a schema only once all its readers read that (decision 0046):
// instances, what all conductors read, which their group says; a command, what the agent
// of its host reads besides; a build, what the agents of all hosts read, as any may take it.

// Agreed says which schema all conductors of the group read up to. It is called by the
// goroutine that calls the methods of wire.Handler; without it the first one is written.
func (c *Conductor) Agreed(n compute.Schema) { c.writes = min(n.OrFirst(), c.cfg.Reads) }

// readByAll says why a request is not for a group of which some members do not read its schema: what follows from it
// is written in that, and they would set its partition aside.
func (t *turn) readByAll(rec wire.Record) *compute.Reason {
	if !wire.LaterThan(rec, t.writes.OrFirst()) {
		return nil
	}
	return malformed(fmt.Errorf("it is of schema %s, and not all conductors read later ones than %d: upgrade them first",
		rec.Header(wire.HeaderSchema), t.writes.OrFirst()))
}

// spreadReadByAll says why a boot may not be a member of its group: where that spreads its members, the instance is
// written in a schema that not all conductors read.
func (t *turn) spreadReadByAll(r compute.Request) *compute.Reason {
	if r.Boot == nil || r.Boot.Group() == "" {
		return nil
	}
	rule, ok := t.view.Groups[compute.GroupKey{Project: r.Project, Name: r.Boot.Group()}]
	if !ok || rule.Spread == "" {
		return nil
	}
	return t.readByAll(wire.EncodeGroup(rule))
}

// agents is what the agents of hosts say that they read. The zero value knows none.
type agents struct {
	of    map[compute.HostID]compute.Schema
	count map[compute.Schema]int // of hosts, by what they read
}

func (a *agents) say(h compute.HostID, reads compute.Schema) {
	a.forget(h)
	if a.of == nil {
		a.of, a.count = map[compute.HostID]compute.Schema{}, map[compute.Schema]int{}
	}
	a.of[h] = reads.OrFirst()
	a.count[reads.OrFirst()]++
}

func (a *agents) forget(h compute.HostID) {
	if was, known := a.of[h]; known {
		delete(a.of, h)
		if a.count[was]--; a.count[was] == 0 {
			delete(a.count, was)
		}
	}
}

// all is what the agents of all hosts read that were not forgotten: a silent one may
// speak again, and it fetches at once.
func (a *agents) all() compute.Schema {
	said := make([]compute.Schema, 0, len(a.count))
	for s := range a.count {
		said = append(said, s)
	}
	return compute.ReadByAll(said...)
}

// reads is what the agent of a host reads.
func (b *inbox) reads(h compute.HostID) compute.Schema {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents.of[h].OrFirst()
}

// allRead is what the agents of all hosts read. Before all beacons were read, there may
// be one that says less.
func (b *inbox) allRead() compute.Schema {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hostsEnd {
		return compute.FirstSchema
	}
	return b.agents.all()
}
