// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/berth-project/berth/pkg/compute"
)

// DeviceRule says what a host's devices count as: those of one model, or those at
// some addresses.
type DeviceRule struct {
	Class     compute.ResourceClass
	ID        string // vendor and device, as lspci -n shows them: "10de:2230"
	Addresses []compute.PCIAddress
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)

// Check refuses what can match nothing.
func (r DeviceRule) Check() error {
	if err := r.Class.Check(); err != nil {
		return err
	}
	switch {
	case r.Class == compute.VCPU || r.Class == compute.MemoryMB || r.Class == compute.DiskGB:
		return compute.Invalid("devices", string(r.Class), "give a class of your own, such as CUSTOM_GPU_A100")
	case (r.ID == "") == (len(r.Addresses) == 0):
		return compute.Invalid(
			"devices", fmt.Sprintf("%s: id %q, addresses %v", r.Class, r.ID, r.Addresses),
			"give one of them: id, as in 10de:2230, or addresses, as in 0000:3b:00.1",
		)
	case r.ID != "" && !idPattern.MatchString(r.ID):
		return compute.Invalid(
			"devices", r.ID, "give vendor and device as lspci -n shows them, in lower case: 10de:2230",
		)
	}
	for _, a := range r.Addresses {
		if err := a.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (r DeviceRule) matches(d compute.PCIDevice) bool {
	if r.ID == "" {
		return slices.Contains(r.Addresses, d.Address)
	}
	vendor, _ := strconv.ParseUint(r.ID[:4], 16, 16)
	model, _ := strconv.ParseUint(r.ID[5:], 16, 16)
	return d.Vendor == uint16(vendor) && d.Device == uint16(model)
}
