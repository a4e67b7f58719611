// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sealed"
)

// sealed counts an instance whose user data is sealed and may be wanted again.
func (t Tally) sealed(i compute.Instance) {
	if key, ok := sealed.KeyOf(i.Boot.Sealed); ok && !i.State.Ended() {
		t.Sealed[key]++
	}
}

// compareKeys holds the keys that instances need against those that hosts have.
func (c *comparison) compareKeys(needed map[compute.KeyID]int) {
	for _, key := range slices.Sorted(maps.Keys(needed)) {
		if slices.ContainsFunc(c.Beacons, func(b compute.Beacon) bool { return slices.Contains(b.Opens, key) }) {
			continue
		}
		c.find(Difference{
			Level: Warn, About: "user data under key " + string(key), Says: "no host opens it",
			Want: fmt.Sprintf("a host with the key, for %d instances", needed[key]),
			Why:  "what waits cannot be built, and what runs cannot be built again",
			Fix:  "put the key into the file of user_data.keys of the agents; if it is lost, boot these anew",
		})
	}
}
