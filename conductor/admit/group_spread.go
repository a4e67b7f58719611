// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// A group may spread its members over the values of an axis. Two things come of it. A member that chooses no value gets
// one when it is admitted (spreadBoot), once and for all: the one with fewest members then, waiting ones too. And where
// the group has a Skew, a claim is denied that would give the member's value more than Skew members on hosts above
// another:
//
//	there[v] + 1 > Skew + stay[u]    for any other value u in the catalog
//
// where there counts what may be on a host, and stay what is starting or active: what is being deleted may still run,
// and will soon be gone. A claim that is kept for a set may be given back: it is there for all members, and stays for
// those of its set alone, with which it is granted. Members that the skew keeps back are held in lines, one for each
// slot, value and set, since a member must not wait for one that is kept back for longer.

// spread is what a group knows of the values of its members.
type spread struct {
	members counts // that have not ended, by value
	there   counts // of them: those that may be on a host
	stay    counts // of them: those that were granted and are not being deleted
	out     counts // members that were published and not claimed yet, by line; none where there is no skew
}

// spreadMark is how an entry is counted in its group's spread.
type spreadMark struct {
	value       compute.AxisValue // empty: it is not counted
	there, stay bool
	kept        bool // it is claimed, and the rest of its set is not
}

func (g *group) spreadMark(e *entry) spreadMark {
	if g.rule == nil || g.rule.Spread == "" || e.inst.Boot.With[g.rule.Spread] == "" {
		return spreadMark{}
	}
	return spreadMark{
		value: e.inst.Boot.With[g.rule.Spread], there: e.host() != "", stay: running(e.inst), kept: e.kept() != nil,
	}
}

// countSpread counts a member as it is now. One that begins to stay on a host may let members of other values go, and
// one whose claim is kept those of its set: it says whether it may.
func (g *group) countSpread(e *entry, next spreadMark) (frees bool) {
	was := e.in.spread
	if frees = was.value != "" && (next.stay && !was.stay || next.kept && !was.kept); frees {
		g.freed++
	}
	g.spread.count(was, -1)
	g.spread.count(next, 1)
	e.in.spread = next
	return frees
}

func (x *spread) count(m spreadMark, n int) {
	if m.value == "" {
		return
	}
	x.members.add(string(m.value), n)
	if m.there {
		x.there.add(string(m.value), n)
	}
	if m.stay {
		x.stay.add(string(m.value), n)
	}
}

// line is in what a member that is held waits: its slot, and where there is a skew its value and its set. What is kept
// for a set lets others of it go, which must not wait behind those that it does not let go.
func (g *group) line(e *entry) string {
	if g.rule == nil || g.rule.Skew == 0 {
		return g.slot(e)
	}
	return g.slot(e) + "\x00" + string(e.inst.Boot.With[g.rule.Spread]) + "\x00" + string(e.inst.Boot.Set().ID)
}

// skewLeft is how many members more the value of one that waits may have on hosts, and if that is none, why.
func (s *step) skewLeft(e *entry) (left uint32, why string) {
	g := e.group()
	if g.rule.Skew == 0 {
		return math.MaxUint32, ""
	}
	even := s.even(e)
	value := e.inst.Boot.With[g.rule.Spread]
	left, least := even.Left(value)
	if left > 0 {
		return left, ""
	}
	return 0, fmt.Sprintf("%s %s has %d, %s has %d", g.rule.Spread, value, even.There(value), least, even.Stay(least))
}

// skewRefuses is why one that waits may not be granted a host of its value; nil if it may.
func (s *step) skewRefuses(e *entry) *compute.Reason {
	if g := e.group(); g != nil && g.rule != nil {
		if left, why := s.skewLeft(e); left == 0 {
			return g.breaks(why)
		}
	}
	return nil
}

// skewLets says whether a member may be published, beside those of its line that are.
func (s *step) skewLets(e *entry) bool {
	left, _ := s.skewLeft(e)
	return e.in.group.spread.out.by[e.in.group.line(e)] < left
}

// even is how the members of an entry's group are spread over the values in the catalog, as it is to be granted: with
// what is kept for the rest of its set. The entry itself is not counted.
func (s *step) even(e *entry) compute.Even {
	g := e.group()
	there := func(a compute.AxisValue) uint32 {
		n := g.spread.there.by[string(a)]
		if m := e.in.spread; m.there && string(m.value) == string(a) {
			n--
		}
		return n
	}
	stay := func(a compute.AxisValue) uint32 {
		n := g.spread.stay.by[string(a)]
		if x := s.setOf(e.inst); x != nil && x.claimed > 0 {
			for other := range x.members {
				if m := other.in; other != e && m != nil && m.group == g && m.spread.kept && m.spread.value == a {
					n++
				}
			}
		}
		return n
	}
	return compute.Even{Skew: g.rule.Skew, Values: s.view.values(g.rule.Spread), There: there, Stay: stay}
}

// holdLoaded holds what waits since before the partition was loaded, of which nobody knows whether it is in a queue, so
// that it is published again as far as the skew lets it go: another conductor may have held any of it.
func (s *step) holdLoaded(g *group) {
	for _, e := range sorted(g.loaded) {
		s.hold(e)
		s.reschedule(e)
	}
}

// spreadBoot is a boot as its group has it: with the value that the conductor chooses for it, if the group spreads its
// members and the boot chooses none, or why there is no such value.
func (s *step) spreadBoot(p compute.Project, b compute.Boot) (compute.Boot, *compute.Reason) {
	b.Rules = b.AskedRules()
	rule, ok := s.view.Groups[compute.GroupKey{Project: p, Name: b.Group()}]
	if !ok || rule.Spread == "" {
		return b, nil
	}
	r := *b.Rules
	r.Spread, r.Chosen = rule.Spread, rule.Chooses(b)
	if r.Chosen {
		values, reason := s.view.offered(rule, b)
		if reason != nil {
			return b, reason
		}
		b = b.Having(rule.Spread, rule.Fewest(values, func(v compute.AxisValue) uint32 {
			n := s.beside[inValue{rule.Key(), v}]
			if g := s.groups[rule.Key()]; g != nil {
				n += g.spread.members.by[string(v)]
			}
			return n
		}))
	}
	b.Rules = &r
	if s.beside != nil {
		s.beside[inValue{rule.Key(), b.With[rule.Spread]}]++
	}
	return b, nil
}

// inValue are the members of a group that have a value.
type inValue struct {
	group compute.GroupKey
	value compute.AxisValue
}

// values are those of an axis in the catalog.
func (v View) values(axis compute.AxisName) []compute.AxisValue {
	values := make([]compute.AxisValue, 0, len(v.Capabilities[axis].Values))
	for _, x := range v.Capabilities[axis].Values {
		values = append(values, x.Value)
	}
	return values
}

// offered are the values on a group's axis of which a boot that chooses none can be given any, or why there are none. A
// boot for one host chooses itself: what that host has nobody here knows.
func (v View) offered(rule compute.Group, b compute.Boot) ([]compute.AxisValue, *compute.Reason) {
	refuse := func(code compute.ReasonCode, detail string) ([]compute.AxisValue, *compute.Reason) {
		return nil, &compute.Reason{Code: code,
			Detail: fmt.Sprintf("group %s spreads over %s, and %s", rule.Name, rule.Spread, detail)}
	}
	if _, reason := v.fromCatalog(b); reason != nil {
		return nil, reason
	}
	switch {
	case b.Host != "":
		return refuse(compute.GroupRule, "the request is for one host and does not choose the value that the host has")
	case len(b.With) >= compute.MaxChoices:
		return refuse(compute.GroupRule,
			fmt.Sprintf("the request chooses %d values, the most that it may", compute.MaxChoices))
	}
	all := v.values(rule.Spread)
	if !slices.Contains(v.Flavors[b.Flavor].Capabilities, rule.Spread) || len(all) == 0 {
		return refuse(compute.NoSuchCapability, fmt.Sprintf("flavor %s is not offered with it", b.Flavor))
	}
	open := slices.DeleteFunc(slices.Clone(all), func(value compute.AxisValue) bool {
		_, reason := v.Resolve(b.Having(rule.Spread, value))
		return reason != nil
	})
	if len(open) == 0 {
		return refuse(compute.QueueClosedReason,
			fmt.Sprintf("no queue of flavor %s with a value of it takes requests", b.Flavor))
	}
	return open, nil
}

// Unnamed is why the catalog does not have what a boot asks for, as far as it is known: nil if it has all.
func (v View) Unnamed(p compute.Project, b compute.Boot) *compute.Reason {
	_, reason := v.Resolve(b)
	if rule, ok := v.Groups[compute.GroupKey{Project: p, Name: b.Group()}]; ok && rule.Chooses(b) {
		_, reason = v.offered(rule, b)
	}
	return reason
}
