// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"iter"
	"math"

	"github.com/berth-project/berth/pkg/compute"
)

// spread has what was asked for be what a conductor made of it, for boots that choose no value where their group spreads
// members: with the value in the first record of the instance. Whether it is the right one checkSpread looks at.
func (r *Recording) spread(all map[string]Wanted) {
	for _, w := range r.Log {
		x, ok := all[w.Instance.Boot.Name]
		if w.Removed || w.Instance.Version != 1 || !ok {
			continue
		}
		g, ok := r.Schedule.World.Group(compute.GroupKey{Project: x.Project, Name: x.Boot.Group()})
		value := w.Instance.Boot.With[g.Spread]
		if !ok || !g.Chooses(x.Boot) || value == "" || w.Instance.Project != x.Project {
			continue
		}
		if _, offered := r.Schedule.Axis(g.Spread).Value(value); offered {
			a, boot := x.Ask, x.Ask.Load.Boot.Having(g.Spread, value)
			a.Load.Boot = &boot
			all[w.Instance.Boot.Name] = want(r.Schedule, a)
		}
	}
}

// checkSpread holds for each group that spreads its members, in the order of the log, in which their conductor decided:
//
//   - a member that chose no value was given one that had the fewest members which had not ended;
//   - I7: a member was granted its host only where its value then had at most the skew more members on hosts than any
//     other, of which what was being deleted does not count; and as it began to run, no more members with its value ran
//     than that, as the last of them was granted. Members that go later may leave the values as uneven as they like.
//
// Values are those of the schedule, which no load changes while groups spread over them.
func (r *Recording) checkSpread(groups map[compute.InstanceID]compute.Group, runs []run) (wrong []Violation) {
	last, fewest := map[compute.InstanceID]compute.Instance{}, map[grant]granted{}
	for n, w := range r.Log {
		i := w.Instance
		old := last[i.ID]
		if last[i.ID] = i; w.Removed {
			delete(last, i.ID)
			continue
		}
		rule, ok := groups[i.ID]
		if !ok || rule.Spread == "" {
			continue
		}
		axis := r.Schedule.Axis(rule.Spread)
		if i.Version == 1 && i.State == compute.StateQueued && i.Boot.Spread().Chosen {
			if why := notFewest(last, i, rule, axis); why != "" {
				wrong = append(wrong, broken("spread", i.ID, w.Seen, "%s is given %s, of which there are more: %s",
					i.Boot.Name, i.Boot.With[rule.Spread], why)...)
			}
		}
		if i.State == compute.StateStarting && old.State != compute.StateStarting {
			fewest[grant{i.ID, i.Attempt, i.Host}] = granted{n, leastElsewhere(last, i, rule, axis)}
			if why := Uneven(last, i, rule, axis); why != "" {
				wrong = append(wrong, broken("I7", i.ID, w.Seen, "%s is granted to %s: group %s, %s, and %s",
					i.Boot.Name, i.Host, rule.Name, rule.Rule(), why)...)
			}
		}
	}
	return append(wrong, checkRunning(groups, last, fewest, runs)...)
}

// grant is one of an attempt to a host.
type grant struct {
	instance compute.InstanceID
	attempt  compute.Attempt
	host     compute.HostID
}

// granted is where in the log it was, and how many members then had the value of which fewest had, of others.
type granted struct {
	at    int
	least uint32
}

// checkRunning holds the skew by what hypervisors ran.
func checkRunning(
	groups map[compute.InstanceID]compute.Group, last map[compute.InstanceID]compute.Instance, fewest map[grant]granted,
	runs []run,
) (wrong []Violation) {
	for _, now := range runs {
		rule, ok := groups[now.instance]
		value := last[now.instance].Boot.With[rule.Spread]
		if !ok || rule.Skew == 0 || value == "" {
			continue
		}
		here, latest, known := uint32(0), granted{at: -1}, true
		for _, x := range runs {
			if groups[x.instance] != rule || !x.at(now.from) || last[x.instance].Boot.With[rule.Spread] != value {
				continue
			}
			here++
			g, ok := fewest[grant{x.instance, x.attempt, x.host}]
			if known = known && ok; g.at > latest.at { // what runs without a grant is I2
				latest = g
			}
		}
		if known && latest.least != math.MaxUint32 && here > rule.Skew+latest.least {
			wrong = append(wrong, broken("I7", now.instance, now.from, "%d of group %s run with %s=%s, and fewest others %d: %s",
				here, rule.Name, rule.Spread, value, latest.least, rule.Rule())...)
		}
	}
	return wrong
}

// Uneven is why an instance may not have a host by the skew of its group, beside the others as they are; empty: it may.
func Uneven(all map[compute.InstanceID]compute.Instance, i compute.Instance, rule compute.Group, axis compute.Capability) string {
	value := i.Boot.With[rule.Spread]
	if rule.Skew == 0 || value == "" {
		return ""
	}
	there, least := uint32(0), leastElsewhere(all, i, rule, axis)
	for other := range others(all, i, rule) {
		if other.State.OnHost() && other.Boot.With[rule.Spread] == value {
			there++
		}
	}
	if least == math.MaxUint32 || there+1 <= rule.Skew+least {
		return ""
	}
	return fmt.Sprintf("%d are there with %s=%s, and %d with another", there, rule.Spread, value, least)
}

// leastElsewhere is how many members that are not being deleted are on hosts with the value of which fewest are, beside
// that of an instance.
func leastElsewhere(
	all map[compute.InstanceID]compute.Instance, i compute.Instance, rule compute.Group, axis compute.Capability,
) uint32 {
	by := map[compute.AxisValue]uint32{}
	for other := range others(all, i, rule) {
		if other.State == compute.StateStarting || other.State == compute.StateActive {
			by[other.Boot.With[rule.Spread]]++
		}
	}
	least := uint32(math.MaxUint32)
	for _, v := range axis.Values {
		if v.Value != i.Boot.With[rule.Spread] {
			least = min(least, by[v.Value])
		}
	}
	return least
}

// notFewest says how a value is not one with fewest members; empty: it is.
func notFewest(
	all map[compute.InstanceID]compute.Instance, i compute.Instance, rule compute.Group, axis compute.Capability,
) string {
	by := map[compute.AxisValue]int{}
	for other := range others(all, i, rule) {
		if !other.State.Ended() {
			by[other.Boot.With[rule.Spread]]++
		}
	}
	for _, v := range axis.Values {
		if by[v.Value] < by[i.Boot.With[rule.Spread]] {
			return fmt.Sprint(by)
		}
	}
	return ""
}

// others are those of the group of an instance, without itself.
func others(all map[compute.InstanceID]compute.Instance, i compute.Instance, rule compute.Group) iter.Seq[compute.Instance] {
	return func(yield func(compute.Instance) bool) {
		for _, other := range all {
			if other.ID != i.ID && other.Project == i.Project && other.Boot.Group() == rule.Name && !yield(other) {
				return
			}
		}
	}
}
