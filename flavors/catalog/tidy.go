// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// tidyFlavor is a copy in the one form that is written down: lists sorted, each
// entry once.
func tidyFlavor(f compute.Flavor) compute.Flavor {
	f.Resources = f.Resources.Clone()
	f.Required, f.Forbidden, f.Capabilities = set(f.Required), set(f.Forbidden), set(f.Capabilities)
	return f
}

// tidyCapability is a copy in the one form that is written down. Values given
// twice stay twice: checkCapability refuses them.
func tidyCapability(c compute.Capability) compute.Capability {
	c.Values = slices.Clone(c.Values)
	for i, v := range c.Values {
		c.Values[i] = compute.CapabilityValue{Value: v.Value, Requires: set(v.Requires), Consumes: v.Consumes.Clone()}
	}
	slices.SortStableFunc(c.Values, func(a, b compute.CapabilityValue) int { return cmp.Compare(a.Value, b.Value) })
	return c
}

func sameFlavor(a, b compute.Flavor) bool {
	a, b = tidyFlavor(a), tidyFlavor(b)
	return a.Name == b.Name && a.Resources.Equal(b.Resources) && slices.Equal(a.Required, b.Required) &&
		slices.Equal(a.Forbidden, b.Forbidden) && slices.Equal(a.Capabilities, b.Capabilities)
}

func sameValue(a, b compute.CapabilityValue) bool {
	return a.Value == b.Value && slices.Equal(set(a.Requires), set(b.Requires)) && a.Consumes.Equal(b.Consumes)
}

func set[T cmp.Ordered](in []T) []T {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}
