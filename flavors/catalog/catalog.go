// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Limits bound what a catalog may become.
type Limits struct {
	Queues    int // most queues in all
	QueueName int // most bytes of a queue's name: a topic's 249 less the cell's prefix
}

// DefaultLimits is 20,000 queues with names of at most 200 bytes.
func DefaultLimits() Limits { return Limits{Queues: 20_000, QueueName: 200} }

// Catalog is all that operators offer at one moment. It never changes: Apply
// makes a new one, so a reader may keep it as long as it likes.
type Catalog struct {
	limits       Limits
	flavors      map[compute.FlavorName]compute.Flavor
	capabilities map[compute.AxisName]compute.Capability
	quotas       map[compute.Project]compute.Quota
	groups       map[compute.GroupKey]compute.Group
}

// New is a catalog with nothing in it.
func New(limits Limits) *Catalog { return &Catalog{limits: limits} }

// Change is one entry of the catalog to write or to remove: exactly one of the
// first eight fields is set, none if there is nothing to do. The counts tell what
// it does to the queues; Apply does not look at them.
type Change struct {
	Flavor           *compute.Flavor
	Capability       *compute.Capability
	Quota            *compute.Quota
	Group            *compute.Group
	RemoveFlavor     compute.FlavorName
	RemoveCapability compute.AxisName
	RemoveQuota      compute.Project
	RemoveGroup      compute.GroupKey

	Added   int // queues it makes
	Removed int // queues it closes
	Total   int // queues there are then
	Limit   int // most queues there may be
}

// Nothing says whether all is already as asked for.
func (c Change) Nothing() bool {
	return !c.ofFlavor() && !c.ofCapability() && !c.ofQuota() && !c.ofGroup()
}

func (c Change) ofFlavor() bool     { return c.Flavor != nil || c.RemoveFlavor != "" }
func (c Change) ofCapability() bool { return c.Capability != nil || c.RemoveCapability != "" }
func (c Change) ofQuota() bool      { return c.Quota != nil || c.RemoveQuota != "" }
func (c Change) ofGroup() bool      { return c.Group != nil || c.RemoveGroup != compute.GroupKey{} }

// Apply is the catalog after these changes, right or wrong. It copies only what a change is of: there may be a thousand
// groups of each project.
func (c *Catalog) Apply(changes ...Change) *Catalog {
	next := *c
	if slices.ContainsFunc(changes, Change.ofFlavor) {
		next.flavors = clone(c.flavors)
	}
	if slices.ContainsFunc(changes, Change.ofCapability) {
		next.capabilities = clone(c.capabilities)
	}
	if slices.ContainsFunc(changes, Change.ofQuota) {
		next.quotas = clone(c.quotas)
	}
	if slices.ContainsFunc(changes, Change.ofGroup) {
		next.groups = clone(c.groups)
	}
	for _, ch := range changes {
		next.put(ch)
	}
	return &next
}

func (c *Catalog) put(ch Change) {
	switch {
	case ch.Flavor != nil:
		c.flavors[ch.Flavor.Name] = *ch.Flavor
	case ch.Capability != nil:
		c.capabilities[ch.Capability.Axis] = *ch.Capability
	case ch.Quota != nil:
		c.quotas[ch.Quota.Project] = *ch.Quota
	case ch.Group != nil:
		c.groups[ch.Group.Key()] = *ch.Group
	case ch.RemoveFlavor != "":
		delete(c.flavors, ch.RemoveFlavor)
	case ch.RemoveCapability != "":
		delete(c.capabilities, ch.RemoveCapability)
	case ch.RemoveQuota != "":
		delete(c.quotas, ch.RemoveQuota)
	case ch.RemoveGroup != compute.GroupKey{}:
		delete(c.groups, ch.RemoveGroup)
	}
}

// Revert is the change that brings the entry ch is about back to what it is in c.
func (c *Catalog) Revert(ch Change) Change {
	switch {
	case ch.Flavor != nil:
		return c.flavorAsIs(ch.Flavor.Name)
	case ch.RemoveFlavor != "":
		return c.flavorAsIs(ch.RemoveFlavor)
	case ch.Capability != nil:
		return c.capabilityAsIs(ch.Capability.Axis)
	case ch.RemoveCapability != "":
		return c.capabilityAsIs(ch.RemoveCapability)
	case ch.Quota != nil:
		return c.quotaAsIs(ch.Quota.Project)
	case ch.RemoveQuota != "":
		return c.quotaAsIs(ch.RemoveQuota)
	case ch.Group != nil:
		return c.groupAsIs(ch.Group.Key())
	case ch.RemoveGroup != compute.GroupKey{}:
		return c.groupAsIs(ch.RemoveGroup)
	}
	return Change{}
}

func (c *Catalog) flavorAsIs(n compute.FlavorName) Change {
	if f, ok := c.flavors[n]; ok {
		return Change{Flavor: &f}
	}
	return Change{RemoveFlavor: n}
}

func (c *Catalog) capabilityAsIs(a compute.AxisName) Change {
	if cp, ok := c.capabilities[a]; ok {
		return Change{Capability: &cp}
	}
	return Change{RemoveCapability: a}
}

func (c *Catalog) quotaAsIs(p compute.Project) Change {
	if q, ok := c.quotas[p]; ok {
		return Change{Quota: &q}
	}
	return Change{RemoveQuota: p}
}

func (c *Catalog) groupAsIs(key compute.GroupKey) Change {
	if g, ok := c.groups[key]; ok {
		return Change{Group: &g}
	}
	return Change{RemoveGroup: key}
}

// Flavor finds a flavor. What it answers is shared: do not change it.
func (c *Catalog) Flavor(n compute.FlavorName) (compute.Flavor, bool) {
	f, ok := c.flavors[n]
	return f, ok
}

// Capability finds an axis. What it answers is shared: do not change it.
func (c *Catalog) Capability(a compute.AxisName) (compute.Capability, bool) {
	cp, ok := c.capabilities[a]
	return cp, ok
}

// Quota finds the limits a project has of its own.
func (c *Catalog) Quota(p compute.Project) (compute.Quota, bool) {
	q, ok := c.quotas[p]
	return q, ok
}

// Flavors lists them by name.
func (c *Catalog) Flavors() []compute.Flavor { return byKey(c.flavors) }

// Capabilities lists them by axis.
func (c *Catalog) Capabilities() []compute.Capability { return byKey(c.capabilities) }

// Quotas lists them by project.
func (c *Catalog) Quotas() []compute.Quota { return byKey(c.quotas) }

func byKey[K ~string, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m)+1)
	maps.Copy(out, m)
	return out
}
