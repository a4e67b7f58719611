// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Problems lists what is wrong with the catalog as it is. A catalog grown by
// accepted changes alone has none.
func (c *Catalog) Problems() []error {
	var out []error
	add := func(err error) {
		if err != nil {
			out = append(out, err)
		}
	}
	for _, capability := range c.Capabilities() {
		add(checkCapability(capability))
	}
	for _, q := range c.Quotas() {
		add(checkQuota(q))
	}
	for _, g := range c.groups {
		add(g.Check())
	}
	for _, f := range c.Flavors() {
		add(c.checkFlavor(f))
	}
	add(c.checkCount())
	if len(out) == 0 { // names are only worth making once their number is known to be bearable
		add(c.checkNames(""))
	}
	return out
}

func checkCapability(c compute.Capability) error {
	if err := c.Axis.Check(); err != nil {
		return err
	}
	if len(c.Values) == 0 {
		return compute.Invalid("capability", string(c.Axis), "give at least one value")
	}
	for i, v := range c.Values {
		if err := checkValue(c.Axis, v); err != nil {
			return err
		}
		for _, other := range c.Values[:i] {
			if other.Value == v.Value {
				return said("capability value", choice(c.Axis, v.Value), "is given twice", "give each value once")
			}
		}
	}
	return nil
}

func checkValue(axis compute.AxisName, v compute.CapabilityValue) error {
	if err := v.Value.Check(); err != nil {
		return err
	}
	for _, t := range v.Requires {
		if err := t.Check(); err != nil {
			return within(err, choice(axis, v.Value))
		}
	}
	return within(v.Consumes.Check(), choice(axis, v.Value))
}

// checkFlavor looks at a flavor by itself and against its axes.
func (c *Catalog) checkFlavor(f compute.Flavor) error {
	if err := checkShape(f); err != nil {
		return err
	}
	for _, axis := range f.Capabilities {
		capability, ok := c.capabilities[axis]
		if !ok {
			return compute.NotFound("capability", string(axis),
				"add it first, or leave it out of flavor "+string(f.Name))
		}
		for _, v := range capability.Values {
			if err := checkPair(f, axis, v); err != nil {
				return err
			}
		}
	}
	return c.checkSums(f)
}

func checkShape(f compute.Flavor) error {
	if err := f.Name.Check(); err != nil {
		return err
	}
	if len(f.Resources) == 0 {
		return said("flavor", string(f.Name), "uses no resources", "give at least one, as in VCPU=1")
	}
	if err := f.Resources.Check(); err != nil {
		return within(err, string(f.Name))
	}
	for _, list := range [][]compute.Trait{f.Required, f.Forbidden} {
		if err := checkTraits(len(list), string(f.Name)); err != nil {
			return err
		}
	}
	for _, t := range slices.Concat(f.Required, f.Forbidden) {
		if err := t.Check(); err != nil {
			return within(err, string(f.Name))
		}
	}
	for _, t := range f.Required {
		if has(f.Forbidden, t) {
			return said("trait", string(t), fmt.Sprintf("flavor %s both requires and forbids it", f.Name),
				"leave out one of the two")
		}
	}
	return nil
}

// checkPair refuses a choice no host could ever satisfy.
func checkPair(f compute.Flavor, axis compute.AxisName, v compute.CapabilityValue) error {
	for _, t := range v.Requires {
		if has(f.Forbidden, t) {
			return said("trait", string(t),
				fmt.Sprintf("%s requires it and flavor %s forbids it", choice(axis, v.Value), f.Name),
				fmt.Sprintf("leave %s out of the flavor, or do not forbid the trait", axis))
		}
	}
	return nil
}

// checkTraits refuses more traits than a record should hold.
func checkTraits(n int, where string) error {
	if n <= compute.MaxTraits {
		return nil
	}
	return within(compute.Invalid("traits", fmt.Sprint(n), fmt.Sprintf("give at most %d", compute.MaxTraits)), where)
}

// checkSums refuses a flavor whose dearest choices together are beyond any
// amount, or whose choices together ask for more than a record should hold.
func (c *Catalog) checkSums(f compute.Flavor) error {
	if n := len(f.Capabilities); n > compute.MaxChoices {
		return within(
			compute.Invalid("capabilities", fmt.Sprint(n), fmt.Sprintf("give at most %d", compute.MaxChoices)),
			string(f.Name),
		)
	}
	sum, traits := f.Resources, len(f.Required)
	for _, axis := range f.Capabilities {
		dearest, most := compute.Resources{}, 0
		for _, v := range c.capabilities[axis].Values {
			dearest, most = dearest.Max(v.Consumes), max(most, len(v.Requires))
		}
		sum, traits = sum.Plus(dearest), traits+most
	}
	if err := checkTraits(traits, string(f.Name)+" with what its capabilities require"); err != nil {
		return err
	}
	return within(sum.Check(), string(f.Name)+" with what its capabilities consume")
}

// checkCount refuses more queues than there may be, with the numbers.
func (c *Catalog) checkCount() error {
	if n := c.Queues(); n > c.limits.Queues {
		return said("queues", fmt.Sprint(n),
			fmt.Sprintf("the catalog would make %d queues, the limit is %d", n, c.limits.Queues),
			"remove flavors, values or axes no longer offered, or combine flavors with fewer axes")
	}
	return nil
}

// checkNames refuses queues that Kafka could not tell apart or would not take.
// Errors are put as if mine had come last; "" for none in particular.
func (c *Catalog) checkNames(mine compute.FlavorName) error {
	taken := make(map[string]compute.Queue)
	flavors := c.Flavors()
	slices.SortStableFunc(flavors, func(a, b compute.Flavor) int {
		return order(a.Name == mine) - order(b.Name == mine)
	})
	for _, f := range flavors {
		for _, q := range compute.Permutations(f, c.capabilities) {
			if len(q.Name) > c.limits.QueueName {
				return said("queue", string(q.Name),
					fmt.Sprintf("is %d bytes long, the limit is %d", len(q.Name), c.limits.QueueName),
					"use shorter names, or combine the flavor with fewer axes")
			}
			key := strings.ReplaceAll(string(q.Name), ".", "_")
			if other, ok := taken[key]; ok {
				return collision(q, other)
			}
			taken[key] = q
		}
	}
	return c.checkTiers(taken, mine)
}

// checkTiers refuses a flavor that makes a queue of the name of a tier, or of which a tier would have the name of a queue: who
// boots with a priority would wait in a queue of another flavor. What was there before stays as it is.
func (c *Catalog) checkTiers(taken map[string]compute.Queue, mine compute.FlavorName) error {
	for _, key := range slices.Sorted(maps.Keys(taken)) {
		for _, p := range compute.Priorities() {
			suffix := strings.ReplaceAll(string(compute.TierName("", p)), ".", "_")
			base, is := strings.CutSuffix(key, suffix)
			of, there := taken[base]
			if tier := taken[key]; suffix != "" && is && there && (tier.Flavor == mine || of.Flavor == mine) {
				return said("queue", string(tier.Name), fmt.Sprintf("is the queue of flavor %s for work of %s with priority %s",
					tier.Flavor, of.Name, p), "choose another name for one of the flavors")
			}
		}
	}
	return nil
}

// reserved refuses a capability that would look like a class in names of queues.
func reserved() error {
	return said("capability", string(compute.PriorityAxis), "is what every request has: low, normal or high",
		"choose another name for the capability, or boot with --priority")
}

func collision(q, other compute.Queue) error {
	e := compute.Conflict("queue", string(q.Name),
		fmt.Sprintf("flavor %s would share it with flavor %s", q.Flavor, other.Flavor),
		"choose another name for one of the flavors")
	if q.Name != other.Name {
		e.Message = fmt.Sprintf(
			"flavor %s has queue %s, and Kafka refuses topics that differ only in dots and underscores",
			other.Flavor, other.Name,
		)
	}
	return e
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

func checkQuota(q compute.Quota) error {
	if q.Project != compute.DefaultQuota {
		if err := q.Project.Check(); err != nil {
			return err
		}
	}
	if err := checkLimits(q.Limits); err != nil {
		return err
	}
	if err := compute.CheckWeight(q.Weight); err != nil {
		return err
	}
	for _, p := range compute.Priorities() {
		if err := within(checkLimits(q.Classes[p]), "the limits of priority "+p.String()); err != nil {
			return err
		}
	}
	return nil
}

func checkLimits(limits compute.Resources) error {
	for _, class := range limits.Classes() {
		if class != compute.Instances {
			if err := class.Check(); err != nil {
				return err
			}
		}
		if n := limits[class]; n < 0 || n > compute.MaxAmount {
			return compute.Invalid(string(class), fmt.Sprint(n),
				fmt.Sprintf(
					"give a whole number from 0 (none at all) to %d, or leave it out for no limit of its own",
					int64(compute.MaxAmount),
				))
		}
	}
	return nil
}

// said is an invalid field with a sentence of its own.
func said(field, value, message, remedy string) *compute.Error {
	return &compute.Error{Kind: compute.KindInvalid, Field: field, Value: value, Message: message, Remedy: remedy}
}

// within tells in which entry a refused field is. It changes no nil.
func within(err error, what string) error {
	e, ok := err.(*compute.Error)
	if !ok || e == nil {
		return err
	}
	out := *e
	out.Message = "is not valid in " + what
	return &out
}

func choice(axis compute.AxisName, v compute.AxisValue) string { return string(axis) + "=" + string(v) }

func has[T comparable](in []T, x T) bool { return slices.Contains(in, x) }
