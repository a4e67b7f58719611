// SPDX-License-Identifier: Apache-2.0

package compute

import "slices"

// Permutations lists the queues of a flavor: one for each choice (or none) on
// each of its axes, the plain flavor first. An axis that is not in axes adds
// none. Traits come sorted; nothing is shared with the arguments.
func Permutations(f Flavor, axes map[AxisName]Capability) []Queue {
	out := []Queue{{
		Flavor: f.Name, Choices: Choices{}, Resources: f.Resources.Clone(),
		Required: sortedTraits(f.Required), Forbidden: sortedTraits(f.Forbidden),
	}}
	for _, axis := range slices.Compact(slices.Sorted(slices.Values(f.Capabilities))) {
		plain := len(out)
		for _, v := range axes[axis].Values {
			for _, q := range out[:plain] {
				out = append(out, q.with(axis, v))
			}
		}
	}
	for i := range out {
		out[i].Name = NameQueue(f.Name, out[i].Choices)
	}
	return out
}

// CountPermutations is how many queues the flavor has, without making them.
// A number beyond any that could be served comes back as 1<<30.
func CountPermutations(f Flavor, axes map[AxisName]Capability) int {
	const most = 1 << 30
	n := 1
	for _, axis := range slices.Compact(slices.Sorted(slices.Values(f.Capabilities))) {
		if n *= 1 + len(axes[axis].Values); n >= most {
			return most
		}
	}
	return n
}

// with is the queue with one more choice.
func (q Queue) with(axis AxisName, v CapabilityValue) Queue {
	choices := make(Choices, len(q.Choices)+1)
	for a, c := range q.Choices {
		choices[a] = c
	}
	choices[axis] = v.Value
	q.Choices = choices
	q.Resources = q.Resources.Plus(v.Consumes)
	q.Required = sortedTraits(q.Required, v.Requires)
	q.Forbidden = slices.Clone(q.Forbidden)
	return q
}

// SameNeeds says whether both queues are for the same machines of the same
// choices, so that work published for one is work for the other.
func (q Queue) SameNeeds(o Queue) bool {
	if q.Name != o.Name || q.Flavor != o.Flavor || q.Priority != o.Priority || len(q.Choices) != len(o.Choices) {
		return false
	}
	for axis, v := range q.Choices {
		if o.Choices[axis] != v {
			return false
		}
	}
	return q.Resources.Equal(o.Resources) &&
		slices.Equal(sortedTraits(q.Required), sortedTraits(o.Required)) &&
		slices.Equal(sortedTraits(q.Forbidden), sortedTraits(o.Forbidden))
}

// sortedTraits merges lists of traits: sorted, each once, nil if there are none.
func sortedTraits(lists ...[]Trait) []Trait {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}
