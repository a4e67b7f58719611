// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// rulesAt are the rules that a group may have had for who decided something then, which was in the log later.
func (r *Recording) rulesAt(key compute.GroupKey, decided, logged time.Time) (all []compute.Group) {
	asks, before := r.inForce(decided, logged,
		func(a Ask) bool { return a.Op == schedule.LoadGroup && a.Group.Key() == key && a.Began.After(r.Start) },
		func(a Ask) bool { return !r.deafConductor(a.Answered, decided) })
	if first, ok := r.Schedule.World.Group(key); ok && before {
		all = append(all, first)
	}
	for _, a := range asks {
		all = append(all, *a.Group)
	}
	return all
}

// RulesNow are those that a group may have now.
func (r *Recording) RulesNow(key compute.GroupKey) []compute.Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rulesAt(key, time.Now(), time.Now())
}

// mayHaveToChoose says whether the rule of its group may have been over values of which a boot chooses none.
func (r *Recording) mayHaveToChoose(p compute.Project, b compute.Boot, decided, logged time.Time) bool {
	rules := r.rulesAt(compute.GroupKey{Project: p, Name: b.Group()}, decided, logged)
	return slices.ContainsFunc(rules, func(g compute.Group) bool { return g.Over != "" && b.With[g.Over] == "" })
}

// domainOf is where a member counts under a rule that is about this; false: it chose no value, so the rule says nothing of it.
func domainOf(rule compute.Group, i compute.Instance, host compute.HostID) (string, bool) {
	if rule.Over == "" {
		return string(host), true
	}
	v, chosen := i.Boot.With[rule.Over]
	return string(v), chosen
}

// RuledOut says whether the hard rule of a group keeps an instance from a host, as the others are. Of one without a value
// nobody promises that it starts where the rule is over values.
func RuledOut(all map[compute.InstanceID]compute.Instance, rule compute.Group, i compute.Instance, h compute.HostID) bool {
	if rule.Policy.Soft() {
		return false
	}
	d, chosen := domainOf(rule, i, h)
	here, there := uint32(0), uint32(0)
	for other := range others(all, i, rule) {
		if other.State.OnHost() {
			if of, _ := domainOf(rule, other, other.Host); of == d {
				here++
			}
			there++
		}
	}
	return !chosen || rule.Policy == compute.AntiAffinity && here >= rule.Most || rule.Policy == compute.Affinity && here < there
}

// checkChangedRules: I7 where rules are changed: no member is granted a host against each rule that may have been in force when
// that was decided, by the order of the log; and no more run beside each other than the last of them could be granted. Members
// that were there before a rule was changed stay.
func (r *Recording) checkChangedRules(groups map[compute.InstanceID]compute.Group, runs []run) (wrong []Violation) {
	last, inForce := map[compute.InstanceID]compute.Instance{}, map[grant]ruled{}
	for n, w := range r.Log {
		i, old := w.Instance, last[w.Instance.ID]
		if last[i.ID] = i; w.Removed {
			delete(last, i.ID)
			continue
		}
		first, member := groups[i.ID]
		if !member || first.Over == "" && !r.Schedule.Regroups(first.Key()) || i.State != compute.StateStarting || old.State == compute.StateStarting {
			continue
		}
		rules := r.rulesAt(first.Key(), r.claimedAt(i, w.Seen), w.Seen)
		inForce[grant{i.ID, i.Attempt, i.Host}] = ruled{n, rules}
		if all(rules, func(rule compute.Group) bool { return breaks(last, rule, i) }) {
			wrong = append(wrong, broken("I7", i.ID, w.Seen, "%s is granted to %s against each rule that group %s may have had: %s",
				i.Boot.Name, i.Host, first.Name, rulesOf(rules))...)
		}
	}
	return append(wrong, checkRunningBeside(groups, last, inForce, runs)...)
}

// ruled is where in the log a grant is, and the rules that may have been in force then.
type ruled struct {
	at    int
	rules []compute.Group
}

func all(rules []compute.Group, is func(compute.Group) bool) bool {
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(g compute.Group) bool { return !is(g) })
}

func rulesOf(rules []compute.Group) (text string) {
	for _, g := range rules {
		text += "; " + g.Rule()
	}
	return text[min(2, len(text)):]
}

// breaks says whether an instance that is granted its host breaks a rule.
func breaks(all map[compute.InstanceID]compute.Instance, rule compute.Group, i compute.Instance) bool {
	_, chosen := domainOf(rule, i, i.Host)
	return chosen && RuledOut(all, rule, i, i.Host)
}

// claimedAt is when the claim that was granted was in the log; if that was not seen, the moment itself.
func (r *Recording) claimedAt(i compute.Instance, seen time.Time) time.Time {
	for _, c := range r.Claims {
		if c.Claim == i.Claim && c.Seen.Before(seen) {
			return c.Seen
		}
	}
	return seen
}

// checkRunningBeside holds rules by what hypervisors ran.
func checkRunningBeside(
	groups map[compute.InstanceID]compute.Group, last map[compute.InstanceID]compute.Instance, inForce map[grant]ruled, runs []run,
) (wrong []Violation) {
	for _, now := range runs {
		group, member := groups[now.instance]
		if _, known := inForce[now.grant()]; !member || !known {
			continue // what runs without a grant is I2
		}
		var beside []run
		for _, x := range runs {
			if groups[x.instance] == group && x.at(now.from) {
				beside = append(beside, x)
			}
		}
		if rules := brokenBeside(last, inForce, now, beside); len(rules) > 0 {
			wrong = append(wrong, broken("I7", now.instance, now.from, "%s runs on %s beside %d others of group %s, against each rule that "+
				"it may have had: %s", last[now.instance].Boot.Name, now.host, len(beside)-1, group.Name, rulesOf(rules))...)
		}
	}
	return wrong
}

// brokenBeside are the rules of which each is broken by members that run at a time; none: that is not so. A rule that
// keeps members apart is that of the newest grant in the domain of the one judged: what was granted elsewhere meanwhile,
// under another, says nothing of these. One that keeps them together is that of the newest of all.
func brokenBeside(
	last map[compute.InstanceID]compute.Instance, inForce map[grant]ruled, now run, beside []run,
) []compute.Group {
	newest := newestOf(inForce, beside)
	axes := map[compute.AxisName]bool{"": true}
	for _, x := range beside {
		for _, rule := range inForce[x.grant()].rules {
			axes[rule.Over] = true
		}
	}
	for over := range axes {
		latest := newestOf(inForce, inDomain(over, last, now, beside))
		if all(latest.rules, func(rule compute.Group) bool {
			apart := rule.Policy == compute.AntiAffinity && rule.Over == over
			together := rule.Policy == compute.Affinity && latest.at == newest.at
			return (apart || together) && tooManyBeside(rule, last, now, beside)
		}) {
			return latest.rules
		}
	}
	if all(newest.rules, func(rule compute.Group) bool {
		return rule.Policy == compute.Affinity && tooManyBeside(rule, last, now, beside)
	}) {
		return newest.rules
	}
	return nil
}

func (x run) grant() grant { return grant{x.instance, x.attempt, x.host} }

// newestOf is the newest grant of what runs.
func newestOf(inForce map[grant]ruled, of []run) ruled {
	latest := ruled{at: -1}
	for _, x := range of {
		if g, known := inForce[x.grant()]; known && g.at > latest.at {
			latest = g
		}
	}
	return latest
}

// inDomain are those of the runs that are where one is, under a rule that is over this.
func inDomain(over compute.AxisName, last map[compute.InstanceID]compute.Instance, now run, runs []run) (near []run) {
	rule := compute.Group{Over: over}
	d, chosen := domainOf(rule, last[now.instance], now.host)
	for _, x := range runs {
		if of, ok := domainOf(rule, last[x.instance], x.host); chosen && ok && of == d {
			near = append(near, x)
		}
	}
	return near
}

// tooManyBeside says whether members that run break a rule, which may only be held against them if the last was granted under it.
func tooManyBeside(rule compute.Group, last map[compute.InstanceID]compute.Instance, now run, beside []run) bool {
	d, chosen := domainOf(rule, last[now.instance], now.host)
	here, elsewhere := 0, 0
	for _, x := range beside {
		switch of, ok := domainOf(rule, last[x.instance], x.host); {
		case ok && of == d:
			here++
		case ok:
			elsewhere++
		}
	}
	switch {
	case !chosen || rule.Policy.Soft():
		return false
	case rule.Policy == compute.AntiAffinity:
		return here > int(rule.Most)
	}
	return rule.Policy == compute.Affinity && elsewhere > 0
}
