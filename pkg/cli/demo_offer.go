// SPDX-License-Identifier: Apache-2.0

package cli

import "github.com/berth-project/berth/pkg/compute"

// What the demo's cloud is made of.
const (
	demoProject   compute.Project = "demo"
	bigProject    compute.Project = "big"
	demoHostCount                 = 20
)

func demoCapabilities() []compute.Capability {
	return []compute.Capability{
		{Axis: "gpu", Values: []compute.CapabilityValue{
			{Value: "a100", Consumes: compute.Resources{"CUSTOM_GPU_A100": 1}},
			{Value: "h100", Consumes: compute.Resources{"CUSTOM_GPU_H100": 1}},
		}},
		{Axis: "disk", Values: []compute.CapabilityValue{{Value: "ssd", Requires: []compute.Trait{"CUSTOM_SSD"}}}},
	}
}

func demoFlavors() []compute.Flavor {
	size := func(name compute.FlavorName, vcpus, memory, disk int64, axes ...compute.AxisName) compute.Flavor {
		return compute.Flavor{Name: name, Capabilities: axes, Resources: compute.Resources{
			compute.VCPU: vcpus, compute.MemoryMB: memory << 10, compute.DiskGB: disk,
		}}
	}
	return []compute.Flavor{
		size("m1.tiny", 1, 1, 10),
		size("m1.small", 2, 4, 20, "disk", "gpu"),
		size("m1.large", 4, 8, 40, "disk", "gpu"),
		size("m1.whale", 512, 4096, 40),
	}
}

func demoQuotas() []compute.Quota {
	return []compute.Quota{
		{
			Project: demoProject,
			Limits:  compute.Resources{compute.Instances: int64(len(demoBoots())), compute.VCPU: 250},
		},
	}
}

// demoBoots are a hundred boots across the queues.
func demoBoots() []compute.Boot {
	var boots []compute.Boot
	for _, group := range []struct {
		n      int
		flavor compute.FlavorName
		with   compute.Choices
	}{
		{40, "m1.tiny", nil},
		{25, "m1.small", nil},
		{10, "m1.small", compute.Choices{"disk": "ssd"}},
		{10, "m1.small", compute.Choices{"gpu": "a100"}},
		{9, "m1.large", nil},
		{6, "m1.large", compute.Choices{"disk": "ssd", "gpu": "h100"}},
	} {
		for range group.n {
			boots = append(boots, compute.Boot{Flavor: group.flavor, With: group.with})
		}
	}
	return boots
}
