// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/berth-project/berth/pkg/compute"

// Counts is how many hosts are what to a machine, by standing.
type Counts [standings]uint32

// Hosts are the counts as lists show them, which have no place of their own for hosts that lack a key or have two agents:
// these offer nothing, as those in quarantine.
func (c Counts) Hosts() compute.HostCounts {
	return compute.HostCounts{
		NeverFits: c[TooSmall] + c[LacksTrait] + c[OtherHost], Silent: c[Silent], Disabled: c[Disabled],
		Draining: c[Draining], Quarantined: c[Quarantined] + c[LacksKey] + c[Twin], Full: c[Full], Avoided: c[Avoided],
		Eligible: c[Fits] + c[FailedThere],
	}
}
