// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeCapacity(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "show-capacity", Method: http.MethodGet, Path: "/v1/capacity", Tags: []string{"queues"},
		Summary: "Say how many machines of each flavor hosts could have, by the values of an axis",
		Description: "Each flavor by itself, with one choice: the value. With what is free, what of it no flavor can use, " +
			"and the largest flavor that fits. It is worked out from what hosts said last.",
	}, s.showCapacity)
}

type capacityInput struct {
	By     compute.AxisName   `query:"by" doc:"The axis; left out: all hosts together." example:"zone"`
	Flavor compute.FlavorName `query:"flavor" doc:"Of this flavor alone."`
}

type capacityOutput struct{ Body rest.CapacityBy }

// mostCapacities bounds the work for one answer: each is counted on each host.
const mostCapacities = 10_000

func (s *Server) showCapacity(ctx context.Context, in *capacityInput) (*capacityOutput, error) {
	values := []compute.CapabilityValue{{}} // without a choice
	if in.By != "" {
		axis, ok := s.config.Catalog.Capability(in.By)
		if !ok {
			return nil, compute.NotFound("capability", string(in.By), "berth capability list shows what there is")
		}
		values = append(values, axis.Values...)
	}
	flavors := s.config.Catalog.Flavors()
	if in.Flavor != "" {
		f, ok := s.config.Catalog.Flavor(in.Flavor)
		if !ok {
			return nil, s.errNoFlavor(in.Flavor)
		}
		flavors = []compute.Flavor{f}
	}
	all := s.usable(flavors)
	if n := len(all) * len(values); n > mostCapacities {
		return nil, compute.Invalid("flavor", string(in.Flavor), fmt.Sprintf("that is %d numbers for each host: give one flavor", n))
	}
	hosts, oldest := s.presenter(ctx).hosts()
	out := rest.CapacityBy{By: in.By, Values: []rest.ValueCapacity{}, Oldest: oldest.Round(time.Millisecond).Seconds()}
	for _, v := range values {
		names, asked := s.offered(flavors, in.By, v.Value)
		choice := explain.Wanted{Resources: v.Consumes, Required: v.Requires}
		out.Values = append(out.Values, poolView(v.Value, names, asked, explain.PoolOf(choice, asked, all, hosts)))
	}
	return &capacityOutput{Body: out}, nil
}

// offered are the flavors that can be booted with one choice, or without any, and what a machine of each wants.
func (s *Server) offered(
	flavors []compute.Flavor, axis compute.AxisName, value compute.AxisValue,
) (names []compute.FlavorName, asked []explain.Wanted) {
	choices := compute.Choices{}
	if value != "" {
		choices[axis] = value
	}
	for _, f := range flavors {
		q := s.views.queues.get(compute.NameQueue(f.Name, choices))
		if q != nil && q.State == compute.QueueOpen {
			names = append(names, f.Name)
			asked = append(asked, explain.Wanted{Resources: q.Resources, Required: q.Required, Forbidden: q.Forbidden})
		}
	}
	return names, asked
}

// usable is what machines of these flavors want, without a choice and with any one.
func (s *Server) usable(flavors []compute.Flavor) []explain.Wanted {
	_, all := s.offered(flavors, "", "")
	for _, c := range s.config.Catalog.Capabilities() {
		for _, v := range c.Values {
			_, with := s.offered(flavors, c.Axis, v.Value)
			all = append(all, with...)
		}
	}
	return all
}

func poolView(v compute.AxisValue, names []compute.FlavorName, asked []explain.Wanted, p explain.Pool) rest.ValueCapacity {
	out := rest.ValueCapacity{
		Value: v, Hosts: p.Hosts, Taking: p.Taking, Free: p.Spare, Unusable: p.Unusable, Flavors: []rest.FlavorCapacity{},
	}
	for i, c := range p.Kinds {
		out.Flavors = append(out.Flavors, rest.FlavorCapacity{
			Flavor: names[i], Capacity: rest.Capacity{Room: c.Room, Stranded: c.Stranded(asked[i]), Empty: c.Empty},
		})
	}
	if p.Largest >= 0 {
		out.Largest = names[p.Largest]
	}
	return out
}
