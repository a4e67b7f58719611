// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"slices"
	"strings"
)

// GroupName names a group within its project.
type GroupName string

// Group is a rule about where some instances of a project may run beside each other: its members are the instances that
// were booted with its name. It is an entry of the catalog.
type Group struct {
	Project Project
	Name    GroupName
	Policy  GroupPolicy
	// Most is how many members one domain may have under the anti-affinity policies; at least 1. 0 with the others.
	Most uint32
	// Over is the axis whose value is a member's domain; empty: its host is.
	Over AxisName
	// Spread is the axis on which each member gets the value with fewest members, unless it chooses one; empty: none.
	Spread AxisName
	// Skew is how many members on hosts one value of Spread may have more than another when one more comes; 0: any.
	Skew uint32
}

// MaxGroups is how many groups one project may have.
const MaxGroups = 1000

// MaxMost is the largest Most of a group.
const MaxMost = 10_000

// GroupPolicy is what a group asks of its members' domains.
type GroupPolicy uint8

// The policies. A hard one holds at every moment, and a member that would break it waits; a soft one is preferred for
// some time.
const (
	AntiAffinity     GroupPolicy = iota // at most Most members in one domain
	Affinity                            // all members in one domain
	SoftAntiAffinity                    // rather at most Most members in one domain
	SoftAffinity                        // rather all members in one domain
	SpreadOnly                          // nothing about domains: the group spreads its members, and that is all
)

var groupPolicyNames = [...]string{"anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity", "none"}

// String is the policy's name in APIs and on the command line.
func (p GroupPolicy) String() string { return name(groupPolicyNames[:], p, "group policy") }

// GroupPolicies are all of them.
func GroupPolicies() (all []GroupPolicy) {
	for p := range groupPolicyNames {
		all = append(all, GroupPolicy(p))
	}
	return all
}

// ParseGroupPolicy reads what String wrote.
func ParseGroupPolicy(s string) (GroupPolicy, error) {
	if i := slices.Index(groupPolicyNames[:], s); i >= 0 {
		return GroupPolicy(i), nil
	}
	return 0, Invalid("policy", s,
		"give anti-affinity, affinity, soft-anti-affinity, soft-affinity, or none with a spread")
}

// Soft says whether the policy is a preference.
func (p GroupPolicy) Soft() bool { return p == SoftAntiAffinity || p == SoftAffinity }

// Apart says whether the policy keeps members apart.
func (p GroupPolicy) Apart() bool { return p == AntiAffinity || p == SoftAntiAffinity }

// Together says whether the policy keeps members together.
func (p GroupPolicy) Together() bool { return p == Affinity || p == SoftAffinity }

// Check refuses a name that is none.
func (n GroupName) Check() error { return match(nameShape, "group", string(n), nameRemedy) }

// Check refuses a group that can never be right, whatever the rest of the catalog says.
func (g Group) Check() error {
	if err := g.Project.Check(); err != nil {
		return err
	}
	if err := g.Name.Check(); err != nil {
		return err
	}
	if g.Over != "" {
		if err := g.Over.Check(); err != nil {
			return err
		}
	}
	switch {
	case int(g.Policy) >= len(groupPolicyNames):
		return Invalid("policy", g.Policy.String(), "give one that this version knows")
	case g.Policy.Apart() && (g.Most < 1 || g.Most > MaxMost):
		return Invalid("max_per_host", fmt.Sprint(g.Most), fmt.Sprintf("give 1 to %d with %s", MaxMost, g.Policy))
	case g.Policy.Together() && g.Most != 0:
		return Invalid("max_per_host", fmt.Sprint(g.Most),
			"leave it out with "+g.Policy.String()+": all members are together")
	case g.Policy.Soft() && g.Over != "":
		return Invalid("over", string(g.Over), "give "+OverHosts+" with "+g.Policy.String()+
			": each request chooses its "+string(g.Over)+" itself, so there is nothing to prefer")
	}
	return g.checkSpread()
}

// OverHosts is what the API and the command line call the domain of a group that is over no axis.
const OverHosts = "host"

// Domain is what members of a group share or must not share.
func (g Group) Domain() string {
	if g.Over == "" {
		return OverHosts
	}
	return string(g.Over)
}

// Rule is the group's rule in words, as in "at most 1 on a host".
func (g Group) Rule() string {
	rather := ""
	if g.Policy.Soft() {
		rather = "rather "
	}
	var rules []string
	if g.Policy.Apart() {
		rules = append(rules, fmt.Sprintf("%sat most %d on one %s", rather, g.Most, g.Domain()))
	}
	if g.Policy.Together() {
		rules = append(rules, fmt.Sprintf("%sall on one %s", rather, g.Domain()))
	}
	return strings.Join(append(rules, g.spreads()...), ", ")
}

// PlacementRules are what a boot asks beside what its queue says. There is no instance without them but by the nil
// pointer, as most have none and an instance has no room for more than that (TestMillion of package conductor).
type PlacementRules struct {
	Group  GroupName // the group that it is a member of; empty: none
	Set    Set       // that it is of; a request for one boot has none
	Spread AxisName  // of an instance: the axis over which its group spread members when it was admitted; empty: none
	Chosen bool      // of an instance: the conductor chose its value on Spread, the request chose none

	Priority Priority // its class

	Preemptible Preemptible // whether its machine may be taken away
	Notice      *Notice     // of an instance: that its machine is to be taken away, or was last; nil: none was ever given
	MadeRoom    uint32      // of an instance: so many machines were taken away for it by the host that has it, or had it

	Reservation ReservationName // that it is to take a placeholder of; empty: none
	In          InPlaceholder   // of an instance: the placeholder that it has
	Placeholder Placeholder     // of an instance that is one
}

// Group is the group that the boot is for; empty: none.
func (b *Boot) Group() GroupName {
	if b.Rules == nil {
		return ""
	}
	return b.Rules.Group
}

// InGroup is the rules of a member of a group; nil for none.
func InGroup(g GroupName) *PlacementRules { return RulesOf(g, Set{}, PriorityNormal) }

// RulesOf are those of a request: the group, the set and the class that it names; nil for none, and for the normal
// class.
func RulesOf(g GroupName, s Set, p Priority) *PlacementRules {
	if g == "" && s == (Set{}) && p == PriorityNormal {
		return nil
	}
	return &PlacementRules{Group: g, Set: s, Priority: p}
}

// GroupKey says which group is meant.
type GroupKey struct {
	Project Project
	Name    GroupName
}

// Key is the group's.
func (g Group) Key() GroupKey { return GroupKey{g.Project, g.Name} }
