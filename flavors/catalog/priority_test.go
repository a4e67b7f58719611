// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// Nothing new may look like a class in the name of a queue, and what was there before keeps nobody from adding something else.
func TestNamesOfTiersAreTaken(t *testing.T) {
	flavor := func(name compute.FlavorName, axes ...compute.AxisName) compute.Flavor {
		return compute.Flavor{Name: name, Resources: one, Capabilities: axes}
	}
	axis := compute.Capability{Axis: "priority", Values: []compute.CapabilityValue{{Value: "high"}}}
	a, tier := flavor("a"), flavor("a.priority-high")
	c := New(DefaultLimits()).Apply(Change{Flavor: &a})
	refused := func(what string, err error, says ...string) {
		t.Helper()
		for _, s := range says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	_, err := c.AddCapability(axis)
	refused("an axis", err, `capability "priority"`, "boot with --priority")
	_, err = c.AddFlavor(tier)
	refused("a flavor", err, `"a.priority-high"`, "work of a with priority high", "another name")
	_, err = c.AddFlavor(flavor("a_priority-low"))
	refused("a name that Kafka takes for one", err, "priority low")
	_, err = New(DefaultLimits()).Apply(Change{Flavor: &tier}).AddFlavor(a)
	refused("a flavor of whose queue another has the tier's name", err, `"a.priority-high"`)

	before := c.Apply(Change{Flavor: &tier}, Change{Capability: &axis})
	if _, err := before.AddFlavor(flavor("b")); err != nil {
		t.Errorf("another flavor: %v", err)
	}
	_, err = before.AddFlavor(flavor("b", "priority"))
	refused("a flavor of such an axis", err, `capability "priority"`)
	if _, err := c.AddFlavor(flavor("b.priority-high")); err != nil {
		t.Errorf("the name of a tier that there is not: %v", err)
	}
}

// What waits in tiers of a flavor is stranded with it.
func TestTiersAreStranded(t *testing.T) {
	a := compute.Flavor{Name: "a", Resources: one}
	c := New(DefaultLimits()).Apply(Change{Flavor: &a})
	work := func(q compute.QueueName) int {
		if q == "a.priority-low" {
			return 2
		}
		return 0
	}
	if _, err := c.RemoveFlavor("a", work, false); err == nil || !strings.Contains(err.Error(), "2 queued") {
		t.Error(err)
	}
}

func TestQuotaOfClasses(t *testing.T) {
	c := New(DefaultLimits())
	set := func(q compute.Quota) Change {
		t.Helper()
		ch, err := c.SetQuota(q)
		if err != nil {
			t.Fatal(err)
		}
		c = c.Apply(ch)
		return ch
	}
	limits := compute.ClassLimits{compute.PriorityHigh: {compute.VCPU: 2}, compute.PriorityLow: {}}
	set(compute.Quota{Project: "p", Classes: limits})
	if q, ok := c.Quota("p"); !ok || q.Classes[compute.PriorityHigh][compute.VCPU] != 2 || len(q.Classes) != 1 {
		t.Errorf("%+v", q)
	}
	if ch := set(compute.Quota{Project: "p", Classes: limits}); ch.Quota != nil {
		t.Errorf("the same again is %+v", ch)
	}
	if ch := set(compute.Quota{Project: "p", Classes: compute.ClassLimits{compute.PriorityHigh: {}}}); ch.RemoveQuota != "p" {
		t.Errorf("none is %+v", ch)
	}
	_, err := c.SetQuota(compute.Quota{Project: "p", Classes: compute.ClassLimits{compute.PriorityLow: {compute.VCPU: -1}}})
	if err == nil || !strings.Contains(err.Error(), "priority low") {
		t.Error(err)
	}
}
