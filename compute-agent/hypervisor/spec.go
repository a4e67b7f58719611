// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"crypto/sha256"
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
)

// Check refuses what no driver could make, as the request's fault.
func (s Spec) Check() error {
	if err := s.Instance.Check(); err != nil {
		return Reject("%v", err)
	}
	if s.Resources[compute.VCPU] < 1 || s.Resources[compute.MemoryMB] < 1 {
		return Reject(
			"resources %q: a machine needs VCPU and MEMORY_MB of at least 1: add them to its flavor",
			s.Resources,
		)
	}
	for _, a := range s.Devices {
		if err := a.Check(); err != nil {
			return Reject("%v", err)
		}
	}
	return nil
}

// Machine is what a driver keeps of it.
func (s Spec) Machine() Machine {
	return Machine{
		Instance: s.Instance, Project: s.Project, Attempt: s.Attempt, Claim: s.Claim, Fence: s.Fence,
		Resources: s.Resources.Clone(), Place: s.Place.Clone(), Placeholder: s.Placeholder,
	}
}

// MAC is the address of an instance's first network card, wherever it is: locally
// administered, the rest from its id.
func MAC(id compute.InstanceID) string {
	h := sha256.Sum256([]byte(id))
	return fmt.Sprintf("52:%02x:%02x:%02x:%02x:%02x", h[0], h[1], h[2], h[3], h[4])
}
