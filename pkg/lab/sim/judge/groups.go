// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// checkGroups: I7: at no moment do the running members of a group break its hard rule. Which are members, and what the rule
// is, is what clients asked for; which run, and where, is what hypervisors did.
func checkGroups(r *Recording) (wrong []Violation) {
	if len(r.Schedule.World.Groups) == 0 {
		return nil
	}
	groups, names := r.members()
	runs := r.runs()
	for _, now := range runs {
		rule, ok := groups[now.instance]
		if !ok || rule.Policy.Soft() || rule.Over != "" || r.Schedule.Regroups(rule.Key()) {
			continue // checkChangedRules
		}
		here, elsewhere := uint32(1), ""
		for _, other := range runs {
			in, member := groups[other.instance]
			if !member || in != rule || other.instance == now.instance || !other.at(now.from) {
				continue
			}
			if other.host == now.host {
				here++
			} else {
				elsewhere = names[other.instance] + " on " + string(other.host)
			}
		}
		if rule.Policy == compute.AntiAffinity && here > rule.Most {
			wrong = append(wrong, broken("I7", now.instance, now.from, "%s runs on %s as member %d of group %s there: %s",
				names[now.instance], now.host, here, rule.Name, rule.Rule())...)
		}
		if rule.Policy == compute.Affinity && elsewhere != "" {
			wrong = append(wrong, broken("I7", now.instance, now.from, "%s runs on %s, and %s: group %s, %s",
				names[now.instance], now.host, elsewhere, rule.Name, rule.Rule())...)
		}
	}
	wrong = append(wrong, r.checkChangedRules(groups, runs)...)
	return append(wrong, r.checkSpread(groups, runs)...)
}

// at says whether the machine ran at a moment. One that ended then did not.
func (x run) at(t time.Time) bool { return !x.from.After(t) && x.to.After(t) }

// members are the rules of the instances that were asked for as members of a group, and what these are called.
func (r *Recording) members() (rules map[compute.InstanceID]compute.Group, names map[compute.InstanceID]string) {
	rules, names = map[compute.InstanceID]compute.Group{}, map[compute.InstanceID]string{}
	asked := r.wanted()
	for _, w := range r.Log {
		x, ok := asked[w.Instance.Boot.Name]
		if !ok || x.Boot.Group() == "" {
			continue
		}
		if rule, ok := r.Schedule.World.Group(compute.GroupKey{Project: x.Project, Name: x.Boot.Group()}); ok {
			rules[w.Instance.ID], names[w.Instance.ID] = rule, x.Name
		}
	}
	return rules, names
}

// memberNamed says whether a boot of this name was asked for as a member of a group: it may be held, and published again.
func (r *Recording) memberNamed(name string) bool {
	return slices.ContainsFunc(r.Asks, func(a Ask) bool {
		return a.Op == schedule.LoadBoot && a.Name == name && a.Load.Boot.Group() != ""
	})
}

// overByRule says whether the rule of a group forbade a claim of what was ended at a moment: its host was told so, or
// what conductors say may not have come through. Of a group that was made late a conductor may not know the rule, and
// forbids it while it cannot read it.
func (r *Recording) overByRule(i compute.Instance, c Claimed, ended time.Time) bool {
	forbids := r.Schedule.World.LateAt > 0 || strings.Contains(i.Reason.Detail, string(compute.GroupRule))
	unheard := r.Schedule.DelaysEffects(c.Seen.Sub(r.Start), ended.Sub(r.Start))
	return r.memberNamed(i.Boot.Name) && forbids && unheard || r.deniedByGroup(c.Claim)
}

// deniedByGroup says whether a host was told that the rule of a group forbids its claim.
func (r *Recording) deniedByGroup(claim compute.ClaimID) bool {
	return slices.ContainsFunc(r.Denials, func(d Denied) bool {
		return d.Claim == claim && d.Reason != nil && d.Reason.Code == compute.GroupRule
	})
}
