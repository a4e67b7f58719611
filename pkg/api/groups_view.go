// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/wire"
)

// member says whether an entry counts as a member of its group: until it has ended.
func (k entry) member() bool { return k.boot().Group() != "" && !k.state().Ended() }

// addMember and removeMember keep which instances are in which group.
func (t *projectIndex) addMember(k *entry) {
	if !k.member() {
		return
	}
	addIn(&t.byGroup, k.boot().Group(), k)
}

func (t *projectIndex) removeMember(k *entry) {
	if !k.member() {
		return
	}
	removeIn(t.byGroup, k.boot().Group(), k)
}

// countMembers is how many instances a group has that have not ended.
func (v *instances) countMembers(key compute.GroupKey) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.byProject[key.Project]; t != nil {
		return len(t.byGroup[key.Name])
	}
	return 0
}

// laterOf is how many instances a project has that only a later Berth can read. Any of them may be in any group.
func (v *instances) laterOf(p compute.Project) (n int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for at := range v.later {
		if at.project == p {
			n++
		}
	}
	return n
}

// members are the instances of a group that have not ended, in no order.
func (v *instances) members(key compute.GroupKey) (all []*entry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.byProject[key.Project]; t != nil {
		for k := range t.byGroup[key.Name] {
			all = append(all, k)
		}
	}
	return all
}

// onHosts are the members of a group that may be on hosts: by host, and by the value of its axis.
func onHosts(rule compute.Group, members []*entry) (on map[compute.HostID]uint32, by map[compute.AxisValue]uint32) {
	on, by = map[compute.HostID]uint32{}, map[compute.AxisValue]uint32{}
	for _, k := range members {
		if i := k.instance; i != nil && i.State.OnHost() {
			on[i.Host]++
			by[i.Boot.With[rule.Over]]++
		}
	}
	return on, by
}

// Members is how many instances a group has, or may have for all that this node can read, for the catalog.
func (s *Server) Members(key compute.GroupKey) int {
	return s.views.instances.countMembers(key) + s.views.instances.laterOf(key.Project)
}

// checkMembersReadable refuses to say that a group has members where all that is known is that it may.
func (s *Server) checkMembersReadable(key compute.GroupKey) error {
	n := s.views.instances.laterOf(key.Project)
	if n == 0 || s.views.instances.countMembers(key) > 0 {
		return nil
	}
	return &compute.Error{
		Kind: compute.KindUnavailable, Field: "group", Value: string(key.Name), Cause: errLaterSchema,
		Message: fmt.Sprintf("may have members of a later schema than %d, the newest that this node reads: project %s has "+
			"%d such instances", wire.Schema, key.Project, n),
		Remedy: "ask a node of the later version, or upgrade this one",
	}
}

// knownGroup is what one request knows of a group.
type knownGroup struct {
	explain.Group
	by     map[compute.AxisValue]uint32
	values spreading
}

// group is what the group of an instance asks of hosts; nil: it has none, or there is no such group.
func (s *presenter) group(i *compute.Instance) *explain.Group {
	key := compute.GroupKey{Project: i.Project, Name: i.Boot.Group()}
	if key.Name == "" {
		return nil
	}
	g, asked := s.groups[key]
	if !asked {
		if rule, ok := s.catalog.Group(key); ok {
			members := s.views.instances.members(key)
			g = &knownGroup{Group: explain.Group{Rule: rule}, values: s.views.spreadOf(s.catalog, rule, members)}
			g.On, g.by = onHosts(rule, members)
			for _, n := range g.On {
				g.All += n
			}
		}
		s.groups[key] = g
	}
	if g == nil {
		return nil
	}
	out := g.Group
	out.Same = g.by[i.Boot.With[out.Rule.Over]]
	out.Value, out.Even = i.Boot.With[out.Rule.Spread], g.values.even()
	return &out
}
