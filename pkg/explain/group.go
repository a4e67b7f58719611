// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"math"

	"github.com/berth-project/berth/pkg/compute"
)

// Group is the group that a machine is to be a member of, with the members that may be on hosts.
type Group struct {
	Rule compute.Group
	On   map[compute.HostID]uint32 // members by host
	All  uint32                    // members on any host
	Same uint32                    // of a group over an axis: members with the choice of this machine
}

// allows is how many members more a host may have; a soft rule forbids none.
func (g *Group) allows(h compute.HostID) int64 {
	switch {
	case g == nil || g.Rule.Policy.Soft():
		return compute.MaxAmount
	case g.Rule.Over != "" && g.Rule.Policy.Apart():
		return left(g.Rule.Most, g.Same)
	case g.Rule.Policy.Apart():
		return left(g.Rule.Most, g.On[h])
	case g.Rule.Over != "" && g.Same < g.All, g.Rule.Over == "" && g.On[h] < g.All:
		return 0
	}
	return compute.MaxAmount
}

// with is the group with members more, by host, that have the choice of this machine; nil: there is none.
func (g *Group) with(more map[compute.HostID]uint32) *Group {
	if g == nil {
		return nil
	}
	out := *g
	out.On = maps.Clone(g.On)
	if out.On == nil {
		out.On = map[compute.HostID]uint32{}
	}
	for h, n := range more {
		out.On[h], out.All, out.Same = out.On[h]+n, out.All+n, out.Same+n
	}
	return &out
}

// allowsInAll is how many members more all hosts may have together: those that are counted have one value of an axis.
func (g *Group) allowsInAll() int64 {
	if g != nil && g.Rule.Policy == compute.AntiAffinity && g.Rule.Over != "" {
		return left(g.Rule.Most, g.Same)
	}
	return math.MaxInt64
}

func left(most, there uint32) int64 { return int64(most) - int64(min(most, there)) }

// together says whether all members that are put on hosts have to be on one.
func (g *Group) together() bool {
	return g != nil && g.Rule.Policy == compute.Affinity && g.Rule.Over == ""
}

// Says is the rule with what it counts.
func (g *Group) Says() string {
	return fmt.Sprintf("group %s: %s, and %s on hosts", g.Rule.Name, g.Rule.Rule(), count(g.All, "member"))
}

// asker is what a project can do about its own group.
func (g *Group) asker() []string {
	if !g.Rule.Policy.Apart() {
		return []string{fmt.Sprintf("delete what else is on the %s of group %s, or boot it outside of the group",
			g.Rule.Domain(), g.Rule.Name)}
	}
	return []string{
		fmt.Sprintf("delete a member of group %s", g.Rule.Name),
		fmt.Sprintf("let more of them be on one %s: berth group set %s --max-per-host %d", g.Rule.Domain(), g.Rule.Name, g.Rule.Most+1),
	}
}
