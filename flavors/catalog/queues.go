// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Permutations lists the queues of one flavor; none if there is no such flavor.
func (c *Catalog) Permutations(n compute.FlavorName) []compute.Queue {
	f, ok := c.flavors[n]
	if !ok {
		return nil
	}
	return compute.Permutations(f, c.capabilities)
}

// Queues is how many queues all flavors make together.
func (c *Catalog) Queues() int {
	n := 0
	for _, f := range c.flavors {
		n += compute.CountPermutations(f, c.capabilities)
	}
	return n
}

// Resolve finds the queue of a flavor with these choices and what its work
// needs. It refuses with KindNotFound and the reason code to show.
func (c *Catalog) Resolve(n compute.FlavorName, choices compute.Choices) (compute.Queue, error) {
	f, ok := c.flavors[n]
	if !ok {
		e := compute.NotFound("flavor", string(n), "see the list of flavors")
		e.Reason = &compute.Reason{Code: compute.NoSuchFlavor, Detail: string(n)}
		return compute.Queue{}, e
	}
	for axis, value := range choices {
		if err := c.offers(f, axis, value); err != nil {
			return compute.Queue{}, err
		}
	}
	return c.permutation(f, choices), nil
}

// offers says whether the flavor may be combined with this choice.
func (c *Catalog) offers(f compute.Flavor, axis compute.AxisName, value compute.AxisValue) error {
	choice := string(axis) + "=" + string(value)
	refuse := func(message, remedy string) error {
		e := compute.NotFound("capability", choice, remedy)
		e.Message = message
		e.Reason = &compute.Reason{Code: compute.NoSuchCapability, Detail: choice}
		return e
	}
	capability, ok := c.capabilities[axis]
	if !ok {
		return refuse("there is no such capability", "see the list of capabilities")
	}
	if !has(f.Capabilities, axis) {
		return refuse(fmt.Sprintf("flavor %s is not offered with %s", f.Name, axis),
			"it is offered with "+list(f.Capabilities))
	}
	if _, ok := capability.Value(value); !ok {
		return refuse(fmt.Sprintf("%s has no such value", axis), "it has "+list(valuesOf(capability)))
	}
	return nil
}

// permutation is the one queue, made without making the others.
func (c *Catalog) permutation(f compute.Flavor, choices compute.Choices) compute.Queue {
	axes := make(map[compute.AxisName]compute.Capability, len(choices))
	for axis, value := range choices {
		v, _ := c.capabilities[axis].Value(value)
		axes[axis] = compute.Capability{Axis: axis, Values: []compute.CapabilityValue{v}}
	}
	all := compute.Permutations(f, axes)
	return all[len(all)-1] // the one with every choice made
}

func valuesOf(c compute.Capability) []compute.AxisValue {
	out := make([]compute.AxisValue, 0, len(c.Values))
	for _, v := range c.Values {
		out = append(out, v.Value)
	}
	return out
}

// list is "a, b, c", or "nothing".
func list[T ~string](in []T) string {
	if len(in) == 0 {
		return "nothing"
	}
	parts := make([]string, len(in))
	for i, s := range in {
		parts[i] = string(s)
	}
	return strings.Join(parts, ", ")
}
