// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
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

// FaultUpgrade ends the agent of the host Who, which is of the version before reservations until then, and starts one of this
// version By later.
const FaultUpgrade = "upgrade"

// BeforeReservations is up to which schema an agent reads that is upgraded later.
const BeforeReservations = wire.SchemaReserved - 1

// upgraded has the agents of some hosts be of the version before reservations at first, where one is asked for. Of what goes
// right beside rings, or beside queue managers that are away, more is expected.
func (g *generator) upgraded(until Seconds) {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 50))
	if len(g.s.Faults) == 0 || g.s.Orphaned() || !g.chance(0.4) {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultRing || f.Kind == FaultClone || f.Kind == FaultRename {
			return
		}
	}
	all := g.chance(0.4)
	for _, h := range g.s.World.Hosts {
		if all || g.chance(0.5) {
			g.wrong(Fault{At: g.between(0, until), Kind: FaultUpgrade, Who: string(h.ID), By: g.between(0.1, 10)})
		}
	}
}

// Upgrades says whether the agent of a process is older at first.
func (s Schedule) Upgrades(process string) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Kind == FaultUpgrade && f.Who == process })
}
