// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"

	"github.com/berth-project/berth/pkg/compute"
)

// Group is the group that a machine is to be a member of, with the members that may be on hosts.
type Group struct {
	Rule compute.Group
	On   map[compute.HostID]uint32 // members by host
	All  uint32                    // members on any host
	Same uint32                    // of a group over an axis: members with the choice of this machine
	// Of a group that spreads its members: the value of this machine, empty if it is not known yet, and how they are spread.
	Value compute.AxisValue
	Even  compute.Even
}

// allows is how many members more a host may have; a soft rule forbids none.
func (g *Group) allows(h compute.HostID) int64 {
	return min(g.atMost(), g.onHost(h))
}

// atMost is how many members more all hosts together may have, of those that are like this machine.
func (g *Group) atMost() int64 {
	all := int64(compute.MaxAmount)
	if g == nil {
		return all
	}
	if g.Rule.Over != "" && g.Rule.Policy.Apart() {
		all = left(g.Rule.Most, g.Same)
	}
	if n, least := g.Even.Left(g.Value); least != "" {
		all = min(all, int64(n))
	}
	return all
}

// uneven is what keeps this machine out where its value has too many members already; empty: nothing of that kind.
func (g *Group) uneven() string {
	n, least := g.Even.Left(g.Value)
	if n > 0 {
		return ""
	}
	return fmt.Sprintf("%s %s has %d of them, %s has %d", g.Rule.Spread, g.Value, g.Even.There(g.Value), least, g.Even.Stay(least))
}

func (g *Group) onHost(h compute.HostID) int64 {
	switch {
	case g == nil || g.Rule.Policy.Soft() || g.Rule.Policy == compute.SpreadOnly:
		return compute.MaxAmount
	case g.Rule.Over != "" && g.Rule.Policy.Apart():
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
	all := uint32(0)
	for h, n := range more {
		out.On[h], out.All, out.Same, all = out.On[h]+n, out.All+n, out.Same+n, all+n
	}
	out.Even = g.Even.With(g.Value, all)
	return &out
}

func left(most, there uint32) int64 { return int64(most) - int64(min(most, there)) }

// together says whether all members that are put on hosts have to be on one.
func (g *Group) together() bool {
	return g != nil && g.Rule.Policy == compute.Affinity && g.Rule.Over == ""
}

// Says is the rule with what it counts.
func (g *Group) Says() string {
	says := fmt.Sprintf("group %s: %s, and %s on hosts", g.Rule.Name, g.Rule.Rule(), count(g.All, "member"))
	if uneven := g.uneven(); uneven != "" {
		says += "; " + uneven
	}
	return says
}

// asker is what a project can do about its own group.
func (g *Group) asker() []string {
	_, least := g.Even.Left(g.Value)
	switch {
	case g.uneven() != "":
		return []string{
			fmt.Sprintf("look why no member starts with %s=%s, which has fewest: it waits for one", g.Rule.Spread, least),
			fmt.Sprintf("delete a member of group %s with %s=%s", g.Rule.Name, g.Rule.Spread, g.Value),
			fmt.Sprintf("let one %s have more than others: berth group set %s --max-skew %d", g.Rule.Spread, g.Rule.Name, g.Rule.Skew+1),
		}
	case g.Rule.Policy == compute.SpreadOnly:
		return nil
	case g.Rule.Policy.Together():
		return []string{fmt.Sprintf("delete what else is on the %s of group %s, or boot it outside of the group",
			g.Rule.Domain(), g.Rule.Name)}
	}
	return []string{
		fmt.Sprintf("delete a member of group %s", g.Rule.Name),
		fmt.Sprintf("let more of them be on one %s: berth group set %s --max-per-host %d", g.Rule.Domain(), g.Rule.Name, g.Rule.Most+1),
	}
}
