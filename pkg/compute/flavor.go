// SPDX-License-Identifier: Apache-2.0

package compute

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
}

// DefaultQuota is the project whose quota holds for all that have none. It is
// no legal project name, so nobody can own instances under it.
const DefaultQuota Project = "_default"
