// SPDX-License-Identifier: Apache-2.0

package advise

import "github.com/berth-project/berth/pkg/compute"

// AllEligible is how many hosts could take the work of each queue now.
func (a *Advisor) AllEligible() map[compute.QueueName]int {
	out := make(map[compute.QueueName]int, len(a.queues))
	for i := range a.queues {
		out[a.queues[i].name] = int(a.counts[i][eligible])
	}
	return out
}

// Missing is how many hosts are silent that should not be: when last heard of they had machines, or were to take work.
// Which fell silent is known since the last call of Next.
func (a *Advisor) Missing() (n int) {
	for _, h := range a.hosts {
		off := h.beacon.State == compute.HostDisabled || h.beacon.State == compute.HostDraining
		if h.silent && (!off || h.beacon.Machines > 0) {
			n++
		}
	}
	return n
}

// States counts the hosts in each state. Which hosts fell silent is known since the
// last call of Next.
func (a *Advisor) States() map[compute.HostState]int {
	out := map[compute.HostState]int{}
	for _, h := range a.hosts {
		if h.silent {
			out[compute.HostSilent]++
		} else {
			out[h.beacon.State]++
		}
	}
	return out
}
