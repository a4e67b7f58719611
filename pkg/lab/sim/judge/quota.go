// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// checkQuotaExact: I3, both ways: nothing is refused that fits any limit that may have
// been in force, and nothing is admitted that fits none of them. What a project uses follows
// from what clients asked for and from the order of the log; a refusal says its numbers.
func checkQuotaExact(r *Recording) (wrong []Violation) {
	used := map[compute.Project]compute.Resources{}
	last, asked := map[compute.InstanceID]compute.Instance{}, r.wanted()
	for _, w := range r.Log {
		i := w.Instance
		old, known := last[i.ID]
		last[i.ID] = i
		x, ok := asked[i.Boot.Name]
		if w.Removed || !ok {
			continue
		}
		takes := x.takes()
		before := used[x.Project]
		if i.State.Counts() && !old.State.Counts() {
			used[x.Project] = before.Plus(takes)
		} else if !i.State.Counts() && old.State.Counts() {
			used[x.Project] = before.Minus(takes)
		}
		if known {
			continue
		}
		limits := r.limitsAt(x.Project, i.ChangedAt, w.Seen)
		fits := func(l compute.Resources) bool { return lacking(before, takes, l) == "" }
		asks := takes // of a quota; of one of a set that is refused: all of it
		if i.Reason != nil && i.Reason.Code == compute.QuotaExceeded {
			asks = r.asksWith(x)
		}
		switch n := i.Reason; {
		case i.State == compute.StateQueued && !slices.ContainsFunc(limits, fits):
			class := lacking(before, takes, limits[len(limits)-1])
			wrong = append(wrong, broken("quota", i.ID, w.Seen,
				"%s was admitted: %s uses %d %s, it takes %d, and the limits are %v",
				i.Boot.Name, x.Project, before[class], class, takes[class], limits)...)
		case n == nil || n.Code != compute.QuotaExceeded:
		case n.Asked != asks[shortOf(n)] || !slices.ContainsFunc(limits, func(l compute.Resources) bool {
			most, is := l[shortOf(n)]
			return is && most == n.Limit && asks[shortOf(n)] > most-before[shortOf(n)]
		}):
			wrong = append(wrong, broken("quota", i.ID, w.Seen,
				"%s was refused for %d %s of %d: %s uses %d, it takes %d, and the limits are %v",
				i.Boot.Name, n.Asked, shortOf(n), n.Limit, x.Project, before[shortOf(n)], asks[shortOf(n)], limits)...)
		}
	}
	return wrong
}

// takes is what a boot takes of its project's quota.
func (x Wanted) takes() compute.Resources {
	return counted(x.Boot.Priority(), x.Resources.Plus(compute.Resources{compute.Instances: 1}))
}

// counted is an amount with the part of it that counts in the limits of a class of priority: "high:VCPU" beside "VCPU".
func counted(p compute.Priority, r compute.Resources) compute.Resources {
	return r.Plus(prefixed(p, r))
}

func prefixed(p compute.Priority, r compute.Resources) compute.Resources {
	out := compute.Resources{}
	for class, n := range r {
		out[ofClass(p, class)] = n
	}
	return out
}

func ofClass(p compute.Priority, class compute.ResourceClass) compute.ResourceClass {
	return compute.ResourceClass(p.String()+":") + class
}

// shortOf is what a refusal says is short.
func shortOf(r *compute.Reason) compute.ResourceClass {
	if p, of := r.Part.Priority(); of {
		return ofClass(p, r.Resource)
	}
	return r.Resource
}

// asksWith is what is asked of a quota with a boot: all of its set.
func (r *Recording) asksWith(x Wanted) compute.Resources {
	all := x.takes()
	for _, a := range r.sets()[x.Set] {
		if a.Name != x.Name {
			all = all.Plus(want(r.Schedule, a).takes())
		}
	}
	return all
}

// lacking is the first class of which a project would use more than it may; empty: none.
func lacking(used, takes, limit compute.Resources) compute.ResourceClass {
	for _, class := range takes.Classes() {
		if most, limited := limit[class]; limited && takes[class] > most-used[class] {
			return class
		}
	}
	return ""
}

// limitsAt are the limits that may have been in force when something was decided, which
// was in the log then.
func (r *Recording) limitsAt(p compute.Project, decided, logged time.Time) (limits []compute.Resources) {
	asks, before := r.inForce(decided, logged, func(a Ask) bool { return a.Op == schedule.LoadQuota && a.Project == p },
		func(a Ask) bool { return !r.deafConductor(a.Answered, decided) })
	if before {
		limits = append(limits, compute.Resources{}) // none in the beginning
	}
	for _, a := range asks {
		all := a.Limits.Plus(nil)
		for p, of := range a.Classes {
			all = all.Plus(prefixed(p, of))
		}
		limits = append(limits, all)
	}
	return limits
}

// inForce are the changes of one thing that may have been the last when something was decided, which was in the log then:
// each that was asked for by then, unless it had an answer before a later one was asked for, which had been answered
// for so long that every conductor had heard of it. before says whether there may have been none. Not all that is
// answered was heard of.
func (r *Recording) inForce(decided, logged time.Time, about, heard func(Ask) bool) (last []Ask, before bool) {
	var all, known []Ask
	for _, a := range r.Asks {
		if !about(a) || a.Began.After(logged) || notMade(a) {
			continue
		}
		if all = append(all, a); a.OK && a.Answered.Add(quotaHeard).Before(decided) && heard(a) {
			known = append(known, a)
		}
	}
	for _, b := range all {
		if !slices.ContainsFunc(known, func(a Ask) bool { return !b.Answered.IsZero() && b.Answered.Before(a.Began) }) {
			last = append(last, b)
		}
	}
	return last, len(known) == 0
}

// notMade says whether a change was refused since there was another: where it was asked for once, it was not made. One
// that was made at the same time as another was there until it was taken back.
func notMade(a Ask) bool {
	return !a.OK && !a.Answered.IsZero() && a.Tries <= 1 && a.Why != nil && a.Why.Kind == compute.KindConflict &&
		!strings.Contains(a.Why.Message, "at the same time")
}
