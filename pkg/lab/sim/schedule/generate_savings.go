// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"time"

	"github.com/berth-project/berth/queues/save"
)

// savings has hosts save room for large work in half of the worlds.
func (g *generator) savings() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 46))
	g.s.World.Saves = g.chance(0.5)
}

// SavesFor is how long a host saves room at most, in a world in which hosts do.
const SavesFor = 20 * time.Second

// Savings are the rules of the queue managers of a world. In the others no host saves room, so that the judge may say
// that work for which there is some is taken at once.
func (w World) Savings() *save.Rules {
	r := save.DefaultRules()
	if r.After = 0; !w.Saves {
		return &r
	}
	r.After, r.For, r.Share = 3*time.Second, SavesFor, 2
	return &r
}
