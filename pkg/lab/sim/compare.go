// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// differences are where the log and the hosts differ: each machine belongs to an active instance
// and does what its record says, and each active instance has its machine. A host
// that was hindered needs time to hear of it, and to say it.
func (w *play) differences(now map[compute.InstanceID]compute.Instance) (left []string) {
	found := map[compute.InstanceID]bool{}
	for _, h := range w.World.Hosts {
		for _, m := range w.hosts[h.ID].Machines() {
			if !m.Launched {
				continue // prepared for an attempt that is being given back
			}
			i := now[m.Instance]
			found[i.ID] = found[i.ID] || same(i, h.ID, m)
			switch {
			case !same(i, h.ID, m):
				left = append(
					left,
					fmt.Sprintf(
						"%s has a machine of attempt %d claim %s on %s, and its record is %s attempt %d on %q",
						i.Boot.Name,
						m.Attempt,
						m.Claim,
						h.ID,
						i.State,
						i.Attempt,
						i.Host,
					),
				)
			case i.Power != m.Power && !w.rec.MayShowOldPower(i.Project):
				left = append(
					left,
					fmt.Sprintf("%s is %s on %s, and its record says %s", i.Boot.Name, m.Power, h.ID, i.Power),
				)
			}
		}
	}
	for _, i := range w.byID() {
		if i.State == compute.StateActive && !found[i.ID] {
			left = append(left, fmt.Sprintf("%s is active on %s, which has no such machine", i.Boot.Name, i.Host))
		}
	}
	return left
}

// same says whether a machine is the one that the record is about.
func same(i compute.Instance, h compute.HostID, m hypervisor.Machine) bool {
	return i.State == compute.StateActive && i.Host == h && i.Attempt == m.Attempt && i.Claim == m.Claim
}
