// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// alike has an instance be asked for as vm-1 was, be granted a host a second before that moment, and run there from it
// on.
func alike(r *Recording, id compute.InstanceID, host compute.HostID, from schedule.Seconds) {
	a, later := r.Asks[0], moment(from).Sub(moment(4))
	a.Name, a.ID = string(id), id
	r.Asks = append(r.Asks, a)
	for _, w := range slices.Clone(r.Log[:3]) {
		i := &w.Instance
		w.Offset, w.Seen, i.ChangedAt = int64(len(r.Log)), w.Seen.Add(later), i.ChangedAt.Add(later)
		if i.ID, i.Boot.Name = id, string(id); i.Host != "" {
			i.Host = host
		}
		r.Log = append(r.Log, w)
	}
	r.Works = append(r.Works, Worked{host, id, "Prepare", moment(from - 2), moment(from - 1)})
	e := fake.Event{At: moment(from), Kind: fake.Launched, Host: host, Instance: id, Attempt: 1}
	r.Machines = append(r.Machines, e)
}

// ofGroup has vm-1 be a member of a group with that rule.
func ofGroup(g compute.Group, change func(*Recording)) func(*Recording) {
	return func(r *Recording) {
		g.Project, g.Name = "red", "g"
		r.Schedule.World.Groups = []compute.Group{g}
		r.Asks[0].Boot.Rules = compute.InGroup("g")
		for n := range r.Log {
			r.Log[n].Instance.Boot.Rules = compute.InGroup("g")
		}
		change(r)
	}
}

// zoned has an instance be in a zone that its client chose.
func zoned(r *Recording, id compute.InstanceID, value compute.AxisValue) {
	for n := range r.Asks {
		if a := &r.Asks[n]; a.ID == id {
			b := a.Boot.Having("zone", value)
			a.Boot = &b
		}
	}
	for n := range r.Log {
		if i := &r.Log[n].Instance; i.ID == id {
			i.Boot = i.Boot.Having("zone", value)
		}
	}
}

func TestCheckGroups(t *testing.T) {
	also := func(host compute.HostID) func(*Recording) {
		return func(r *Recording) { alike(r, "vm-2", host, 30) }
	}
	most := func(n uint32) compute.Group { return compute.Group{Policy: compute.AntiAffinity, Most: n} }
	soft, near := compute.Group{Policy: compute.SoftAntiAffinity, Most: 1}, compute.Group{Policy: compute.Affinity}
	sees(t, checkGroups, map[string]func(*Recording){
		"vm-2 runs on host-1 as member 2 of group g there: at most 1 on one host": ofGroup(most(1), also("host-1")),
		"right: apart from it":    ofGroup(most(1), also("host-2")),
		"right: two may be there": ofGroup(most(2), also("host-1")),
		"vm-3 runs on host-1 as member 3 of": ofGroup(most(2), func(r *Recording) {
			also("host-1")(r)
			alike(r, "vm-3", "host-1", 40)
		}),
		"right: rather apart":              ofGroup(soft, also("host-1")),
		"right: the first ended just then": ofGroup(most(1), func(r *Recording) { givenUp(r, 30); also("host-1")(r) }),
		"right: it is of no group": ofGroup(most(1), func(r *Recording) {
			also("host-1")(r)
			b := *r.Asks[1].Boot
			b.Rules, r.Asks[1].Boot = nil, &b
		}),
		"vm-2 runs on host-2, and vm-1 on host-1: group g, all on one host": ofGroup(near, also("host-2")),
		"right: beside it": ofGroup(near, also("host-1")),
	})
}

// Where a rule is changed, members are judged by what it may have been when they were granted their hosts. Rules over
// values are judged in the same way.
func TestCheckGroupsOfChangedRules(t *testing.T) {
	one := compute.Group{Policy: compute.AntiAffinity, Most: 1}
	two := compute.Group{Policy: compute.AntiAffinity, Most: 2}
	// changed has the rule become another at 10 s, and vm-2 run on host-1, too, from a later moment on.
	changed := func(from, to compute.Group, runs schedule.Seconds, before func(*Recording)) func(*Recording) {
		return ofGroup(from, func(r *Recording) {
			before(r)
			to.Project, to.Name = "red", "g"
			l := schedule.Load{At: 10, Op: schedule.LoadGroup, Group: &to}
			r.Schedule.Load = append(r.Schedule.Load, l)
			alike(r, "vm-2", "host-1", runs)
			r.asks(10, l, nil)
		})
	}
	nothing := func(*Recording) {}
	gone := func(r *Recording) { becomes(r, 8, compute.StateDeleted) }
	// over has vm-1 be in zone a, and vm-2, on another host, in this one.
	over := func(value compute.AxisValue) func(*Recording) {
		return ofGroup(compute.Group{Policy: compute.AntiAffinity, Most: 1, Over: "zone"}, func(r *Recording) {
			zoned(r, madeID, "a")
			alike(r, "vm-2", "host-2", 30)
			zoned(r, "vm-2", value)
		})
	}
	sees(t, checkGroups, map[string]func(*Recording){
		"vm-2 is granted to host-1 against each rule that group g may have had: at most": changed(two, one, 30, nothing),
		"right: the rule is new":              changed(two, one, 15, nothing),
		"right: the rule allows it":           changed(one, two, 30, nothing),
		"right: the first is gone":            changed(two, one, 30, func(r *Recording) { gone(r); givenUp(r, 9) }),
		"vm-2 runs on host-1 beside 1 others": changed(two, one, 30, gone), // the log alone says that it is gone
		"vm-2 is granted to host-2 against each rule that group g may have had: at most 1 on one zone": over("a"),
		"right: they are in two zones": over("b"),
	})
}

func TestCheckGroupsThatSpread(t *testing.T) {
	// spread has vm-1 be in zone a, of two that there are, and vm-2, which runs later, in this one.
	spread := func(skew uint32, value compute.AxisValue, before func(*Recording)) func(*Recording) {
		return ofGroup(compute.Group{Policy: compute.SpreadOnly, Spread: "zone", Skew: skew}, func(r *Recording) {
			values := []compute.CapabilityValue{{Value: "a"}, {Value: "b"}}
			r.Schedule.World.Axes = []compute.Capability{{Axis: "zone", Values: values}}
			zoned(r, madeID, "a")
			before(r)
			alike(r, "vm-2", "host-2", 30)
			zoned(r, "vm-2", value)
		})
	}
	// given has the conductor have chosen the zone of vm-2.
	given := func(spread func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			spread(r)
			r.Log[3].Instance.Boot.Rules = &compute.PlacementRules{Group: "g", Spread: "zone", Chosen: true}
		}
	}
	nothing := func(*Recording) {}
	gone := func(r *Recording) { becomes(r, 8, compute.StateDeleted) }
	sees(t, checkGroups, map[string]func(*Recording){
		"vm-2 is given a, of which there are more: map[a:1]": given(spread(0, "a", nothing)),
		"right: its client chose that":                       spread(0, "a", nothing),
		"right: there are fewest":                            given(spread(0, "b", nothing)),
		"vm-2 is granted to host-2: group g, ":               spread(1, "a", nothing),
		", and 1 are there with zone=a, and 0 with another":  spread(1, "a", nothing),
		"right: one more is allowed":                         spread(2, "a", nothing),
		"right: the first is gone":                           spread(1, "a", func(r *Recording) { gone(r); givenUp(r, 9) }),
		"2 of group g run with zone=a, and fewest others 0":  spread(1, "a", gone), // the log alone says that it is gone
	})
}
