// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Flavor is a size of machine.
type Flavor struct {
	Name         compute.FlavorName `json:"name" example:"m1.small"`
	Resources    compute.Resources  `json:"resources" doc:"What one machine uses of its host: VCPU, MEMORY_MB (MiB), DISK_GB (GiB) or CUSTOM_…; all positive."`
	Required     []compute.Trait    `json:"required,omitempty" nullable:"false" doc:"Traits the host must have."`
	Forbidden    []compute.Trait    `json:"forbidden,omitempty" nullable:"false" doc:"Traits the host must not have."`
	Capabilities []compute.AxisName `json:"capabilities,omitempty" nullable:"false" doc:"The axes it may be combined with."`
}

// Compute is the flavor in the words of package compute.
func (f Flavor) Compute() compute.Flavor {
	return compute.Flavor{
		Name: f.Name, Resources: f.Resources, Required: sorted(f.Required),
		Forbidden: sorted(f.Forbidden), Capabilities: sorted(f.Capabilities),
	}
}

// FromFlavor shows a flavor.
func FromFlavor(f compute.Flavor) Flavor {
	return Flavor{
		Name: f.Name, Resources: f.Resources, Required: f.Required,
		Forbidden: f.Forbidden, Capabilities: f.Capabilities,
	}
}

// FlavorView is a flavor with what became of its queues.
type FlavorView struct {
	Flavor
	Queues QueueCounts `json:"queues"`
}

// QueueCounts says how far the queues of a flavor are.
type QueueCounts struct {
	Wanted int `json:"wanted" doc:"One for each combination of choices."`
	Open   int `json:"open" doc:"Listed and taking requests."`
	Closed int `json:"closed" doc:"Draining."`
	Failed int `json:"failed" doc:"Cannot be made or removed."`
	Tiers  int `json:"tiers,omitempty" doc:"Listed beside them, for work of low and high priority: each was made when it was first needed."`
}

// Flavors is a list.
type Flavors struct {
	Items []FlavorView `json:"items" nullable:"false"`
	Next  string       `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}

// Capability is an axis of choices.
type Capability struct {
	Axis   compute.AxisName  `json:"axis" example:"gpu"`
	Values []CapabilityValue `json:"values" nullable:"false" minItems:"1"`
}

// CapabilityValue is one choice on an axis.
type CapabilityValue struct {
	Value    compute.AxisValue `json:"value" example:"a100"`
	Requires []compute.Trait   `json:"requires,omitempty" nullable:"false" doc:"Traits the host must have."`
	Consumes compute.Resources `json:"consumes,omitempty" doc:"What it uses in addition to the flavor."`
}

// Compute is the capability in the words of package compute.
func (c Capability) Compute() compute.Capability {
	out := compute.Capability{Axis: c.Axis}
	for _, v := range c.Values {
		out.Values = append(out.Values, compute.CapabilityValue{
			Value: v.Value, Requires: sorted(v.Requires), Consumes: v.Consumes,
		})
	}
	slices.SortFunc(out.Values, func(a, b compute.CapabilityValue) int {
		return compareStrings(a.Value, b.Value)
	})
	return out
}

// FromCapability shows a capability.
func FromCapability(c compute.Capability) Capability {
	out := Capability{Axis: c.Axis, Values: []CapabilityValue{}}
	for _, v := range c.Values {
		out.Values = append(out.Values, CapabilityValue{Value: v.Value, Requires: v.Requires, Consumes: v.Consumes})
	}
	return out
}

// Change says what a change of the catalog does, or would do, to the queues.
type Change struct {
	DryRun  bool `json:"dry_run"`
	Added   int  `json:"added" doc:"Queues it makes."`
	Removed int  `json:"removed" doc:"Queues it closes."`
	Total   int  `json:"total" doc:"Queues there are then."`
	Limit   int  `json:"limit,omitempty" doc:"Most queues there may be; 0: not known."`
}

func sorted[T ~string](in []T) []T {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

func compareStrings[T ~string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
