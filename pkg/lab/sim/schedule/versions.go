// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// LaterSchema is what a later version than this one reads, and this one does not. In some
// worlds all are of that version, in others all but the agents: conductors are to write
// the later schema to instances there, and to no host. Worlds in which conductors are of
// both versions are not played: what is right about a partition that is set aside, no
// check says.
const LaterSchema compute.Schema = wire.Schema + 1

// versions has some worlds be of a later version. It has numbers of its own, as rare has.
func (g *generator) versions() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 13))
	g.s.World.Later = g.chance(0.12)
	g.s.World.Older = g.s.World.Later && g.chance(0.5)
}

// Versions is what such a world is counted as.
func (w World) Versions() string {
	if w.Older {
		return "older agents"
	}
	return "later version"
}

// Reads is up to which schema a process reads.
func (w World) Reads(process string) compute.Schema {
	if w.Later && !(w.Older && strings.HasPrefix(process, "host-")) {
		return LaterSchema
	}
	return wire.Schema
}
