// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Work is how many instances a queue must still serve: those queued in it and
// those starting, whose attempt may fail and bring them back. nil: none
// anywhere.
type Work func(compute.QueueName) int

// AddFlavor offers a flavor. Added again as it is, it is no change; another one
// of the same name is a conflict: a flavor never changes in place, because the
// work in its queues was published for what it was.
func (c *Catalog) AddFlavor(f compute.Flavor) (Change, error) {
	f = tidyFlavor(f)
	if err := c.checkFlavor(f); err != nil {
		return Change{}, err
	}
	if has(f.Capabilities, compute.PriorityAxis) {
		return Change{}, reserved()
	}
	if old, ok := c.flavors[f.Name]; ok {
		if sameFlavor(old, f) {
			return c.counted(Change{}), nil
		}
		return Change{}, compute.Conflict("flavor", string(f.Name), "exists and is different",
			"remove it first, or use another name")
	}
	return c.grow(Change{Flavor: &f}, f.Name)
}

// RemoveFlavor ends a flavor: its queues close, drain and go. It is refused
// while instances wait in them, unless drain says that those shall still be
// built before the queues go.
func (c *Catalog) RemoveFlavor(n compute.FlavorName, work Work, drain bool) (Change, error) {
	if _, ok := c.flavors[n]; !ok {
		return Change{}, compute.NotFound("flavor", string(n), "see the list of flavors")
	}
	ch := Change{RemoveFlavor: n}
	if !drain {
		if err := c.stranded("flavor", string(n), ch, work); err != nil {
			return Change{}, err
		}
	}
	return c.counted(ch), nil
}

// AddCapability offers an axis, or more values of one. Values that are there
// as given are no change; one that is there and differs is a conflict.
func (c *Catalog) AddCapability(capability compute.Capability) (Change, error) {
	capability = tidyCapability(capability)
	if err := checkCapability(capability); err != nil {
		return Change{}, err
	}
	if capability.Axis == compute.PriorityAxis {
		return Change{}, reserved()
	}
	old := c.capabilities[capability.Axis]
	merged := compute.Capability{Axis: capability.Axis, Values: slices.Clone(old.Values)}
	for _, v := range capability.Values {
		was, ok := old.Value(v.Value)
		if !ok {
			merged.Values = append(merged.Values, v)
		} else if !sameValue(was, v) {
			return Change{}, compute.Conflict("capability value", choice(capability.Axis, v.Value),
				"exists and is different",
				"remove it first, or use another name")
		}
	}
	if len(merged.Values) == len(old.Values) {
		return c.counted(Change{}), nil
	}
	merged = tidyCapability(merged)
	if err := c.stillFits(merged); err != nil {
		return Change{}, err
	}
	return c.grow(Change{Capability: &merged}, "")
}

// stillFits checks the flavors that are already combined with an axis.
func (c *Catalog) stillFits(capability compute.Capability) error {
	next := c.Apply(Change{Capability: &capability})
	for _, n := range c.users(capability.Axis) {
		if err := next.checkFlavor(next.flavors[n]); err != nil {
			return err
		}
	}
	return nil
}

// RemoveCapability ends an axis, or only the values named. An axis is refused
// while flavors use it; a value while instances wait in queues of it, unless
// drain says that those shall still be built.
func (c *Catalog) RemoveCapability(
	axis compute.AxisName, values []compute.AxisValue, work Work, drain bool,
) (Change, error) {
	capability, ok := c.capabilities[axis]
	if !ok {
		return Change{}, compute.NotFound("capability", string(axis), "see the list of capabilities")
	}
	if len(values) == 0 {
		if users := c.users(axis); len(users) > 0 {
			return Change{}, compute.Conflict("capability", string(axis), "is used by flavor "+list(users),
				"remove the flavors first")
		}
		return c.counted(Change{RemoveCapability: axis}), nil
	}
	left := compute.Capability{Axis: axis}
	for _, v := range capability.Values {
		if !has(values, v.Value) {
			left.Values = append(left.Values, v)
		}
	}
	if err := mayLeave(capability, left, values); err != nil {
		return Change{}, err
	}
	ch := Change{Capability: &left}
	if !drain {
		if err := c.stranded("capability", string(axis)+"="+list(values), ch, work); err != nil {
			return Change{}, err
		}
	}
	return c.counted(ch), nil
}

func mayLeave(capability, left compute.Capability, gone []compute.AxisValue) error {
	for _, v := range gone {
		if _, ok := capability.Value(v); !ok {
			return compute.NotFound("capability value", choice(capability.Axis, v),
				"it has "+list(valuesOf(capability)))
		}
	}
	if len(left.Values) == 0 {
		return compute.Conflict("capability", string(capability.Axis), "would have no value left",
			"remove the capability itself")
	}
	return nil
}

// SetQuota replaces what a project may have; limits with nothing in them leave
// it to the default quota. Lowering a limit below what is used is allowed: it
// stops further requests only.
func (c *Catalog) SetQuota(q compute.Quota) (Change, error) {
	if err := checkQuota(q); err != nil {
		return Change{}, err
	}
	old, ok := c.quotas[q.Project]
	q.Classes = q.Classes.Tidy()
	none := len(q.Limits)+len(q.Classes) == 0 && q.Weight == 0
	switch {
	case none && !ok, ok && old.Same(q):
		return c.counted(Change{}), nil
	case none:
		return c.counted(Change{RemoveQuota: q.Project}), nil
	}
	q.Limits = q.Limits.Clone()
	return c.counted(Change{Quota: &q}), nil
}

// grow checks what a change that adds queues makes of the whole.
func (c *Catalog) grow(ch Change, mine compute.FlavorName) (Change, error) {
	next := c.Apply(ch)
	if err := next.checkCount(); err != nil {
		return Change{}, err
	}
	if err := next.checkNames(mine); err != nil {
		return Change{}, err
	}
	return c.counted(ch), nil
}

// counted fills in what a change does to the number of queues. A change either
// adds queues or removes some, never both.
func (c *Catalog) counted(ch Change) Change {
	before, after := c.Queues(), c.Apply(ch).Queues()
	ch.Added, ch.Removed = max(0, after-before), max(0, before-after)
	ch.Total, ch.Limit = after, c.limits.Queues
	return ch
}

// stranded refuses a change that takes away queues in which instances wait.
func (c *Catalog) stranded(field, value string, ch Change, work Work) error {
	if work == nil {
		return nil
	}
	total, busy := 0, []string(nil)
	for _, q := range c.lost(ch) {
		n := 0
		for _, p := range compute.Priorities() {
			n += work(compute.TierName(q, p))
		}
		if n > 0 {
			total += n
			busy = append(busy, fmt.Sprintf("%s %d", q, n))
		}
	}
	if total == 0 {
		return nil
	}
	const most = 5
	if len(busy) > most {
		busy = append(busy[:most], "…")
	}
	remedy := "wait until they run, or delete them"
	if ch.Capability != nil {
		remedy = "wait until they run, delete them, or let the queues drain (--drain, or drain=true)"
	}
	return compute.Conflict(field, value,
		fmt.Sprintf("%d queued or starting instances would be stranded (%s)", total, strings.Join(busy, ", ")), remedy)
}

// lost lists the queues that c has and the catalog after the change has not.
func (c *Catalog) lost(ch Change) []compute.QueueName {
	next, kept := c.Apply(ch), map[compute.QueueName]bool{}
	var out []compute.QueueName
	for _, f := range c.Flavors() {
		if ch.Capability != nil && !has(f.Capabilities, ch.Capability.Axis) ||
			ch.RemoveFlavor != "" && f.Name != ch.RemoveFlavor {
			continue // not touched
		}
		for _, q := range next.Permutations(f.Name) {
			kept[q.Name] = true
		}
		for _, q := range c.Permutations(f.Name) {
			if !kept[q.Name] {
				out = append(out, q.Name)
			}
		}
	}
	return out
}

// users lists the flavors that are combined with an axis.
func (c *Catalog) users(axis compute.AxisName) []compute.FlavorName {
	var out []compute.FlavorName
	for _, f := range c.Flavors() {
		if has(f.Capabilities, axis) {
			out = append(out, f.Name)
		}
	}
	return out
}
