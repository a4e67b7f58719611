// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeGroups(api huma.API) {
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
			Tags: []string{"groups"}, DefaultStatus: http.StatusOK,
		}
	}
	route(s, api, op("list-groups", http.MethodGet, "/v1/groups", "List a project's groups", ""), s.listGroups)
	route(s, api, op("create-group", http.MethodPost, "/v1/groups", "Make a group",
		"A group is a rule about where some instances of a project may run beside each other. Made again as it is, "+
			"it is no change; another one of the same name is refused with 409."), s.createGroup)
	route(s, api, op("show-group", http.MethodGet, "/v1/groups/{group}", "Show a group and where its members are", ""),
		s.showGroup)
	route(s, api, op("set-group", http.MethodPut, "/v1/groups/{group}", "Make a group, or replace its rule",
		"Members that break the new rule stay where they are, and are shown; it holds for all that come."), s.setGroup)
	route(s, api, op("change-group", http.MethodPatch, "/v1/groups/{group}", "Change some of a group's rule",
		"What is left out stays, and so does what is null. It is decided upon the rule that there is then, so two that "+
			"change different parts at once both count, or one is refused with 409."), s.patchGroup)
	route(s, api, op("delete-group", http.MethodDelete, "/v1/groups/{group}", "Delete a group without members",
		"It is refused with 409 while instances are members that have not ended."), s.deleteGroup)
}

type groupsOutput struct{ Body rest.Groups }

func (s *Server) listGroups(ctx context.Context, in *projectPage) (*groupsOutput, error) {
	project := orDefault(in.Project)
	if err := project.Check(); err != nil {
		return nil, err
	}
	page, next := pageOfNames(in.Paging, s.config.Catalog.Groups(project),
		func(g compute.Group) compute.GroupName { return g.Name })
	out := &groupsOutput{Body: rest.Groups{Items: []rest.GroupView{}, Next: next}}
	sh := s.presenter(ctx)
	for _, g := range page {
		v := sh.groupView(g)
		v.Domains = nil
		out.Body.Items = append(out.Body.Items, v)
	}
	return out, nil
}

type groupInput struct {
	Project compute.Project   `query:"project" doc:"Left out, \"default\"."`
	Group   compute.GroupName `path:"group" example:"web"`
}

type groupOutput struct{ Body rest.GroupView }

func (s *Server) showGroup(ctx context.Context, in *groupInput) (*groupOutput, error) {
	key := compute.GroupKey{Project: orDefault(in.Project), Name: in.Group}
	g, ok, err := lookUp(ctx, s, func() (compute.Group, bool) { return s.config.Catalog.Group(key) })
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, s.errNoGroup(key)
	}
	return &groupOutput{Body: s.presenter(ctx).groupView(g)}, nil
}

type createGroupInput struct {
	Project compute.Project `query:"project" doc:"Left out, \"default\"."`
	Body    rest.Group
}

func (s *Server) createGroup(ctx context.Context, in *createGroupInput) (*groupOutput, error) {
	audit.Target(ctx, "group", in.Body.Name, string(in.Body.Name))
	return s.changeGroup(ctx, in.Project, in.Body, true)
}

type setGroupInput struct {
	Project compute.Project   `query:"project" doc:"Left out, \"default\"."`
	Group   compute.GroupName `path:"group" example:"web"`
	Body    rest.GroupRule
}

func (s *Server) setGroup(ctx context.Context, in *setGroupInput) (*groupOutput, error) {
	return s.changeGroup(ctx, in.Project, rest.Group{Name: in.Group, GroupRule: in.Body}, false)
}

func (s *Server) changeGroup(
	ctx context.Context, project compute.Project, body rest.Group, onlyNew bool,
) (*groupOutput, error) {
	g, err := body.Compute(orDefault(project))
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, false, func() (Change, error) { return Change{}, s.config.Catalog.SetGroup(ctx, g, onlyNew) })
	if err != nil {
		return nil, err
	}
	return s.showGroup(ctx, &groupInput{Project: g.Project, Group: g.Name})
}

type changeGroupInput struct {
	Project compute.Project   `query:"project" doc:"Left out, \"default\"."`
	Group   compute.GroupName `path:"group" example:"web"`
	Body    rest.GroupChange
}

func (s *Server) patchGroup(ctx context.Context, in *changeGroupInput) (*groupOutput, error) {
	key := compute.GroupKey{Project: orDefault(in.Project), Name: in.Group}
	_, err := s.change(ctx, false, func() (Change, error) {
		return Change{}, s.config.Catalog.ChangeGroup(ctx, key, in.Body.Apply)
	})
	if err != nil {
		return nil, err
	}
	return s.showGroup(ctx, &groupInput{Project: key.Project, Group: key.Name})
}

type deletedGroupOutput struct{ Body rest.GroupRule }

func (s *Server) deleteGroup(ctx context.Context, in *groupInput) (*deletedGroupOutput, error) {
	key := compute.GroupKey{Project: orDefault(in.Project), Name: in.Group}
	was, ok := s.config.Catalog.Group(key)
	_, err := s.change(ctx, false, func() (Change, error) { return Change{}, s.config.Catalog.RemoveGroup(ctx, key) })
	if compute.KindOf(err) == compute.KindConflict {
		err = cmp.Or(s.checkMembersReadable(key), err)
	}
	if err != nil {
		return nil, err
	}
	out := &deletedGroupOutput{}
	if ok {
		out.Body = rest.FromGroup(was).GroupRule
	}
	return out, nil
}

// errNoGroup is the refusal of a group that its project does not have.
func (s *Server) errNoGroup(key compute.GroupKey) error {
	e := compute.NotFound("group", string(key.Name), fmt.Sprintf(
		"berth group list --project %s shows what there is; berth group create %s makes it", key.Project, key.Name,
	))
	e.Reason = &compute.Reason{Code: compute.NoSuchGroup, Detail: string(key.Name)}
	return e
}

// checkGroup refuses a boot whose group is not there, or wants a choice that the boot does not make.
func (s *Server) checkGroup(p compute.Project, b compute.Boot) error {
	name := b.Group()
	if name == "" {
		return nil
	}
	key := compute.GroupKey{Project: p, Name: name}
	g, ok := s.config.Catalog.Group(key)
	if !ok {
		return s.errNoGroup(key)
	}
	if g.Over != "" && b.With[g.Over] == "" && g.Over != g.Spread {
		e := compute.Invalid("with", "", fmt.Sprintf("choose a value of %s, as in --with %s=…", g.Over, g.Over))
		e.Message = fmt.Sprintf("group %s is over %s, and the request chooses none", name, g.Over)
		e.Reason = &compute.Reason{Code: compute.GroupRule, Detail: string(name)}
		return e
	}
	return nil
}

// groupView shows a group and where its members are.
func (s *presenter) groupView(g compute.Group) rest.GroupView {
	out := rest.GroupView{Project: g.Project, Group: rest.FromGroup(g), Rule: g.Rule(), Domains: []rest.GroupDomain{}}
	members := s.views.instances.members(g.Key())
	out.Members = len(members)
	on, by := onHosts(g, members)
	counts := map[string]uint32{}
	if g.Over == "" {
		for h, n := range on {
			counts[string(s.host(h))] += n
		}
	} else {
		for v, n := range by {
			counts[string(v)] = n
		}
	}
	for d, n := range counts {
		out.Domains = append(out.Domains, rest.GroupDomain{Domain: d, Members: int(n)})
		out.Placed += int(n)
	}
	slices.SortFunc(out.Domains, func(a, b rest.GroupDomain) int {
		return cmp.Or(cmp.Compare(b.Members, a.Members), cmp.Compare(a.Domain, b.Domain))
	})
	for i := range out.Domains {
		d := &out.Domains[i]
		d.Breaks = g.Policy.Apart() && d.Members > int(g.Most) || g.Policy.Together() && i > 0
		out.Breaks = out.Breaks || d.Breaks
	}
	out.Waiting = out.Members - out.Placed
	out.Values = s.views.spreadOf(s.catalog, g, members).values()
	return out
}
