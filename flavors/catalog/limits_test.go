// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// Everything about an instance has to fit into one record, so every list has a
// limit.
func TestListsAreBounded(t *testing.T) {
	one := compute.Resources{compute.VCPU: 1}
	many := compute.Resources{}
	for i := range compute.MaxClasses + 1 {
		many[compute.ResourceClass(fmt.Sprintf("CUSTOM_C%d", i))] = 1
	}
	var traits []compute.Trait
	for i := range compute.MaxTraits + 1 {
		traits = append(traits, compute.Trait(fmt.Sprintf("T%d", i)))
	}
	half := traits[:compute.MaxTraits/2+1]
	c := New(DefaultLimits())
	for _, f := range []compute.Flavor{
		{Name: "a", Resources: many}, {Name: "b", Resources: one, Required: traits},
		{Name: "c", Resources: one, Forbidden: traits},
	} {
		if _, err := c.AddFlavor(f); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	c = c.Apply(Change{
		Capability: &compute.Capability{Axis: "x", Values: []compute.CapabilityValue{{Value: "v", Requires: half}}},
	})
	axes := []compute.AxisName{"x"}
	f := compute.Flavor{Name: "d", Resources: one, Required: half, Capabilities: axes}
	if _, err := c.AddFlavor(f); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("together too many traits: %v", err)
	}
	f = compute.Flavor{Name: "e", Resources: one, Required: half[:1], Capabilities: axes}
	if _, err := c.AddFlavor(f); err != nil {
		t.Error(err)
	}
}
