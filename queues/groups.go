// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// groups is what the queue manager knows of the groups of projects: enough to ring no host that cannot take what waits,
// and the one that a member has left.
type groups struct {
	rules   map[compute.GroupKey]compute.Group
	members map[string]groupMember // by instance key
	of      map[compute.GroupKey]*group
}

// groupMember is where an instance of a group is, or waits.
type groupMember struct {
	group compute.GroupKey
	host  compute.HostID    // that may have it; empty: none
	queue compute.QueueName // in which it waits; empty: in none
}

// group counts members.
type group struct {
	on      map[compute.HostID]uint32
	all     uint32 // on hosts
	waiting map[compute.QueueName]int
}

func newGroups() groups {
	return groups{
		rules: map[compute.GroupKey]compute.Group{}, members: map[string]groupMember{}, of: map[compute.GroupKey]*group{},
	}
}

// memberOf is what an instance is to its group; nothing if it has none or has ended.
func memberOf(i compute.Instance, waits compute.QueueName) (m groupMember) {
	if i.Boot.Group() == "" || i.State.Ended() {
		return m
	}
	m = groupMember{group: compute.GroupKey{Project: i.Project, Name: i.Boot.Group()}, queue: waits}
	if i.State.OnHost() {
		m.host = i.Host
	}
	return m
}

// note takes what an instance is to its group now. It answers the host that it has left, and the queues in which other
// members wait, of which that host may take some now.
func (g *groups) note(key string, is groupMember) (left compute.HostID, queues []compute.QueueName) {
	was := g.members[key]
	if was == is {
		return "", nil
	}
	g.count(was, -1)
	g.count(is, 1)
	if g.members[key] = is; is == (groupMember{}) {
		delete(g.members, key)
	}
	if was.host != "" && is.host != was.host {
		return was.host, g.waitIn(was.group)
	}
	return "", nil
}

// waitIn are the queues in which members of a group wait, sorted.
func (g *groups) waitIn(key compute.GroupKey) []compute.QueueName {
	if x := g.of[key]; x != nil {
		return slices.Sorted(maps.Keys(x.waiting))
	}
	return nil
}

func (g *groups) count(m groupMember, n int) {
	if m == (groupMember{}) {
		return
	}
	x := g.of[m.group]
	if x == nil {
		x = &group{on: map[compute.HostID]uint32{}, waiting: map[compute.QueueName]int{}}
		g.of[m.group] = x
	}
	if m.host != "" {
		x.all = uint32(int(x.all) + n)
		if x.on[m.host] = uint32(int(x.on[m.host]) + n); x.on[m.host] == 0 {
			delete(x.on, m.host)
		}
	}
	if m.queue != "" {
		if x.waiting[m.queue] += n; x.waiting[m.queue] == 0 {
			delete(x.waiting, m.queue)
		}
	}
	if len(x.on)+len(x.waiting) == 0 {
		delete(g.of, m.group)
	}
}

// keeps says whether the rule of a group keeps what waits from a host, as far as hosts are what it is over.
func (g *groups) keeps(key compute.GroupKey, h compute.HostID) bool {
	rule, ruled := g.rules[key]
	x := g.of[key]
	switch {
	case !ruled || x == nil || rule.Over != "" || rule.Policy.Soft() || rule.Policy == compute.SpreadOnly:
		return false
	case rule.Policy.Apart():
		return x.on[h] >= rule.Most
	}
	return x.on[h] < x.all
}

// told says whether what waits of a group is offered to the host of the others, and lies in no queue.
func (g *groups) told(key compute.GroupKey) bool {
	rule, ruled := g.rules[key]
	x := g.of[key]
	return ruled && x != nil && x.all > 0 && rule.Policy.Together() && rule.Over == ""
}

// apart says whether the rule of a group has each of its members want a host of its own, or one that has few of them.
func (g *groups) apart(key compute.GroupKey) bool {
	rule, ruled := g.rules[key]
	return ruled && rule.Policy == compute.AntiAffinity && rule.Over == ""
}
