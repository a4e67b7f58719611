// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// Members is how many instances a group has that have not ended. nil: none anywhere.
type Members func(compute.GroupKey) int

// SetGroup makes a group, or changes the rule of one; with onlyNew it only makes one. Members that break a new rule
// stay where they are.
func (c *Catalog) SetGroup(g compute.Group, onlyNew bool) (Change, error) {
	if g.Policy.Apart() && g.Most == 0 {
		g.Most = 1
	}
	if err := g.Check(); err != nil {
		return Change{}, err
	}
	old, there := c.groups[g.Key()]
	if there && old == g {
		return c.counted(Change{}), nil
	}
	if there && onlyNew {
		return Change{}, compute.Conflict("group", string(g.Name), "exists with another rule: "+old.Rule(),
			"change its rule instead (berth group set), or use another name")
	}
	if g.Over != "" && g.Over != old.Over {
		if _, ok := c.capabilities[g.Over]; !ok {
			return Change{}, compute.NotFound("capability", string(g.Over),
				"groups are over hosts, or over a capability that there is: berth capability list")
		}
	}
	if g.Spread != "" && (!there || old.Spread != g.Spread) {
		if _, ok := c.capabilities[g.Spread]; !ok {
			return Change{}, compute.NotFound("capability", string(g.Spread),
				"members are spread over a capability that there is: berth capability list")
		}
	}
	if n := len(c.Groups(g.Project)); !there && n >= compute.MaxGroups {
		return Change{}, compute.Conflict("group", string(g.Name),
			fmt.Sprintf("project %s has %d groups, the most that it may have", g.Project, n),
			"delete one that has no members")
	}
	return c.counted(Change{Group: &g}), nil
}

// ChangeGroup changes the rule of a group from what it is. See SetGroup.
func (c *Catalog) ChangeGroup(
	key compute.GroupKey, change func(compute.Group) (compute.Group, error),
) (Change, error) {
	was, ok := c.groups[key]
	if !ok {
		e := compute.NotFound("group", string(key.Name), fmt.Sprintf(
			"berth group list --project %s shows what there is; berth group create %s makes it", key.Project, key.Name))
		e.Reason = &compute.Reason{Code: compute.NoSuchGroup, Detail: string(key.Name)}
		return Change{}, e
	}
	g, err := change(was)
	if err != nil {
		return Change{}, err
	}
	return c.SetGroup(g, false)
}

// RemoveGroup ends a group. It is refused while instances are members, whose rule would end with it.
func (c *Catalog) RemoveGroup(key compute.GroupKey, members Members) (Change, error) {
	if _, ok := c.groups[key]; !ok {
		return Change{}, compute.NotFound("group", string(key.Name), "berth group list shows what there is")
	}
	if members != nil {
		if n := members(key); n > 0 {
			return Change{}, compute.Conflict("group", string(key.Name), fmt.Sprintf("has members: %d", n),
				fmt.Sprintf("delete them first: berth list --project %s --group %s shows them", key.Project, key.Name))
		}
	}
	return c.counted(Change{RemoveGroup: key}), nil
}

// Group finds a project's group.
func (c *Catalog) Group(key compute.GroupKey) (compute.Group, bool) {
	g, ok := c.groups[key]
	return g, ok
}

// Groups lists the groups of a project by name.
func (c *Catalog) Groups(p compute.Project) []compute.Group {
	out := []compute.Group{}
	for key, g := range c.groups {
		if key.Project == p {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b compute.Group) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
