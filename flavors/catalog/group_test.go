// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// TestSetSpread: a group spreads over a capability that there is; one whose capability was removed since can be changed in
// all else.
func TestSetSpread(t *testing.T) {
	c := New(DefaultLimits())
	axis := compute.Capability{Axis: "zone", Values: []compute.CapabilityValue{{Value: "a"}, {Value: "b"}}}
	set := func(g compute.Group) error {
		ch, err := c.SetGroup(g, false)
		if err == nil {
			c = c.Apply(ch)
		}
		return err
	}
	g := compute.Group{Project: "p", Name: "web", Policy: compute.SpreadOnly, Spread: "zone", Skew: 1}
	if err := set(g); err == nil || !strings.Contains(err.Error(), `capability "zone"`) ||
		!strings.Contains(err.Error(), "berth capability list") {
		t.Errorf("without the capability: %v", err)
	}
	ch, err := c.AddCapability(axis)
	if err != nil {
		t.Fatal(err)
	}
	c = c.Apply(ch)
	if err := set(g); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Group(g.Key()); got != g {
		t.Errorf("it is %+v", got)
	}
	if ch, err := c.SetGroup(g, true); err != nil || !ch.Nothing() {
		t.Errorf("the same again: %+v, %v", ch, err)
	}
	other := g
	other.Skew = 2
	if _, err := c.SetGroup(other, true); compute.KindOf(err) != compute.KindConflict {
		t.Errorf("another skew under this name: %v", err)
	}
	ch, err = c.RemoveCapability("zone", nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	c = c.Apply(ch)
	if err := set(other); err != nil {
		t.Errorf("its capability is gone: %v", err)
	}
	other.Spread = "rack"
	if err := set(other); err == nil {
		t.Error("it spreads over what is not there")
	}
}
