// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"regexp"
	"slices"
)

// Foreign is a machine on a host that Berth did not start. Nobody but the host
// looks at them one by one; a beacon carries their sum.
type Foreign struct {
	Name string    // as its hypervisor calls it; may be empty, may repeat
	PID  int       // its process, 0 where there is none
	Uses Resources // what it may use at most, as far as the driver can tell

	Devices []PCIAddress // that it was given
}

// PCIAddress is where a device sits: "0000:3b:00.1" (domain, bus, device,
// function, in lower case).
type PCIAddress string

var pciPattern = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$`)

// Check refuses what is not a full PCI address.
func (a PCIAddress) Check() error {
	if pciPattern.MatchString(string(a)) {
		return nil
	}
	return Invalid("PCI address", string(a), "give domain, bus, device and function in lower case, as in 0000:3b:00.1")
}

// PCIDevice is one function of a device on a host.
type PCIDevice struct {
	Address PCIAddress
	Vendor  uint16     // 0x10de
	Device  uint16     // 0x2230
	Class   uint32     // 0x030200: base class, subclass, interface
	Parent  PCIAddress // of a virtual function its physical function; empty otherwise
	Group   string     // its IOMMU group, which goes to one machine as a whole; empty: there is no IOMMU
	Driver  string     // the host's driver that holds it; empty: none does
	Node    int        // the NUMA node it is near; -1: not known
	InUse   bool       // by the host or by a machine that Berth did not start
	Barred  bool       // no machine may have it as things are, though nobody uses it
}

// Bridge says whether it leads to other devices: that its host has it keeps those
// from nobody.
func (d PCIDevice) Bridge() bool { return d.Class>>16 == 0x06 }

// Ready says whether the host has let go of it: vfio-pci holds devices for machines.
func (d PCIDevice) Ready() bool { return d.Driver == "vfio-pci" }

// NUMANode is a part of a host whose processors and memory are near each other.
type NUMANode struct {
	ID       int
	CPUs     []int // sorted
	MemoryMB int64
}

// Place is where on its host a machine is, beside how much it takes of it.
type Place struct {
	Devices []PCIAddress // its own, whole; sorted
	Nodes   []int        // the NUMA nodes whose processors and memory it uses; empty: any
}

// Clone is a copy that can be changed.
func (p Place) Clone() Place { return Place{slices.Clone(p.Devices), slices.Clone(p.Nodes)} }
