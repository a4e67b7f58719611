// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

var one = compute.Resources{compute.VCPU: 1}

// some is a catalog with a flavor, an axis that nobody uses, a quota and a group.
func some() *Catalog {
	gpu := capability([]string{"gpu", "a100", "h100"})
	return New(DefaultLimits()).Apply(
		Change{Flavor: &compute.Flavor{Name: "a", Resources: one}}, Change{Capability: &gpu},
		Change{Quota: &compute.Quota{Project: "p", Limits: one}},
		Change{Group: &compute.Group{Project: "p", Name: "web", Policy: compute.Affinity}},
	)
}

// all is what a catalog has.
func all(c *Catalog) string {
	return fmt.Sprint(c.Flavors(), c.Capabilities(), c.Quotas(), c.Groups("p"), c.Groups("q"))
}

// What was changed is found as it is now, and a change that is reverted leaves the catalog as it was.
func TestApplyAndRevert(t *testing.T) {
	two := compute.Resources{compute.VCPU: 2}
	ssd, less := capability([]string{"disk", "ssd"}), capability([]string{"gpu", "a100"})
	c := some()
	was := all(c)
	if was != fmt.Sprint(
		[]compute.Flavor{{Name: "a", Resources: one}}, []compute.Capability{capability([]string{"gpu", "a100", "h100"})},
		[]compute.Quota{{Project: "p", Limits: one}},
		[]compute.Group{{Project: "p", Name: "web", Policy: compute.Affinity}}, []compute.Group{},
	) {
		t.Fatal(was)
	}
	for what, ch := range map[string]Change{
		"another flavor": {Flavor: &compute.Flavor{Name: "b", Resources: one}},
		"flavor":         {Flavor: &compute.Flavor{Name: "a", Resources: two}}, "no flavor": {RemoveFlavor: "a"},
		"another axis": {Capability: &ssd}, "axis": {Capability: &less}, "no axis": {RemoveCapability: "gpu"},
		"another quota": {Quota: &compute.Quota{Project: "q", Limits: one}},
		"quota":         {Quota: &compute.Quota{Project: "p", Limits: two}}, "no quota": {RemoveQuota: "p"},
		"another group":           {Group: &compute.Group{Project: "p", Name: "db", Policy: compute.Affinity}},
		"another project's group": {Group: &compute.Group{Project: "q", Name: "web", Policy: compute.Affinity}},
		"group":                   {Group: &compute.Group{Project: "p", Name: "web", Most: 1}},
		"no group":                {RemoveGroup: compute.GroupKey{Project: "p", Name: "web"}},
	} {
		next := c.Apply(ch)
		if all(next) == was || all(c) != was {
			t.Errorf("%s: %s, and before %s", what, all(next), all(c))
		}
		if back := next.Apply(c.Revert(ch)); all(back) != was {
			t.Errorf("%s is reverted to %s", what, all(back))
		}
	}
	if got := c.Revert(Change{}); !got.Nothing() {
		t.Errorf("nothing is reverted by %+v", got)
	}
	f, isFlavor := c.Flavor("a")
	gpu, isAxis := c.Capability("gpu")
	q, isQuota := c.Quota("p")
	g, isGroup := c.Group(compute.GroupKey{Project: "p", Name: "web"})
	if !isGroup || g.Policy != compute.Affinity {
		t.Errorf("found: %v", g)
	}
	if _, isGroup = c.Group(compute.GroupKey{Project: "q", Name: "web"}); isGroup {
		t.Error("a group of another project is found")
	}
	if !isFlavor || !isAxis || !isQuota || f.Name != "a" || gpu.Axis != "gpu" || q.Project != "p" {
		t.Errorf("found: %v %v %v", f, gpu, q)
	}
	_, isFlavor = c.Flavor("none")
	_, isAxis = c.Capability("none")
	if _, isQuota = c.Quota("none"); isFlavor || isAxis || isQuota {
		t.Error("what is not there is found")
	}
}

// A change copies what it is of, and shares all else: a catalog may have very many groups.
func TestApplyCopiesWhatChanges(t *testing.T) {
	kinds := map[string]func(name string) Change{
		"flavors": func(n string) Change { return Change{Flavor: &compute.Flavor{Name: compute.FlavorName(n)}} },
		"axes":    func(n string) Change { return Change{Capability: &compute.Capability{Axis: compute.AxisName(n)}} },
		"quotas":  func(n string) Change { return Change{Quota: &compute.Quota{Project: compute.Project(n)}} },
		"groups": func(n string) Change {
			return Change{Group: &compute.Group{Project: "p", Name: compute.GroupName(n)}}
		},
	}
	gone := map[string]Change{
		"flavors": {RemoveFlavor: "a"}, "axes": {RemoveCapability: "gpu"}, "quotas": {RemoveQuota: "p"},
		"groups": {RemoveGroup: compute.GroupKey{Project: "p", Name: "web"}},
	}
	allocated := func(c *Catalog, ch Change) float64 { return testing.AllocsPerRun(5, func() { c.Apply(ch) }) }
	for many, put := range kinds {
		var changes []Change
		for n := range 5000 {
			changes = append(changes, put(fmt.Sprint("x", n)))
		}
		full := some().Apply(changes...)
		for of, put := range kinds {
			for _, ch := range []Change{put("new"), gone[of], {}} {
				if with, without := allocated(full, ch), allocated(some(), ch); with != without && of != many {
					t.Errorf("%+v makes %v allocations with many %s, and %v with one", ch, with, many, without)
				}
			}
		}
	}
}

// What is written down is sorted, has each entry once, and is not what the caller goes on with.
func TestWhatIsWrittenIsTidy(t *testing.T) {
	mine := one.Clone()
	c := some()
	f, err := c.AddFlavor(compute.Flavor{
		Name: "f", Resources: mine, Required: []compute.Trait{"B", "A", "B"}, Forbidden: []compute.Trait{"D", "C", "D"},
	})
	if err != nil {
		t.Fatal(err)
	}
	values := []compute.CapabilityValue{
		{Value: "t4", Requires: []compute.Trait{"B", "A", "B"}, Consumes: mine}, {Value: "b2"},
	}
	gpu, err := c.AddCapability(compute.Capability{Axis: "gpu", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.SetQuota(compute.Quota{Project: "q", Limits: mine})
	if err != nil {
		t.Fatal(err)
	}
	mine[compute.VCPU] = 7
	values[1].Value = "other"
	want := Change{Flavor: &compute.Flavor{
		Name: "f", Resources: one, Required: []compute.Trait{"A", "B"}, Forbidden: []compute.Trait{"C", "D"},
	}, Added: 1, Total: 2, Limit: c.limits.Queues}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
	want = Change{Capability: &compute.Capability{Axis: "gpu", Values: []compute.CapabilityValue{
		{Value: "a100"}, {Value: "b2"}, {Value: "h100"},
		{Value: "t4", Requires: []compute.Trait{"A", "B"}, Consumes: one},
	}}, Total: 1, Limit: c.limits.Queues}
	if diff := cmp.Diff(want, gpu); diff != "" {
		t.Error(diff)
	}
	if q.Quota == nil || !q.Quota.Limits.Equal(one) {
		t.Errorf("quota: %+v", q)
	}
	if values[0].Requires[0] != "B" {
		t.Errorf("what the caller gave was changed: %v", values)
	}
}

// Two are the same if all is the same, in whatever order, each by itself.
func TestWhatIsTheSame(t *testing.T) {
	f := compute.Flavor{
		Name: "f", Resources: one, Required: []compute.Trait{"A", "B"}, Forbidden: []compute.Trait{"C", "D"},
		Capabilities: []compute.AxisName{"x", "y"},
	}
	untidy := f
	untidy.Required, untidy.Capabilities = []compute.Trait{"B", "A", "B"}, []compute.AxisName{"y", "x"}
	if !sameFlavor(f, untidy) || !sameFlavor(untidy, f) {
		t.Error("a flavor in another order is another one")
	}
	for what, change := range map[string]func(*compute.Flavor){
		"name":         func(f *compute.Flavor) { f.Name = "g" },
		"resources":    func(f *compute.Flavor) { f.Resources = compute.Resources{compute.VCPU: 2} },
		"required":     func(f *compute.Flavor) { f.Required = nil },
		"forbidden":    func(f *compute.Flavor) { f.Forbidden = nil },
		"capabilities": func(f *compute.Flavor) { f.Capabilities = nil },
	} {
		other := f
		if change(&other); sameFlavor(f, other) {
			t.Errorf("flavors that differ in %s are the same", what)
		}
	}
	v := compute.CapabilityValue{Value: "v", Requires: []compute.Trait{"A", "B"}, Consumes: one}
	if !sameValue(v, compute.CapabilityValue{Value: "v", Requires: []compute.Trait{"B", "A"}, Consumes: one}) {
		t.Error("a value in another order is another one")
	}
	for _, other := range []compute.CapabilityValue{
		{Value: "w", Requires: v.Requires, Consumes: one}, {Value: "v", Consumes: one},
		{Value: "v", Requires: v.Requires, Consumes: compute.Resources{compute.VCPU: 2}},
	} {
		if sameValue(v, other) {
			t.Errorf("%+v is the same as %+v", other, v)
		}
	}
}

// What nobody uses may go, and what is used may not, unless its work is still done.
func TestRemove(t *testing.T) {
	none := func(compute.QueueName) int { return 0 }
	busy := func(compute.QueueName) int { return 2 }
	c := some()
	used := c.Apply(Change{
		Flavor: &compute.Flavor{Name: "a", Resources: one, Capabilities: []compute.AxisName{"gpu"}},
	})
	for _, w := range []Work{none, nil} {
		if ch, err := c.RemoveFlavor("a", w, false); err != nil || ch.RemoveFlavor != "a" || ch.Removed != 1 {
			t.Errorf("a flavor: %+v, %v", ch, err)
		}
	}
	if ch, err := c.RemoveCapability("gpu", nil, none, false); err != nil || ch.RemoveCapability != "gpu" {
		t.Errorf("an axis that no flavor uses: %+v, %v", ch, err)
	}
	if ch, err := used.RemoveCapability("gpu", nil, none, true); compute.KindOf(err) != compute.KindConflict {
		t.Errorf("an axis that one flavor uses: %+v, %v", ch, err)
	}
	values := []compute.AxisValue{"h100"}
	if ch, err := used.RemoveCapability("gpu", values, busy, false); compute.KindOf(err) != compute.KindConflict {
		t.Errorf("a value with work: %+v, %v", ch, err)
	}
	if ch, err := used.RemoveCapability("gpu", values, busy, true); err != nil || ch.Removed != 1 {
		t.Errorf("a value with work that is still done: %+v, %v", ch, err)
	}
	if ch, err := c.SetQuota(compute.Quota{Project: "p"}); err != nil || ch.RemoveQuota != "p" || ch.Quota != nil {
		t.Errorf("a quota: %+v, %v", ch, err)
	}
}

// A refusal names five of the queues in which instances wait, and says that there are more.
func TestStrandedAreNamed(t *testing.T) {
	for values, more := range map[int]bool{4: false, 5: true} { // and the queue without any
		x := compute.Capability{Axis: "x"}
		for i := range values {
			x.Values = append(x.Values, compute.CapabilityValue{Value: compute.AxisValue(fmt.Sprint("v", i))})
		}
		c := New(DefaultLimits()).Apply(Change{Capability: &x},
			Change{Flavor: &compute.Flavor{Name: "a", Resources: one, Capabilities: []compute.AxisName{"x"}}})
		_, err := c.RemoveFlavor("a", func(compute.QueueName) int { return 1 }, false) // in each of its tiers
		if err == nil || strings.Contains(err.Error(), "…") != more || strings.Count(err.Error(), " 3") != 5 ||
			!strings.Contains(err.Error(), fmt.Sprint(3*(values+1), " queued")) {
			t.Errorf("of %d: %v", values+1, err)
		}
	}
}

// A value is refused if one of several flavors cannot have it, whichever it is.
func TestAValueHasToFitEveryFlavor(t *testing.T) {
	c, axes := some(), []compute.AxisName{"gpu"}
	c = c.Apply(Change{Flavor: &compute.Flavor{Name: "a", Resources: one, Capabilities: axes}},
		Change{Flavor: &compute.Flavor{Name: "b", Resources: one, Capabilities: axes, Forbidden: []compute.Trait{"T"}}})
	if ch, err := c.AddCapability(capability([]string{"gpu", "l4:T"})); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("%+v, %v", ch, err)
	}
}
