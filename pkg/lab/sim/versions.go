// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// laterSchema is what a later version than this one reads, and this one does not. In some
// worlds all are of that version, in others all but the agents: conductors are to write
// the later schema to instances there, and to no host. Worlds in which conductors are of
// both versions are not played: what is right about a partition that is set aside, no
// check says.
const laterSchema compute.Schema = wire.Schema + 1

// versions has some worlds be of a later version. It has numbers of its own, as rare has.
func (g *generator) versions() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 13))
	g.s.World.Later = g.chance(0.12)
	g.s.World.Older = g.s.World.Later && g.chance(0.5)
}

// versions is what such a world is counted as.
func (w World) versions() string {
	if w.Older {
		return "older agents"
	}
	return "later version"
}

// reads is up to which schema a process reads.
func (w World) reads(process string) compute.Schema {
	if w.Later && !(w.Older && strings.HasPrefix(process, "host-")) {
		return laterSchema
	}
	return wire.Schema
}

// writtenIn counts what is written in the later schema.
func (r *Recording) writtenIn(rec wire.Record) {
	if !wire.IsLater(rec) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Later++
}

// unreadable holds what a host is sent against what its agent reads.
func (r *Recording) unreadable(h compute.HostID, rec wire.Record) {
	if reads := r.Schedule.World.reads(string(h)); wire.LaterThan(rec, reads) {
		r.wrong("schema", compute.InstanceID(rec.Key), "%s is told something in schema %s, and reads up to %d",
			h, rec.Header(wire.HeaderSchema), reads)
	}
}
