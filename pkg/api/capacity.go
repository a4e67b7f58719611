// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
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
		Description: "Each flavor by itself, with one choice: the value. With what is free, what of it no flavor " +
			"can use, and the largest flavor that fits. It is worked out from what hosts said last.",
	}, s.showCapacity)
}

type capacityInput struct {
	By     compute.AxisName   `query:"by" doc:"The axis; left out: all hosts together." example:"zone"`
	Flavor compute.FlavorName `query:"flavor" doc:"Of this flavor alone."`
}

type capacityOutput struct{ Body rest.CapacityBy }

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
	done, err := s.beginJudging(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	hosts, oldest := s.presenter(ctx).hosts()
	all, pools, times := s.usable(flavors), make([]pool, len(values)), 0
	for i, v := range values {
		pools[i] = s.pool(flavors, in.By, v)
		times += 1 + len(pools[i].asked)
	}
	if err := s.checkJudged(times+len(all), len(hosts), "flavor", string(in.Flavor), "give one flavor"); err != nil {
		return nil, err
	}
	unusable := explain.Unusable(all, hosts)
	out := rest.CapacityBy{By: in.By, Values: []rest.ValueCapacity{}, Oldest: oldest.Round(time.Millisecond).Seconds()}
	for _, p := range pools {
		if err := ctx.Err(); err != nil {
			return nil, notJudged(err)
		}
		out.Values = append(out.Values, p.view(explain.PoolOf(p.choice, p.asked, hosts, unusable)))
	}
	return &capacityOutput{Body: out}, nil
}

// pool is what is asked about the hosts that do for one value.
type pool struct {
	value  compute.AxisValue
	choice explain.Wanted // what it wants by itself
	names  []compute.FlavorName
	asked  []explain.Wanted // a machine of each
}

func (s *Server) pool(flavors []compute.Flavor, by compute.AxisName, v compute.CapabilityValue) pool {
	p := pool{value: v.Value, choice: explain.Wanted{Resources: v.Consumes, Required: v.Requires}}
	p.names, p.asked = s.offered(flavors, by, v.Value)
	return p
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
			asked = append(asked, wantedOf(q))
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

func (v pool) view(p explain.Pool) rest.ValueCapacity {
	out := rest.ValueCapacity{
		Value: v.value, Hosts: p.Hosts, Taking: p.Taking, Free: p.Spare, Unusable: p.Unusable,
		Flavors: []rest.FlavorCapacity{},
	}
	for i, c := range p.Kinds {
		out.Flavors = append(out.Flavors, rest.FlavorCapacity{
			Flavor: v.names[i], Capacity: rest.Capacity{Room: c.Room, Stranded: c.Stranded(v.asked[i]), Empty: c.Empty},
		})
	}
	if p.Largest >= 0 {
		out.Largest = v.names[p.Largest]
	}
	return out
}
