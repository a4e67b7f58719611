// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeCatalog(api huma.API) {
	flavors, capabilities, quotas := []string{"flavors"}, []string{"capabilities"}, []string{"quotas"}
	get := func(id, path, summary string, tags []string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: tags}
	}
	change := func(id, method, path, summary string, tags []string) huma.Operation {
		o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: tags}
		o.DefaultStatus = http.StatusOK
		o.Description = "With dry_run it checks and counts, and changes nothing."
		return o
	}
	route(s, api, get("list-flavors", "/v1/flavors", "List flavors", flavors), s.listFlavors)
	route(s, api, get("show-flavor", "/v1/flavors/{flavor}", "Show a flavor", flavors), s.showFlavor)
	route(s, api, change("add-flavor", http.MethodPost, "/v1/flavors", "Add a flavor", flavors), s.addFlavor)
	route(s, api, change("remove-flavor", http.MethodDelete, "/v1/flavors/{flavor}", "Remove a flavor", flavors),
		s.removeFlavor)
	s.routeCapabilities(api)
	route(s, api, get("show-capability", "/v1/capabilities/{axis}", "Show a capability", capabilities),
		s.showCapability)
	route(s, api,
		change("add-capability", http.MethodPost, "/v1/capabilities", "Add a capability, or values to it", capabilities),
		s.addCapability)
	removal := change("remove-capability", http.MethodDelete, "/v1/capabilities/{axis}",
		"Remove a capability, or values of it", capabilities)
	removal.Description += " A capability cannot be removed while a flavor may be combined with it, a value not while " +
		"instances wait for it or start with it. Machines that run are not touched."
	route(s, api, removal, s.removeCapability)
	route(s, api, get("list-quotas", "/v1/quotas", "List quotas and usage", quotas), s.listQuotas)
	route(s, api, get("show-quota", "/v1/quotas/{project}", "Show a project's quota and usage", quotas), s.showQuota)
	route(s, api, huma.Operation{
		OperationID: "set-quota", Method: http.MethodPut, Path: "/v1/quotas/{project}", Tags: quotas,
		Summary: "Replace a project's own limits",
	}, s.setQuota)
	route(s, api, huma.Operation{
		OperationID: "change-quota", Method: http.MethodPatch, Path: "/v1/quotas/{project}", Tags: quotas,
		Summary: "Change some of a project's own limits",
		Description: "What is left out stays, and null takes a limit out (RFC 7396); a null for limits, priorities or " +
			"weight as a whole is refused with 422. It is decided upon the limits " +
			"that there are then, so two that change different ones at once both count, or one is refused with 409.",
	}, s.changeQuota)
}

type noInput struct{}

type pageInput struct{ Paging }

type flavorsOutput struct{ Body rest.Flavors }

func (s *Server) listFlavors(_ context.Context, in *pageInput) (*flavorsOutput, error) {
	name := func(f compute.Flavor) compute.FlavorName { return f.Name }
	page, next := pageOfNames(in.Paging, s.config.Catalog.Flavors(), name)
	out := &flavorsOutput{Body: rest.Flavors{Items: []rest.FlavorView{}, Next: next}}
	axes := s.axes()
	for _, f := range page {
		out.Body.Items = append(out.Body.Items, s.flavorView(f, axes))
	}
	return out, nil
}

type flavorInput struct {
	Flavor compute.FlavorName `path:"flavor"`
}

type flavorOutput struct{ Body rest.FlavorView }

func (s *Server) showFlavor(ctx context.Context, in *flavorInput) (*flavorOutput, error) {
	f, ok, err := lookUp(ctx, s, func() (compute.Flavor, bool) { return s.config.Catalog.Flavor(in.Flavor) })
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, s.errNoFlavor(in.Flavor)
	}
	return &flavorOutput{Body: s.flavorView(f, s.axes())}, nil
}

func (s *Server) axes() map[compute.AxisName]compute.Capability {
	axes := map[compute.AxisName]compute.Capability{}
	for _, c := range s.config.Catalog.Capabilities() {
		axes[c.Axis] = c
	}
	return axes
}

// flavorView counts a flavor's queues: those it has by the catalog, and those
// that are listed.
func (s *Server) flavorView(f compute.Flavor, axes map[compute.AxisName]compute.Capability) rest.FlavorView {
	v := rest.FlavorView{Flavor: rest.FromFlavor(f)}
	v.Queues.Wanted = compute.CountPermutations(f, axes)
	n := s.views.queues.count(f.Name)
	v.Queues.Open, v.Queues.Closed, v.Queues.Failed, v.Queues.Tiers = n.open, n.closed, n.failed, n.tiers
	return v
}

type changeOutput struct{ Body rest.Change }

// change asks for a change of the catalog, unless Kafka is known to be silent.
// One that fails is no sign of that: it may have waited for others in front of
// it, or ended because its caller hung up.
func (s *Server) change(ctx context.Context, dry bool, ask func() (Change, error)) (*changeOutput, error) {
	in, err := s.writes.enter(time.Now(), place{topic: s.config.Topics.Catalog(), partition: everyPartition})
	if err != nil {
		return nil, err
	}
	came := abandoned
	defer func() { s.writes.leave(time.Now(), in, came) }()
	if in.probe { // nobody else may try meanwhile, and a change may take long
		if in, came, err = s.probe(ctx, in); err != nil {
			return nil, err
		}
		came = abandoned
	}
	c, err := ask()
	if err != nil {
		return nil, err
	}
	if !dry {
		came = answered
	}
	return &changeOutput{Body: rest.Change{
		DryRun: dry, Added: c.Added, Removed: c.Removed, Total: c.Total, Limit: c.Limit,
	}}, nil
}

type addFlavorInput struct {
	DryRun bool `query:"dry_run"`
	Body   rest.Flavor
}

func (s *Server) addFlavor(ctx context.Context, in *addFlavorInput) (*changeOutput, error) {
	audit.Target(ctx, "flavor", compute.FlavorName(in.Body.Name), string(in.Body.Name))
	return s.change(ctx, in.DryRun, func() (Change, error) {
		return s.config.Catalog.AddFlavor(ctx, in.Body.Compute(), in.DryRun)
	})
}

type removeFlavorInput struct {
	Flavor compute.FlavorName `path:"flavor"`
	DryRun bool               `query:"dry_run"`
}

func (s *Server) removeFlavor(ctx context.Context, in *removeFlavorInput) (*changeOutput, error) {
	return s.change(ctx, in.DryRun, func() (Change, error) {
		return s.config.Catalog.RemoveFlavor(ctx, in.Flavor, in.DryRun)
	})
}

type axisInput struct {
	Axis compute.AxisName `path:"axis"`
}

type capabilityOutput struct{ Body rest.Capability }

func (s *Server) showCapability(ctx context.Context, in *axisInput) (*capabilityOutput, error) {
	c, ok, err := lookUp(ctx, s, func() (compute.Capability, bool) { return s.config.Catalog.Capability(in.Axis) })
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, compute.NotFound("capability", string(in.Axis), "berth capability list shows what there is")
	}
	return &capabilityOutput{Body: rest.FromCapability(c)}, nil
}

type addCapabilityInput struct {
	DryRun bool `query:"dry_run"`
	Body   rest.Capability
}

func (s *Server) addCapability(ctx context.Context, in *addCapabilityInput) (*changeOutput, error) {
	audit.Target(ctx, "capability", compute.AxisName(in.Body.Axis), string(in.Body.Axis))
	return s.change(ctx, in.DryRun, func() (Change, error) {
		return s.config.Catalog.AddCapability(ctx, in.Body.Compute(), in.DryRun)
	})
}

type removeCapabilityInput struct {
	Axis   compute.AxisName    `path:"axis"`
	Value  []compute.AxisValue `query:"value,explode" doc:"Only this value; repeatable. Left out, the whole capability." nullable:"false"`
	Drain  bool                `query:"drain" doc:"With value: also while instances wait for it. Their queues take no more requests, and go once nothing waits or starts there."`
	DryRun bool                `query:"dry_run"`
}

// noteValues has the audit tell the removal of values from that of the axis.
func noteValues(ctx context.Context, axis compute.AxisName, values []compute.AxisValue) {
	text := string(axis) + "="
	for n, v := range values {
		if v.Check() != nil {
			return
		}
		if n > 0 {
			text += ","
		}
		text += string(v)
	}
	audit.Target(ctx, "capability", axis, text)
}

func (s *Server) removeCapability(ctx context.Context, in *removeCapabilityInput) (*changeOutput, error) {
	if in.Drain && len(in.Value) == 0 {
		return nil, compute.Invalid("drain", "true", "say which values to remove: a whole capability has nothing to drain, "+
			"as it goes only once no flavor has it")
	}
	return s.change(ctx, in.DryRun, func() (Change, error) {
		if len(in.Value) > 0 {
			noteValues(ctx, in.Axis, in.Value)
			return s.config.Catalog.RemoveValues(ctx, in.Axis, in.Value, in.Drain, in.DryRun)
		}
		return s.config.Catalog.RemoveCapability(ctx, in.Axis, in.DryRun)
	})
}

type projectInput struct {
	Project compute.Project `path:"project" doc:"\"_default\" for all projects without limits of their own."`
}

// checkQuotaProject accepts what can have a quota: projects, and the default.
func checkQuotaProject(p compute.Project) error {
	if p == compute.DefaultQuota {
		return nil
	}
	return p.Check()
}

type quotaOutput struct{ Body rest.QuotaView }

func (s *Server) showQuota(_ context.Context, in *projectInput) (*quotaOutput, error) {
	if err := checkQuotaProject(in.Project); err != nil {
		return nil, err
	}
	return &quotaOutput{Body: s.quotaView(in.Project)}, nil
}

type setQuotaInput struct {
	Project compute.Project `path:"project" doc:"\"_default\" for all projects without limits of their own."`
	Body    rest.QuotaLimits
}

func (s *Server) setQuota(ctx context.Context, in *setQuotaInput) (*quotaOutput, error) {
	if err := checkQuotaProject(in.Project); err != nil {
		return nil, err
	}
	classes, err := in.Body.Classes()
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, false, func() (Change, error) {
		return Change{}, s.config.Catalog.SetQuota(ctx, compute.Quota{
			Project: in.Project, Limits: in.Body.Limits, Classes: classes, Weight: in.Body.Weight,
		})
	})
	if err != nil {
		return nil, err
	}
	return &quotaOutput{Body: s.quotaView(in.Project)}, nil
}

type changeQuotaInput struct {
	Project compute.Project `path:"project" doc:"\"_default\" for all projects without limits of their own."`
	Body    rest.QuotaChange
	RawBody []byte
}

// checkNull refuses a null that stands for more than one limit: a client may have written it for what it leaves out,
// and it would end limits that nobody named.
func (in *changeQuotaInput) checkNull() error {
	var all map[string]json.RawMessage
	var inside struct{ Priorities map[string]json.RawMessage }
	if json.Unmarshal(in.RawBody, &all) != nil || json.Unmarshal(in.RawBody, &inside) != nil {
		return nil // it is refused for what it is
	}
	for name, v := range inside.Priorities {
		all["priorities."+name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if string(all[name]) != "null" {
			continue
		}
		if name == "weight" {
			return compute.Invalid(name, "null", "leave it out, or give 0 to take it from the default quota")
		}
		return compute.Invalid(name, "null", "leave it out, or give null for each limit that is to go")
	}
	return nil
}

func (s *Server) changeQuota(ctx context.Context, in *changeQuotaInput) (*quotaOutput, error) {
	if err := checkQuotaProject(in.Project); err != nil {
		return nil, err
	}
	if err := in.checkNull(); err != nil {
		return nil, err
	}
	_, err := s.change(ctx, false, func() (Change, error) {
		return Change{}, s.config.Catalog.ChangeQuota(ctx, in.Project, in.Body.Apply)
	})
	if err != nil {
		return nil, err
	}
	return &quotaOutput{Body: s.quotaView(in.Project)}, nil
}

type quotasOutput struct{ Body rest.Quotas }

// listQuotas shows the default, everybody with limits and everybody with instances, as far as the caller may
// see them.
func (s *Server) listQuotas(ctx context.Context, in *pageInput) (*quotasOutput, error) {
	names := append(s.views.instances.projects(), compute.DefaultQuota)
	for _, q := range s.config.Catalog.Quotas() {
		names = append(names, q.Project)
	}
	caller := callerOf(ctx)
	names = slices.DeleteFunc(names, func(p compute.Project) bool {
		return p != compute.DefaultQuota && !caller.May(auth.RoleReader, p)
	})
	slices.Sort(names)
	page, next := pageOfNames(in.Paging, slices.Compact(names), func(p compute.Project) compute.Project { return p })
	out := &quotasOutput{Body: rest.Quotas{Items: []rest.QuotaView{}, Next: next}}
	for _, p := range page {
		out.Body.Items = append(out.Body.Items, s.quotaView(p))
	}
	return out, nil
}

// quotaView joins a project's limits with what its records use.
func (s *Server) quotaView(p compute.Project) rest.QuotaView {
	used := s.views.instances.used(p)
	own, _ := s.config.Catalog.Quota(p)
	all, _ := s.config.Catalog.Quota(compute.DefaultQuota)
	of := func(part compute.QuotaPart, always ...compute.ResourceClass) []rest.QuotaResource {
		return quotaResources(used[part], own.Of(part), all.Of(part), always...)
	}
	out := rest.QuotaView{
		Project:   p,
		Resources: of(compute.QuotaWhole, compute.Instances, compute.VCPU, compute.MemoryMB, compute.DiskGB),
		Weight:    compute.WeightOf(own, all), WeightFrom: "none",
	}
	switch {
	case p != compute.DefaultQuota && own.Weight > 0:
		out.WeightFrom = "project"
	case all.Weight > 0:
		out.WeightFrom = "default"
	}
	for _, class := range compute.Priorities() {
		part := compute.QuotaOf(class)
		limited := len(own.Of(part))+len(all.Of(part)) > 0
		if class == compute.PriorityNormal && !limited {
			continue // it is what the others leave of the whole
		}
		if resources := of(part); len(resources) > 0 {
			out.Priorities = append(out.Priorities, rest.QuotaPriority{Priority: class.String(), Resources: resources})
		}
	}
	return out
}

// quotaResources are the classes of resources of one part that are used or limited, and some always.
func quotaResources(used, own, all compute.Resources, always ...compute.ResourceClass) []rest.QuotaResource {
	classes := slices.Concat(used.Classes(), own.Classes(), all.Classes(), always)
	slices.Sort(classes)
	out := []rest.QuotaResource{}
	for _, class := range slices.Compact(classes) {
		r := rest.QuotaResource{Class: class, Used: used[class], From: "none"}
		if limit, ok := all[class]; ok {
			r.Limit, r.From = &limit, "default"
		}
		if limit, ok := own[class]; ok {
			r.Limit, r.From = &limit, "project"
		}
		out = append(out, r)
	}
	return out
}
