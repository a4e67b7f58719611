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

// A project has MaxGroups groups, whatever others have; those that are there may be changed still.
func TestGroupsAreBounded(t *testing.T) {
	group := func(p compute.Project, n int, policy compute.GroupPolicy) compute.Group {
		return compute.Group{Project: p, Name: compute.GroupName(fmt.Sprint("g", n)), Policy: policy}
	}
	var changes []Change
	for n := range compute.MaxGroups - 1 {
		g := group("p", n, compute.Affinity)
		changes = append(changes, Change{Group: &g})
	}
	c := New(DefaultLimits()).Apply(changes...)
	last, err := c.SetGroup(group("p", compute.MaxGroups-1, compute.Affinity), true)
	if err != nil {
		t.Fatal(err)
	}
	c = c.Apply(last)
	_, err = c.SetGroup(group("p", compute.MaxGroups, compute.Affinity), false)
	const want = `group "g1000": project p has 1000 groups, the most that it may have; delete one that has no members`
	if compute.KindOf(err) != compute.KindConflict || err.Error() != want {
		t.Errorf("one more is refused as %v, want %s", err, want)
	}
	if ch, err := c.SetGroup(group("p", 0, compute.SoftAffinity), false); err != nil || ch.Group == nil {
		t.Errorf("one that is there is not changed: %v", err)
	}
	if ch, err := c.SetGroup(group("p", 0, compute.Affinity), true); err != nil || !ch.Nothing() {
		t.Errorf("one that is there as it is: %v", err)
	}
	if _, err := c.SetGroup(group("q", 0, compute.Affinity), true); err != nil {
		t.Errorf("of another project: %v", err)
	}
}

// A rule that only a later version knows is refused, and found if it is there.
func TestUnknownPolicy(t *testing.T) {
	g := compute.Group{Project: "p", Name: "web", Policy: compute.SoftAffinity + 1}
	if _, err := New(DefaultLimits()).SetGroup(g, false); compute.KindOf(err) != compute.KindInvalid {
		t.Error(err)
	}
	if problems := New(DefaultLimits()).Apply(Change{Group: &g}).Problems(); len(problems) != 1 {
		t.Errorf("%v", problems)
	}
}

// A service that counts no members removes groups.
func TestGroupsWithoutMembers(t *testing.T) {
	key := compute.GroupKey{Project: "p", Name: "web"}
	if ch, err := some().RemoveGroup(key, nil); err != nil || ch.RemoveGroup != key {
		t.Errorf("%+v, %v", ch, err)
	}
}
