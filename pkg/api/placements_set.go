// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/cover"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// checkSet refuses kinds that cannot be one set, in the words of POST /v1/sets.
func checkSet(asked []rest.MixKind, kinds []kind) error {
	var all int64
	for i, a := range asked {
		all += cmp.Or(a.Count, 1)
		err := kinds[i].asks.Boot.Preemptible().CheckNoSet()
		if a.ID != "" {
			err = compute.Invalid("id", string(a.ID), "leave it out: with atomic it is asked about new machines")
		}
		if err != nil {
			if len(asked) > 1 {
				err = inMix(err, i)
			}
			return err
		}
	}
	if all < 2 || all > compute.MaxSet {
		return compute.Invalid("count", fmt.Sprint(all), fmt.Sprintf("give 2 to %d with atomic, in all", compute.MaxSet))
	}
	return nil
}

// asSet makes the answer one about a set of these kinds, of which hosts have room for all or for none.
func (s *presenter) asSet(out *rest.Placements, kinds []kind, hosts []explain.Host, over *compute.Reason) {
	lead, all := s.leads(kinds)
	out.Set = &rest.SetPlacement{Size: out.Count, Whole: lead.Whole(), Says: s.offered(lead, all)}
	says := fmt.Sprintf("; none of the %d of a set starts before each has a host: %s", out.Count, out.Set.Says)
	q := s.whole(lead)
	if q != nil {
		s.fillWhole(out, q, lead, hosts)
		says = ""
	}
	out.Summary += says
	if over != nil {
		out.Admitted, out.Refused = 0, rest.FromReason(over)
		out.Summary = "it would be refused: " + out.Refused.Message + "; beyond that, " + out.Summary
		out.YouCan = append([]string{quotaRemedy}, out.YouCan...)
	}
	out.Starts = out.Admitted == out.Count && out.Fits == out.Count
	for i := range out.Kinds {
		k := &out.Kinds[i]
		if k.Starts = out.Starts; q != nil { // what becomes of the set becomes of each of it
			k.Summary, k.YouCan, k.OperatorsCan = out.Summary, out.YouCan, out.OperatorsCan
		}
	}
}

// fillWhole makes the answer one about a set that is offered whole in queue q: some host has room for all of it, behind
// what waits in that queue, or none has for any.
func (s *presenter) fillWhole(out *rest.Placements, q *compute.Queue, lead *compute.Instance, hosts []explain.Host) {
	ahead := []explain.Kind{{Wanted: wantedOf(q), Count: int64(s.views.instances.inLine(q.Name))}}
	set := []explain.Kind{{Wanted: s.wanted(lead), Priority: lead.Boot.Priority(), Count: 1}}
	fits := explain.Fill(ahead, set, hosts).Fits[0]
	p, _ := s.placement(lead, nil)
	out.Fits, out.Summary, out.YouCan, out.OperatorsCan = out.Count*fits, p.Summary, p.YouCan, p.OperatorsCan
	for i := range out.Kinds {
		k := &out.Kinds[i]
		k.Fits, k.Place, k.Hosts, k.ToGo = k.Count*fits, p.Place, p.Hosts, nil
		if len(out.Kinds) == 1 {
			k.Alone = k.Fits
		}
	}
}

// leads is the instance that would lead the set of these kinds, and all that the set would have. It avoids what any of
// them does.
func (s *presenter) leads(kinds []kind) (_ *compute.Instance, all []*compute.Instance) {
	lead := *kinds[0].asks
	for _, k := range kinds {
		for range k.count {
			all = append(all, k.asks)
		}
		lead.Boot.Avoid = append(slices.Clone(lead.Boot.Avoid), k.asks.Boot.Avoid...)
	}
	lead.ID = "new" // it has none
	lead.Boot.InSet(compute.Set{ID: lead.ID, Size: uint32(len(all)), Whole: s.wholeOf(all)})
	return &lead, all
}

// wholeOf is the queue in which a conductor would offer a set whole that is booted now; empty: in none.
func (s *presenter) wholeOf(all []*compute.Instance) compute.QueueName {
	g := s.group(all[0])
	if g == nil || g.All > 0 || len(s.views.hosts.thatDoNotRead(wire.SchemaWhole)) > 0 {
		return ""
	}
	return s.covering(g.Rule, s.fitsNowhere, all)
}

// covering is the queue that covers a set, but for those that never says are of no use; empty: there is none.
func (s *presenter) covering(
	rule compute.Group, never func(compute.QueueName) bool, all []*compute.Instance,
) compute.QueueName {
	return cover.Queue(slices.Values(s.views.queues.each()), rule, never, all)
}

// fitsNowhere says whether the queue manager knows hosts, and a queue's machine fits none of them.
func (s *presenter) fitsNowhere(q compute.QueueName) bool {
	a, _ := s.views.advice.get(q)
	return a.Hosts.Total() > 0 && a.Hosts.NeverFits == a.Hosts.Total()
}

// offered says how a set would be offered, and where its members have to be on one host, why it is in parts.
func (s *presenter) offered(lead *compute.Instance, all []*compute.Instance) string {
	g := s.group(lead)
	switch {
	case lead.Whole() != "":
		return fmt.Sprintf("it would be offered whole in queue %s, and one host takes all of them", lead.Whole())
	case g == nil || !cover.OnePlace(g.Rule):
		for _, i := range all {
			if g := s.group(i); g != nil && cover.OnePlace(g.Rule) {
				return fmt.Sprintf("each would be offered by itself, as not all of them are of group %s", g.Rule.Name)
			}
		}
		return "each would be offered by itself"
	case g.All > 0:
		return fmt.Sprintf("each would be offered by itself, as group %s has members on a host already", g.Rule.Name)
	}
	if n := len(s.views.hosts.thatDoNotRead(wire.SchemaWhole)); n > 0 {
		return fmt.Sprintf("each would be offered by itself, as %d hosts have agents of an older version", n)
	}
	return "each would be offered by itself, as " + s.uncovered(g.Rule, all)
}

// uncovered is why no queue covers a set that is to be on one host. It asks the same of less and less of a set, until
// a queue would.
func (s *presenter) uncovered(rule compute.Group, all []*compute.Instance) string {
	first := all[0].Boot.Priority()
	for _, i := range all {
		switch b := i.Boot; {
		case b.Group() != rule.Name:
			return fmt.Sprintf("not all of them are of group %s", rule.Name)
		case b.Priority() != first:
			return fmt.Sprintf("they are of several priorities, as %s and %s", first, b.Priority())
		case b.Host != "":
			return fmt.Sprintf("some of them are for one host alone, %s", s.host(b.Host))
		}
	}
	useful := func(compute.QueueName) bool { return false }
	if q := s.covering(rule, useful, all); q != "" {
		return fmt.Sprintf("queue %s has machines as large as all of them together, and they fit no host", q)
	}
	if s.covering(rule, useful, bare(all, compute.RulesOf(rule.Name, compute.Set{}, first))) != "" {
		return fmt.Sprintf("their user data, metadata and keys are more than %d KiB together", cover.MostText>>10)
	}
	if q := s.covering(rule, useful, bare(all, compute.InGroup(rule.Name))); q != "" {
		return fmt.Sprintf("queue %s has machines as large as all of them together, and none of priority %s yet", q, first)
	}
	return "no queue has machines as large as all of them together, on hosts that each of them may have"
}

// bare are as many instances that need the same, have these rules, and no texts.
func bare(all []*compute.Instance, rules *compute.PlacementRules) (out []*compute.Instance) {
	for _, i := range all {
		out = append(out, &compute.Instance{
			Resources: i.Resources, Required: i.Required, Forbidden: i.Forbidden, Boot: compute.Boot{Rules: rules},
		})
	}
	return out
}

func wantedOf(q *compute.Queue) explain.Wanted {
	return explain.Wanted{Queue: q.Name, Resources: q.Resources, Required: q.Required, Forbidden: q.Forbidden}
}
