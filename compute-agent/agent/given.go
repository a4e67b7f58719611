// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
)

// given knows which claims were given back, so that a grant that comes too late
// is answered with that. The oldest are forgotten; then they are unknown, which
// ends the same way.
type given struct {
	order []journal.Given
	set   map[givenKey]bool
}

type givenKey struct {
	instance compute.InstanceID
	attempt  compute.Attempt
	claim    compute.ClaimID
}

const mostGiven = 1000

func newGiven(list []journal.Given) given {
	g := given{set: map[givenKey]bool{}}
	for _, x := range list {
		g.order = append(g.order, x)
		g.set[givenKey{x.Instance, x.Attempt, x.Claim}] = true
	}
	return g
}

// add is what the journal is to remember.
func (g *given) add(id compute.InstanceID, a compute.Attempt, c compute.ClaimID, now time.Time) journal.Given {
	x := journal.Given{Instance: id, Attempt: a, Claim: c, At: now.UTC()}
	g.order = append(g.order, x)
	g.set[givenKey{id, a, c}] = true
	if len(g.order) > mostGiven {
		old := g.order[0]
		g.order = g.order[1:]
		delete(g.set, givenKey{old.Instance, old.Attempt, old.Claim})
	}
	return x
}

func (g *given) has(c compute.Command) bool {
	return g.set[givenKey{c.Instance, c.Attempt, c.Claim}]
}
