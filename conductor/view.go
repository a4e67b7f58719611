// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// apply brings the view up to date.
func (c *Conductor) apply(n updates) {
	for _, entry := range n.catalog {
		c.applyCatalog(entry)
	}
	for name, q := range n.queues {
		if q == nil {
			delete(c.view.Queues, name)
			delete(c.view.Advice, name)
			delete(c.view.Listed, name)
			continue
		}
		c.view.Queues[name], c.view.Listed[name] = *q, n.listed[name]
	}
	for name, advice := range n.advice {
		c.view.Advice[name] = advice
	}
	for host, voices := range n.twins {
		if delete(c.view.Twins, host); len(voices) > 0 {
			c.view.Twins[host] = voices
		}
	}
}

func (c *Conductor) applyCatalog(e wire.CatalogEntry) {
	switch {
	case e.FlavorName != "":
		set(c.view.Flavors, e.FlavorName, e.Flavor, e.Removed)
	case e.Axis != "":
		set(c.view.Capabilities, e.Axis, e.Capability, e.Removed)
	case e.GroupName != "":
		set(c.view.Groups, compute.GroupKey{Project: e.Project, Name: e.GroupName}, e.Group, e.Removed)
	case e.Quota != nil:
		set(c.view.Quotas, e.Project, e.Quota, e.Removed)
	default:
		set[compute.Project, compute.Quota](c.view.Quotas, e.Project, nil, true)
	}
}

func set[K comparable, V any](m map[K]V, key K, value *V, removed bool) {
	if removed {
		delete(m, key)
		return
	}
	m[key] = *value
}
