// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Cloned is a second agent of a host's name that was there for a while.
type Cloned struct {
	Of       compute.HostID
	Host     compute.HostID // of its own machines
	From, To time.Time
	Left     []hypervisor.Machine // what it had when it went
}

// AddCloned notes that a clone is gone.
func (r *Recording) AddCloned(c Cloned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Clones = append(r.Clones, c)
}

// mayBeHost says whether a clone began while its host could not be heard, or could not hear: then it is
// the host as far as anybody can know, and what it launches is lost with it.
func (r *Recording) mayBeHost(c Cloned) bool {
	return r.Schedule.Hides(c.Of, c.From.Sub(r.Start), c.To.Sub(r.Start))
}

// succeeded says whether a host had such a clone.
func (r *Recording) succeeded(h compute.HostID) bool {
	return slices.ContainsFunc(r.Clones, func(c Cloned) bool { return c.Of == h && r.mayBeHost(c) })
}

// checkOrphans: a clone launches nothing: once it has ended, nobody could reach the machine.
func checkOrphans(r *Recording) (wrong []Violation) {
	for _, c := range r.Clones {
		if r.mayBeHost(c) {
			continue
		}
		for _, m := range c.Left {
			if m.Launched {
				wrong = append(wrong, broken("kept", m.Instance, c.To,
					"%s launched attempt %d of %s, and it is left there: it was a clone of %s",
					c.Host, m.Attempt, m.Instance, c.Of)...)
			}
		}
	}
	return wrong
}
