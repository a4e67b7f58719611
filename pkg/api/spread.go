// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// spreading is how the members of a group are spread over the values of its axis.
type spreading struct {
	rule   compute.Group
	offers []compute.AxisValue // that there are
	of     map[compute.AxisValue]spreadCount
}

// spreadCount counts members with one value.
type spreadCount struct {
	members uint32 // that have not ended
	there   uint32 // of them: those that may be on a host
	stay    uint32 // of them: those that are not being deleted
}

// spreadOf counts members; nothing if their group does not spread them.
func (v *views) spreadOf(c Catalog, rule compute.Group, members []*entry) spreading {
	s := spreading{rule: rule, of: map[compute.AxisValue]spreadCount{}}
	if rule.Spread == "" {
		return s
	}
	if axis, ok := c.Capability(rule.Spread); ok {
		for _, value := range axis.Values {
			s.offers = append(s.offers, value.Value)
		}
	}
	for _, k := range members {
		value := k.boot().With[rule.Spread]
		if value == "" {
			continue // it came before the spread, or nobody has chosen yet
		}
		n := s.of[value]
		n.members++
		if i := k.instance; i != nil && i.State.OnHost() {
			n.there++
			if i.State != compute.StateDeleting {
				n.stay++
			}
		}
		s.of[value] = n
	}
	return s
}

func (s spreading) even() compute.Even {
	return compute.Even{
		Skew: s.rule.Skew, Values: s.offers,
		There: func(v compute.AxisValue) uint32 { return s.of[v].there },
		Stay:  func(v compute.AxisValue) uint32 { return s.of[v].stay },
	}
}

// values are those that there are, and those that members have else.
func (s spreading) values() []rest.GroupValue {
	all := slices.Clone(s.offers)
	for value := range s.of {
		all = append(all, value)
	}
	slices.Sort(all)
	var out []rest.GroupValue
	even := s.even()
	for _, value := range slices.Compact(all) {
		left, _ := even.Left(value)
		n := s.of[value]
		out = append(out, rest.GroupValue{
			Value: value, Members: int(n.members), Placed: int(n.there), Full: left == 0,
		})
	}
	return out
}

// asAdmitted is a boot as a conductor would have it if it came now: with a value where its group spreads members and it
// chooses none, or why there is no value for it.
func (s *Server) asAdmitted(p compute.Project, b compute.Boot) (compute.Boot, error) {
	key := compute.GroupKey{Project: p, Name: b.Group()}
	g, ok := s.config.Catalog.Group(key)
	if key.Name == "" || !ok || !g.Chooses(b) {
		return b, nil
	}
	if err := s.checkCatalog(b); err != nil {
		return b, err
	}
	values := s.views.spreadOf(s.config.Catalog, g, s.views.instances.members(key))
	f, _ := s.config.Catalog.Flavor(b.Flavor)
	refuse := func(code compute.ReasonCode, message, remedy string) error {
		e := compute.Invalid("with", "", remedy)
		e.Message = fmt.Sprintf("group %s spreads over %s, and %s", g.Name, g.Spread, message)
		e.Reason = &compute.Reason{Code: code, Detail: string(g.Spread)}
		return e
	}
	switch {
	case b.Host != "":
		return b, refuse(compute.GroupRule, "the request is for one host and chooses no value",
			fmt.Sprintf("choose the value that the host has, as in --with %s=%s", g.Spread, firstOf(values.offers)))
	case len(b.With) >= compute.MaxChoices:
		return b, refuse(compute.GroupRule, "the request makes as many choices as it may",
			fmt.Sprintf("choose a value of %s, or one capability less", g.Spread))
	case !slices.Contains(f.Capabilities, g.Spread) || len(values.offers) == 0:
		return b, refuse(compute.NoSuchCapability, fmt.Sprintf("flavor %s is not offered with it", b.Flavor),
			fmt.Sprintf("boot another flavor or outside of the group, or offer it: berth flavor set %s with that capability",
				b.Flavor))
	}
	return s.withFewest(g, b, values, refuse)
}

// withFewest chooses among the values whose queues take requests.
func (s *Server) withFewest(
	g compute.Group, b compute.Boot, values spreading, refuse func(compute.ReasonCode, string, string) error,
) (compute.Boot, error) {
	var open []compute.AxisValue
	for _, value := range values.offers {
		q := s.views.queues.of(b.Having(g.Spread, value))
		switch {
		case q == nil: // it is not ready yet, which is said of it
			return b.Having(g.Spread, value), nil
		case q.State == compute.QueueOpen:
			open = append(open, value)
		}
	}
	if len(open) == 0 {
		return b, refuse(compute.QueueClosedReason,
			fmt.Sprintf("no queue of flavor %s with a value of it takes requests", b.Flavor),
			fmt.Sprintf("boot another flavor, or outside of the group; values are %s", listed(values.offers)))
	}
	value := g.Fewest(open, func(v compute.AxisValue) uint32 { return values.of[v].members })
	return b.Having(g.Spread, value), nil
}

func firstOf(values []compute.AxisValue) compute.AxisValue {
	return cmp.Or(append(slices.Clone(values), "…")[0], "…")
}

func listed(values []compute.AxisValue) string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return strings.Join(out, ", ")
}
