// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// FaultLie is a stranger that may write reports, where hosts have no keys, for For. Key says what it writes: only lies of
// which it is promised that they do no harm.
const FaultLie = "lie"

// The Keys of a FaultLie.
const (
	// LieEpoch claims, in the name of Who, a host that has lost its power, what waits for any host, under the epoch of
	// a fence that there never was. Once the host is declared dead, all of that is built elsewhere.
	LieEpoch = "epoch"
	// LieAbsent says, in the name of hosts that are heard all the time, and of a journal that is not theirs, that
	// machines are gone, have failed or were given back. Who names no process, so no check excuses anything by it.
	LieAbsent = "absent"
)

// lied has a stranger lie in worlds without keys. What goes wrong with conductors, queue managers and API nodes stays.
func (g *generator) lied() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 42))
	if len(g.s.Faults) == 0 || g.s.World.Keys || g.s.Orphaned() || g.s.Resizes("") || !g.chance(0.22) {
		return
	}
	for _, f := range g.s.Faults {
		if f.Kind == FaultRing || f.Kind == FaultClone || f.Kind == FaultRename || f.Kind == FaultWord {
			return
		}
	}
	centre := []string{FaultKill, FaultLose, FaultSlow, FaultCut}
	g.s.Faults = slices.DeleteFunc(g.s.Faults, func(f Fault) bool {
		_, host := g.s.Host(compute.HostID(f.Who))
		return host || strings.HasPrefix(f.Who, "host") || f.When != "" || !slices.Contains(centre, f.Kind)
	})
	if at := g.between(2, 6); g.chance(0.5) {
		g.wrong(Fault{At: at, For: g.between(5, 60), Kind: FaultLie, Key: LieAbsent, Who: Stranger})
	} else {
		g.claimed(at)
	}
}

// claimed is a host without power for which a stranger claims what comes meanwhile. The host is declared dead a minute
// after it was heard of last: conductors refuse that for 30 s after a report in its name.
func (g *generator) claimed(at Seconds) {
	const claims = 8
	h := g.one("host")
	g.wrong(Fault{At: at, For: g.between(20, 60), Kind: FaultPower, Who: h, Dead: pick(g, "fence", "fence", "forget")})
	g.wrong(Fault{At: at + 0.3, For: claims, Kind: FaultLie, Key: LieEpoch, Who: h})
	for range 2 + g.IntN(4) {
		g.boot(at + 0.5 + g.between(0, claims-1))
		l := &g.s.Load[len(g.s.Load)-1]
		l.Own, l.Boot.Flavor, l.Boot.With, l.Boot.Host, l.Boot.Avoid = "id", "m1.small", nil, "", nil
		l.Boot.OnNoCapacity = compute.WaitForCapacity
	}
}
