// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// Whatever came to be in the log without a check is told of, each by itself.
func TestProblems(t *testing.T) {
	none, clash := compute.Capability{Axis: "none"}, compute.Flavor{Name: "a.b", Resources: one}
	for want, changes := range map[string][]Change{
		`"none" is not valid`: {{Capability: &none}},
		`"Q" is not valid`:    {{Quota: &compute.Quota{Project: "Q"}}},
		"uses no resources":   {{Flavor: &compute.Flavor{Name: "f"}}},
		"would make 3 queues": {{Flavor: &compute.Flavor{Name: "c", Resources: one}}, {Flavor: &clash}},
		"only in dots and under": {
			{RemoveFlavor: "a"}, {Flavor: &clash}, {Flavor: &compute.Flavor{Name: "a_b", Resources: one}},
		},
	} {
		c := some()
		c.limits.Queues = 2
		if p := c.Problems(); len(p) != 0 {
			t.Fatalf("problems: %v", p)
		}
		p := c.Apply(changes...).Problems()
		if len(p) != 1 || !strings.Contains(p[0].Error(), want) {
			t.Errorf("problems: %v, want one with %q", p, want)
		}
	}
	c := some().Apply(Change{Flavor: &clash}, Change{Flavor: &compute.Flavor{Name: "a_b", Resources: one}},
		Change{Capability: &none})
	if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), `"none"`) {
		t.Errorf("names are told of while other things are wrong: %v", p)
	}
}

// All of a list is checked, not only its first entry.
func TestListsAreCheckedToTheirEnd(t *testing.T) {
	if err := checkCapability(capability([]string{"x", "v:GOOD:bad"})); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("the second trait of a value: %v", err)
	}
	err := checkQuota(compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: 1, "bad": 1}})
	if compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("the second class of a quota: %v", err)
	}
}

// Just as much as there may be is taken, and one more is not.
func TestBoundsAreExact(t *testing.T) {
	traits := make([]compute.Trait, compute.MaxTraits+1)
	for i := range traits {
		traits[i] = compute.Trait(fmt.Sprintf("T%d", i))
	}
	c, axes := New(DefaultLimits()), make([]compute.AxisName, compute.MaxChoices+1)
	for i := range axes {
		axes[i] = compute.AxisName(fmt.Sprintf("x%d", i))
		c = c.Apply(Change{Capability: &compute.Capability{
			Axis: axes[i], Values: []compute.CapabilityValue{{Value: "v"}},
		}})
	}
	amount := func(n int64) error {
		return checkQuota(compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: n}})
	}
	flavor := func(traits []compute.Trait, axes []compute.AxisName) error {
		return c.checkFlavor(compute.Flavor{Name: "f", Resources: one, Required: traits, Capabilities: axes})
	}
	long := func(n int) error {
		c := New(Limits{Queues: 1, QueueName: 10})
		_, err := c.AddFlavor(compute.Flavor{Name: compute.FlavorName(strings.Repeat("a", n)), Resources: one})
		return err
	}
	for what, is := range map[string]struct{ most, more error }{
		"an amount":       {amount(compute.MaxAmount), amount(compute.MaxAmount + 1)},
		"none at all":     {amount(0), amount(-1)},
		"traits":          {flavor(traits[1:], nil), flavor(traits, nil)},
		"traits and axes": {flavor(traits[1:], axes[:1]), flavor(traits, axes[:1])},
		"axes":            {flavor(nil, axes[1:]), flavor(nil, axes)},
		"bytes of a name": {long(10), long(11)},
	} {
		if is.most != nil || compute.KindOf(is.more) != compute.KindInvalid {
			t.Errorf("%s: %v; one more: %v", what, is.most, is.more)
		}
	}
}

// A name that is taken is refused to the flavor that comes last, not to the one whose name comes last.
func TestWhoComesLastIsRefused(t *testing.T) {
	c := New(DefaultLimits())
	for _, n := range []compute.FlavorName{"a", "b_c", "d"} {
		c = c.Apply(Change{Flavor: &compute.Flavor{Name: n, Resources: one}})
	}
	_, err := c.AddFlavor(compute.Flavor{Name: "b.c", Resources: one})
	var e *compute.Error
	if !errors.As(err, &e) || e.Value != "b.c" || !strings.Contains(e.Message, "flavor b_c has queue b_c") {
		t.Errorf("%v", err)
	}
}

// What is not offered is refused with the reason code for it.
func TestResolveGivesReasons(t *testing.T) {
	c := some()
	reason := func(n compute.FlavorName, choices compute.Choices) compute.Reason {
		var e *compute.Error
		if _, err := c.Resolve(n, choices); !errors.As(err, &e) || e.Reason == nil {
			t.Fatalf("%s with %v: %v", n, choices, err)
		}
		return *e.Reason
	}
	if r := reason("none", nil); r.Code != compute.NoSuchFlavor || r.Detail != "none" {
		t.Errorf("a flavor: %+v", r)
	}
	if r := reason("a", compute.Choices{"gpu": "a100"}); r.Code != compute.NoSuchCapability || r.Detail != "gpu=a100" {
		t.Errorf("an axis: %+v", r)
	}
	if got := c.Permutations("none"); len(got) != 0 {
		t.Errorf("a flavor that is not there has queues: %v", got)
	}
	if got := c.Permutations("a"); !slices.ContainsFunc(got, func(q compute.Queue) bool { return q.Name == "a" }) {
		t.Errorf("a has %v", got)
	}
}
