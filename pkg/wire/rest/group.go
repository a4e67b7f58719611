// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/berth-project/berth/pkg/compute"

// Group is a rule about where some instances of a project may run beside each other.
type Group struct {
	Name compute.GroupName `json:"name" example:"web" doc:"Within the project: 1 to 64 lower-case letters, digits, dots, dashes and underscores."`
	GroupRule
}

// GroupRule is what a group asks.
type GroupRule struct {
	Policy string           `json:"policy" enum:"anti-affinity,affinity,soft-anti-affinity,soft-affinity,none" doc:"Whether members are kept apart or together; the soft ones are preferred for a time. None, of a group that spreads its members alone."`
	Most   uint32           `json:"max_per_host,omitempty" doc:"How many members one host may have, or one value of the capability that it is over; of those that keep members apart alone. 0 or left out: 1."`
	Over   compute.AxisName `json:"over,omitempty" example:"host" doc:"What members share or must not share: \"host\", which is what is meant if it is left out, or a capability, of which each member chooses a value."`
	Spread compute.AxisName `json:"spread,omitempty" example:"zone" doc:"A capability: a member that chooses no value of it gets the one with fewest members when it is admitted."`
	Skew   uint32           `json:"max_skew,omitempty" doc:"How many members on hosts one value of spread may have more than another when one more comes; a member that would break it waits. 0 or left out: any number."`
}

// Compute is the group in the words of package compute.
func (g Group) Compute(p compute.Project) (compute.Group, error) {
	policy, err := compute.ParseGroupPolicy(g.Policy)
	if err != nil {
		return compute.Group{}, err
	}
	out := compute.Group{Project: p, Name: g.Name, Policy: policy, Most: g.Most, Over: g.Over,
		Spread: g.Spread, Skew: g.Skew}
	if out.Over == compute.OverHosts {
		out.Over = ""
	}
	if out.Policy.Apart() {
		out.Most = max(out.Most, 1)
	}
	return out, out.Check()
}

// GroupChange changes some of a group's rule. What is left out stays, and so does what is null.
type GroupChange struct {
	Policy *string           `json:"policy,omitempty" enum:"anti-affinity,affinity,soft-anti-affinity,soft-affinity,none" doc:"Another policy. One that keeps no members apart takes max_per_host out with it, and none takes over out."`
	Most   *uint32           `json:"max_per_host,omitempty" doc:"0: 1, with the policies that keep members apart."`
	Over   *compute.AxisName `json:"over,omitempty" example:"host" doc:"\"host\", or a capability. Empty: host."`
	Spread *compute.AxisName `json:"spread,omitempty" example:"zone" doc:"A capability. Empty: none, and no max_skew."`
	Skew   *uint32           `json:"max_skew,omitempty" doc:"0: any number."`
}

// Apply is a group after the change.
func (c GroupChange) Apply(g compute.Group) (compute.Group, error) {
	if c.Policy != nil {
		policy, err := compute.ParseGroupPolicy(*c.Policy)
		if err != nil {
			return g, err
		}
		if g.Policy = policy; !policy.Apart() {
			g.Most = 0
		}
		if policy == compute.SpreadOnly {
			g.Over = ""
		}
	}
	if c.Most != nil {
		g.Most = *c.Most
	}
	if g.Policy.Apart() {
		g.Most = max(g.Most, 1)
	}
	if c.Over != nil {
		if g.Over = *c.Over; g.Over == compute.OverHosts {
			g.Over = ""
		}
	}
	if c.Spread != nil {
		if g.Spread = *c.Spread; g.Spread == "" {
			g.Skew = 0
		}
	}
	if c.Skew != nil {
		g.Skew = *c.Skew
	}
	return g, g.Check()
}

// FromGroup shows a group.
func FromGroup(g compute.Group) Group {
	return Group{Name: g.Name, GroupRule: GroupRule{
		Policy: g.Policy.String(), Most: g.Most, Over: compute.AxisName(g.Domain()), Spread: g.Spread, Skew: g.Skew,
	}}
}

// GroupView is a group with what became of its members.
type GroupView struct {
	Project compute.Project `json:"project"`
	Group
	Rule    string        `json:"rule" example:"at most 1 on one host" doc:"The rule in words."`
	Members int           `json:"members" doc:"Instances that were booted with its name and have not ended."`
	Placed  int           `json:"placed" doc:"Of them: those that may run on a host."`
	Waiting int           `json:"waiting" doc:"Of them: those that no host has yet."`
	Breaks  bool          `json:"breaks" doc:"Some that are placed break the rule: it was another, or a preference, when they came."`
	Domains []GroupDomain `json:"domains,omitempty" nullable:"false" doc:"Where they are, most members first. In lists it is left out."`
	Values  []GroupValue  `json:"values,omitempty" nullable:"false" doc:"Of a group with a spread: the values of that capability, and what else members have of it, by name."`
}

// GroupValue is one value of the capability that a group spreads its members over.
type GroupValue struct {
	Value   compute.AxisValue `json:"value" example:"a"`
	Members int               `json:"members" doc:"Instances with this value that have not ended: a new member goes where these are fewest."`
	Placed  int               `json:"placed" doc:"Of them: those that may run on a host."`
	Full    bool              `json:"full,omitempty" doc:"No more may be placed there now, by max_skew."`
}

// GroupDomain is one host, or one value of a capability, with members on it.
type GroupDomain struct {
	Domain  string `json:"domain" doc:"The host, by its opaque id for callers without a role of the cell, or the value."`
	Members int    `json:"members"`
	Breaks  bool   `json:"breaks,omitempty" doc:"Members there break the rule."`
}

// Groups is a list.
type Groups struct {
	Items []GroupView `json:"items" nullable:"false"`
	Next  string      `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}
