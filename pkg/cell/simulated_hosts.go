// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"fmt"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

// SimulatedHost is one simulated host of this process.
type SimulatedHost struct {
	ID        compute.HostID
	Inventory compute.Inventory
	Driver    fake.Options
}

const ssd compute.Trait = "CUSTOM_SSD"

// PlainHost is a simulated host without devices: 64 processors, 256 GiB of
// memory, 2 TB of disk, of which it keeps a little for itself.
func PlainHost(n int, traits ...compute.Trait) SimulatedHost {
	return SimulatedHost{
		ID: compute.HostID(fmt.Sprintf("host-%02d", n)),
		Inventory: compute.Inventory{
			Totals:   compute.Resources{compute.VCPU: 64, compute.MemoryMB: 256 << 10, compute.DiskGB: 2000},
			Reserved: compute.Resources{compute.MemoryMB: 4 << 10},
			Traits:   traits,
		},
	}
}

// gpuHost is a simulated host with four GPUs of one kind.
func gpuHost(n int, class compute.ResourceClass) SimulatedHost {
	h := PlainHost(n, ssd)
	h.Inventory.Totals[class] = 4
	return h
}

// SimulatedHosts are n simulated hosts: every second of the plain ones has an SSD,
// three in ten have GPUs, half of those of each kind.
func SimulatedHosts(n int) []SimulatedHost {
	var hosts []SimulatedHost
	gpus := n * 3 / 10
	for i := 1; i <= n; i++ {
		switch {
		case i > n-gpus/2:
			hosts = append(hosts, gpuHost(i, "CUSTOM_GPU_H100"))
		case i > n-gpus:
			hosts = append(hosts, gpuHost(i, "CUSTOM_GPU_A100"))
		case i%2 == 0:
			hosts = append(hosts, PlainHost(i, ssd))
		default:
			hosts = append(hosts, PlainHost(i))
		}
	}
	return hosts
}
