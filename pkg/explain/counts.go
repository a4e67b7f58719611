// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/berth-project/berth/pkg/compute"

// Counts is how many hosts are what to a machine, by standing.
type Counts [standings]uint32

// Hosts are the counts as lists show them. A host that lacks the key counts as one that lacks a trait, and one with two
// agents as one in quarantine, for lists have no place of their own for them; one that the group's rule keeps it from
// counts as avoided.
func (c Counts) Hosts() compute.HostCounts {
	return compute.HostCounts{
		NeverFits: c[TooSmall] + c[LacksTrait] + c[OtherHost] + c[LacksKey], Silent: c[Silent], Disabled: c[Disabled],
		Draining: c[Draining], Quarantined: c[Quarantined] + c[Twin], Full: c[Full], Avoided: c[Avoided] + c[KeptOut],
		Eligible: c[Fits] + c[FailedThere] + c[Mistrusts],
	}
}
