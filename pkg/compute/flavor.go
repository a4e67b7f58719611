// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
)

// MaxTraits is how many traits one entry of the catalog may name in a list, and
// how many a queue may require: it all has to fit into one record.
const MaxTraits = 128

// Flavor is a size of machine the operator offers.
type Flavor struct {
	Name         FlavorName
	Resources    Resources  // what one machine uses of its host; all positive
	Required     []Trait    // the host must have all of these
	Forbidden    []Trait    // the host must have none of these
	Capabilities []AxisName // the axes it may be combined with, sorted
}

// Capability is an axis of choices that flavors may be combined with.
type Capability struct {
	Axis   AxisName
	Values []CapabilityValue // sorted by value, at least one
}

// CapabilityValue is one choice on an axis.
type CapabilityValue struct {
	Value    AxisValue
	Requires []Trait   // the host must have these too
	Consumes Resources // used in addition to the flavor's
}

// Value finds one choice of the axis.
func (c Capability) Value(v AxisValue) (CapabilityValue, bool) {
	for _, cv := range c.Values {
		if cv.Value == v {
			return cv, true
		}
	}
	return CapabilityValue{}, false
}

// Choices is at most one value for each axis.
type Choices map[AxisName]AxisValue

// Quota is what one project may have, in all. A class that is not there takes
// its limit from the default quota; one that is not there either is unlimited.
type Quota struct {
	Project Project // DefaultQuota for every project without its own
	Limits  Resources
	Classes ClassLimits
	// Weight is how many times as many builds the project may have in a queue as one of weight 1; 0: as the default quota
	// says, or 1.
	Weight uint32
}

// Same says whether both say the same of one project.
func (q Quota) Same(o Quota) bool {
	return q.Project == o.Project && maps.Equal(q.Limits, o.Limits) && q.Classes.Equal(o.Classes) && q.Weight == o.Weight
}

// MaxWeight bounds how much of a queue one project may have against others.
const MaxWeight = 100

// CheckWeight refuses a weight that makes no sense.
func CheckWeight(n uint32) error {
	if n <= MaxWeight {
		return nil
	}
	return Invalid("weight", strconv.FormatUint(uint64(n), 10),
		fmt.Sprintf("give 1 to %d, or 0 for that of the default quota", MaxWeight))
}

// WeightOf is what counts for a project.
func WeightOf(own, all Quota) uint32 { return cmp.Or(own.Weight, all.Weight, 1) }

// ClassLimits are limits beside those for the whole: what a project may have of instances of one class of priority. A
// class that is not there has only the limits for the whole.
type ClassLimits map[Priority]Resources

// Equal says whether both are the same limits.
func (l ClassLimits) Equal(o ClassLimits) bool {
	return maps.EqualFunc(l, o, func(a, b Resources) bool { return maps.Equal(a, b) })
}

// Tidy is a copy without classes of which nothing is limited; nil if there is none.
func (l ClassLimits) Tidy() ClassLimits {
	var out ClassLimits
	for p, limits := range l {
		if len(limits) == 0 {
			continue
		}
		if out == nil {
			out = ClassLimits{}
		}
		out[p] = limits.Clone()
	}
	return out
}

// QuotaPart is what a limit is for: the whole that a project has, or its instances of one class of priority.
type QuotaPart uint8

// QuotaWhole is the whole.
const QuotaWhole QuotaPart = 0

// QuotaOf is the part of a class.
func QuotaOf(p Priority) QuotaPart { return QuotaPart(p) + 1 }

// Priority is the class of a part; false: it is the whole.
func (q QuotaPart) Priority() (Priority, bool) {
	if q == QuotaWhole {
		return PriorityNormal, false
	}
	return Priority(q - 1), true
}

// AllQuotaParts are all parts, the whole first, then the classes, the highest first.
func AllQuotaParts() []QuotaPart {
	out := []QuotaPart{QuotaWhole}
	for _, p := range Priorities() {
		out = append(out, QuotaOf(p))
	}
	return out
}

// PartAmounts are amounts for each part of a quota: limits, or what is used. A part that is not there has none.
type PartAmounts map[QuotaPart]Resources

// Clone is a copy of all of it.
func (a PartAmounts) Clone() PartAmounts {
	out := make(PartAmounts, len(a))
	for part, amounts := range a {
		out[part] = amounts.Clone()
	}
	return out
}

// Add adds times an amount to a part.
func (a PartAmounts) Add(part QuotaPart, r Resources, times int64) {
	if a[part] == nil {
		a[part] = Resources{}
	}
	for class, n := range r {
		a[part][class] += n * times
	}
}

// QuotaParts are those that an instance of a class counts in: the whole, and the class.
func QuotaParts(p Priority) [2]QuotaPart { return [2]QuotaPart{QuotaWhole, QuotaOf(p)} }

// Of is the limits of a part.
func (q Quota) Of(part QuotaPart) Resources {
	if p, ok := part.Priority(); ok {
		return q.Classes[p]
	}
	return q.Limits
}

// DefaultQuota is the project whose quota holds for all that have none. It is
// no legal project name, so nobody can own instances under it.
const DefaultQuota Project = "_default"
