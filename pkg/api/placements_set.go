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
	lead := s.leads(kinds)
	out.Set = &rest.SetPlacement{Size: out.Count, Whole: lead.Whole(), Says: s.offered(lead)}
	says := fmt.Sprintf("; none of the %d of a set starts before each has a host: %s", out.Count, out.Set.Says)
	if q := s.whole(lead); q != nil {
		ahead := []explain.Kind{{Wanted: wantedOf(q), Count: int64(s.views.instances.inLine(q.Name))}}
		all := []explain.Kind{{Wanted: s.wanted(lead), Priority: lead.Boot.Priority(), Count: 1}}
		out.Fits = out.Count * explain.Fill(ahead, all, hosts).Fits[0]
		p, _ := s.placement(lead, nil)
		out.Summary, out.YouCan, out.OperatorsCan, says = p.Summary, p.YouCan, p.OperatorsCan, ""
	}
	out.Summary += says
	if over != nil {
		out.Admitted, out.Refused = 0, rest.FromReason(over)
		out.Summary = "it would be refused: " + out.Refused.Message + "; beyond that, " + out.Summary
		out.YouCan = append([]string{quotaRemedy}, out.YouCan...)
	}
	out.Starts = out.Admitted == out.Count && out.Fits == out.Count
	for i := range out.Kinds {
		out.Kinds[i].Starts = out.Starts
	}
}

// leads is the instance that would lead the set of these kinds. It avoids what any of them does.
func (s *presenter) leads(kinds []kind) *compute.Instance {
	lead, all := *kinds[0].asks, []*compute.Instance{}
	for _, k := range kinds {
		for range k.count {
			all = append(all, k.asks)
		}
		lead.Boot.Avoid = append(slices.Clone(lead.Boot.Avoid), k.asks.Boot.Avoid...)
	}
	lead.ID = "new" // it has none
	lead.Boot.InSet(compute.Set{ID: lead.ID, Size: uint32(len(all)), Whole: s.wholeOf(all)})
	return &lead
}

// wholeOf is the queue in which a conductor would offer a set whole that is booted now; empty: in none.
func (s *presenter) wholeOf(all []*compute.Instance) compute.QueueName {
	g := s.group(all[0])
	if g == nil || g.All > 0 || len(s.views.hosts.thatDoNotRead(wire.SchemaWhole)) > 0 {
		return ""
	}
	return cover.Queue(slices.Values(s.views.queues.each()), g.Rule, s.fitsNowhere, all)
}

// fitsNowhere says whether the queue manager knows hosts, and a queue's machine fits none of them.
func (s *presenter) fitsNowhere(q compute.QueueName) bool {
	a, _ := s.views.advice.get(q)
	return a.Hosts.Total() > 0 && a.Hosts.NeverFits == a.Hosts.Total()
}

// offered says how a set would be offered, and where its members have to be on one host, why it is in parts.
func (s *presenter) offered(lead *compute.Instance) string {
	g := s.group(lead)
	switch {
	case lead.Whole() != "":
		return fmt.Sprintf("it would be offered whole in queue %s, and one host takes all of them", lead.Whole())
	case g == nil || !cover.OnePlace(g.Rule):
		return "each would be offered by itself"
	case g.All > 0:
		return fmt.Sprintf("each would be offered by itself, as group %s has members on a host already", g.Rule.Name)
	}
	if n := len(s.views.hosts.thatDoNotRead(wire.SchemaWhole)); n > 0 {
		return fmt.Sprintf("each would be offered by itself, as %d hosts have agents of an older version", n)
	}
	return "each would be offered by itself, as no queue has machines as large as all of them together, or not all are of " +
		"one group and priority"
}

func wantedOf(q *compute.Queue) explain.Wanted {
	return explain.Wanted{Queue: q.Name, Resources: q.Resources, Required: q.Required, Forbidden: q.Forbidden}
}
