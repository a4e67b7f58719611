// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
)

const bootDescription = "Answered once the request cannot be lost. Unknown flavors, capabilities and values are " +
	"refused at once; " +
	"everything else, quota included, shows in the instance's state.\n\n" +
	"A request with an id or an Idempotency-Key of the caller's own may be repeated, at any node and after " +
	"any restart. The same again answers the instance of the first, in whatever state it is: also when it " +
	"has failed, or was deleted. For another machine give another key. A different request under the same id " +
	"or key is refused with 409 and the reason RequestDiffers. Of different requests under one key at the " +
	"same moment, whichever nodes they come to, the one that is first in the log is answered 202 and the " +
	"others 409. A key is known for 15 days after its instance has ended, unless, by default, 10,000 others " +
	"of the project have ended since: a repetition is a new boot then. The user data of a deleted instance " +
	"is not kept, so from then on it is not compared.\n\n" +
	"When Kafka does not answer: 504 with the id to ask for if it is not known whether the request was kept, " +
	"or whether it was the first under its key, and 503 with Retry-After, with nothing done, from then on " +
	"until Kafka answers again. 429 with Retry-After when too many requests wait."

func (s *Server) routeInstances(api huma.API) {
	tags := []string{"instances"}
	route(s, api, huma.Operation{
		OperationID: "boot", Method: http.MethodPost, Path: "/v1/instances", Tags: tags,
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxBootBody, Summary: "Boot a machine",
		Description: bootDescription,
	}, s.boot)
	route(s, api, huma.Operation{
		OperationID: "list-instances", Method: http.MethodGet, Path: "/v1/instances", Tags: tags,
		Summary: "List a project's instances, oldest first",
		Description: "All filters that are given must apply. What is there throughout a walk from marker to " +
			"marker on one node is seen exactly once. ref is how people look up: ids and names, whole or " +
			"their beginnings.",
	}, s.listInstances)
	route(s, api, huma.Operation{
		OperationID: "show-instance", Method: http.MethodGet, Path: "/v1/instances/{id}", Tags: tags,
		Summary: "Show an instance",
		Description: "By its whole id, and nothing less: what a beginning or a name means changes with time " +
			"(list with ref finds those). Never 404 once the boot was answered, on any node, unless a conductor " +
			"refused the request, and then this says so.",
	}, s.showInstance)
	route(s, api, huma.Operation{
		OperationID: "delete-instance", Method: http.MethodDelete, Path: "/v1/instances/{id}", Tags: tags,
		DefaultStatus: http.StatusAccepted, Summary: "Delete an instance, in whatever state",
		Description: "Answered once the request cannot be lost. Repeating it is harmless.",
	}, s.deleteInstance)
}

// InstanceInput names an instance.
type InstanceInput struct {
	ID          compute.InstanceID `path:"id" doc:"A UUID in lower case."`
	Project     compute.Project    `query:"project" doc:"Whose instance it is; left out, \"default\"."`
	Traceparent string             `header:"traceparent" hidden:"true"`
}

func (in *InstanceInput) instanceKey() (instanceKey, error) {
	at := instanceKey{orDefault(in.Project), in.ID}
	if err := at.project.Check(); err != nil {
		return at, err
	}
	if at.id.Check() != nil {
		return at, compute.Invalid("id", string(in.ID),
			"give the whole id in lower case; GET /v1/instances?ref= finds names and beginnings of ids")
	}
	return at, nil
}

type showInput struct {
	InstanceInput
	Fields string `query:"fields" example:"name,state" doc:"Only these fields, and the id; several with commas between them. Left out: all."`
}

type instanceOutput struct{ Body selected }

func (s *Server) showInstance(ctx context.Context, in *showInput) (*instanceOutput, error) {
	only, err := parseFields(in.Fields)
	if err != nil {
		return nil, err
	}
	_, k, err := s.named(ctx, &in.InstanceInput)
	if err != nil {
		return nil, err
	}
	return &instanceOutput{Body: selected{s.presenter(ctx).instance(k, only), only}}, nil
}

// named finds the instance that a request names.
func (s *Server) named(ctx context.Context, in *InstanceInput) (instanceKey, entry, error) {
	at, err := in.instanceKey()
	if err != nil {
		return at, entry{}, err
	}
	k, err := s.find(ctx, at)
	return at, k, err
}

// find looks at what is known and, on a miss, reads what other nodes published
// until now: what any of them accepted is then here.
func (s *Server) find(ctx context.Context, at instanceKey) (entry, error) {
	if k, ok := s.views.instances.get(at); ok {
		return k, nil
	}
	if err := s.catchUp(ctx, at.project); err != nil {
		return entry{}, err
	}
	if err := s.views.instances.checkReadable(at); err != nil {
		return entry{}, err
	}
	k, ok := s.views.instances.get(at)
	if ok {
		return k, nil
	}
	if err := s.views.instances.checkRefused(at); err != nil {
		return entry{}, err
	}
	return entry{}, errNoInstance(at)
}

func errNoInstance(at instanceKey) error {
	return compute.NotFound("instance", string(at.id), "project "+string(at.project)+" has no such instance")
}

func (s *Server) deleteInstance(ctx context.Context, in *InstanceInput) (*acceptedOutput, error) {
	at, k, err := s.named(ctx, in)
	if err != nil {
		return nil, err
	}
	if k.instance == nil || k.instance.State != compute.StateDeleted {
		_, err := s.publish(ctx, &compute.Request{
			Project: at.project, Instance: at.id, Op: compute.OpDelete,
			At: s.config.Now().UTC(), Trace: traceOf(in.Traceparent),
		})
		if err != nil {
			return nil, err
		}
	}
	return &acceptedOutput{Location: location(at), Body: s.presenter(ctx).instance(k, nil)}, nil
}

type listInput struct {
	Project      compute.Project    `query:"project" doc:"Left out: \"default\"."`
	State        []string           `query:"state,explode" enum:"accepted,queued,starting,active,deleting,deleted,error,unknown" doc:"Only these states; left out, all but deleted." nullable:"false"`
	All          bool               `query:"all" doc:"Deleted ones too."`
	Placeholders bool               `query:"placeholders" doc:"Placeholders of reservations, which have no machine, too. They are shown where id, or ref by an id or the beginning of one, names them."`
	Name         string             `query:"name" doc:"Exactly this name."`
	Host         compute.HostID     `query:"host" doc:"Only what this host has."`
	Queue        compute.QueueName  `query:"queue"`
	Flavor       compute.FlavorName `query:"flavor"`
	Group        compute.GroupName  `query:"group" doc:"Only what was booted into this group: its members, and what has ended of them."`
	ID           []string           `query:"id,explode" maxItems:"1000" doc:"Only these; ids that are not known are left out." nullable:"false"`
	Ref          string             `query:"ref" doc:"What a person typed: an id, else a name, else the beginning of an id or a name. Live instances hide deleted ones that match as well. 422 where it may mean more than 10,000."`
	Fresh        bool               `query:"fresh" doc:"Answer once this node has read all that any node had accepted before, or 503: for whoever is to act upon what is found."`
	Fields       string             `query:"fields" example:"name,state" doc:"Only these fields of each instance, and its id; several with commas between them. Left out: all."`
	Label        []string           `query:"label,explode" maxItems:"16" doc:"Only those with such metadata: team=a, team!=a (or no team), team (any), !team (none). Several must all hold." nullable:"false"`
	Paging

	selector compute.Selector
}

type listOutput struct{ Body selectedPage }

func (s *Server) listInstances(ctx context.Context, in *listInput) (*listOutput, error) {
	project := orDefault(in.Project)
	after, only, err := in.check(project)
	if err != nil {
		return nil, err
	}
	if in.Host != "" {
		host, ok := s.realHost(ctx, in.Host)
		if !ok {
			return &listOutput{Body: selectedPage{Items: []selected{}}}, nil
		}
		in.Host = host
	}
	sh := s.presenter(ctx)
	found, err := s.found(ctx, project, in, sh, after)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(k entry) bool { return !in.wants(sh, k) })
	return &listOutput{Body: sh.page(found, after, in.Limit, only)}, nil
}

// page is what comes behind the cursor, oldest first, as far as a page goes.
func (s *presenter) page(found []entry, after cursor, limit int, only fields) selectedPage {
	found = slices.DeleteFunc(found, func(k entry) bool { return !after.before(k) })
	found = smallest(limit+1, found, entry.compare)
	out := selectedPage{Items: []selected{}}
	if len(found) > limit {
		found = found[:limit]
		out.Next = found[len(found)-1].cursor().String()
	}
	for _, k := range found {
		i := s.instance(k, only)
		i.SSHKeys = nil // show-instance shows them
		out.Items = append(out.Items, selected{i, only})
	}
	return out
}

// check refuses filters that can match nothing, ever.
func (in *listInput) check(p compute.Project) (after cursor, only fields, err error) {
	refusals := []error{p.Check()}
	for _, id := range in.ID {
		if compute.InstanceID(id).Check() != nil {
			refusals = append(refusals, compute.Invalid("id", id, "give whole ids, or ref= for the beginning of one"))
		}
	}
	if in.Host != "" {
		refusals = append(refusals, in.Host.Check())
	}
	if in.Flavor != "" {
		refusals = append(refusals, in.Flavor.Check())
	}
	if in.Group != "" {
		refusals = append(refusals, in.Group.Check())
	}
	after, err = parseCursor(in.Marker)
	refusals = append(refusals, err)
	in.selector, err = compute.ParseSelector(in.Label)
	refusals = append(refusals, err)
	only, err = parseFields(in.Fields)
	for _, refusal := range append(refusals, err) {
		if refusal != nil {
			return after, only, refusal
		}
	}
	return after, only, nil
}

// found are the candidates once this node has read as much as the caller needs: of a ref that means nothing here, what
// others have accepted too.
func (s *Server) found(
	ctx context.Context, project compute.Project, in *listInput, sh *presenter, after cursor,
) ([]entry, error) {
	if !in.Fresh {
		found, err := s.candidates(project, in, sh, after)
		if in.Ref == "" || len(found) > 0 || err != nil {
			return found, err
		}
	}
	if err := s.catchUp(ctx, project); err != nil {
		return nil, err
	}
	return s.candidates(project, in, sh, after)
}

// candidates are at least the first of those that may be shown, by the narrowest
// index there is.
func (s *Server) candidates(
	project compute.Project, in *listInput, sh *presenter, after cursor,
) ([]entry, error) {
	switch {
	case len(in.ID) > 0:
		var out []entry
		for _, id := range slices.Compact(slices.Sorted(slices.Values(in.ID))) {
			if k, ok := s.views.instances.get(instanceKey{project, compute.InstanceID(id)}); ok {
				out = append(out, k)
			}
		}
		return out, nil
	case in.Ref != "":
		found, more := s.views.instances.resolve(project, in.Ref, in.Placeholders, s.meant)
		if more {
			e := compute.Invalid("ref", in.Ref, "give more of the name or id, or the whole id")
			e.Message = fmt.Sprintf("may mean more than %d instances", s.meant)
			return nil, e
		}
		return found, nil
	}
	q := instanceQuery{
		project: project, name: in.Name, host: in.Host, queue: in.Queue, flavor: in.Flavor, group: in.Group,
		states: in.states(),
		after:  after, limit: in.Limit + 1, wanted: func(k entry) bool { return in.wants(sh, k) },
	}
	if q.onlyUnknown() {
		q.silent = sh.silentHosts()
	}
	return s.views.instances.find(q), nil
}

// states are those that are shown, none for any.
func (in *listInput) states() []compute.State {
	var out []compute.State
	for _, name := range in.State {
		if state, err := compute.ParseState(name); err == nil {
			out = append(out, state)
		}
	}
	if len(out) > 0 || in.All {
		return out
	}
	for s := compute.StateQueued; s <= compute.StateUnknown; s++ {
		if s != compute.StateDeleted {
			out = append(out, s)
		}
	}
	return out
}

// wants says whether all the filters let it through.
func (in *listInput) wants(sh *presenter, k entry) bool {
	state := sh.state(k)
	if len(in.State) > 0 && !slices.Contains(in.State, state.String()) {
		return false
	}
	narrowed := len(in.State) > 0 || len(in.ID) > 0 || in.Ref != ""
	if !narrowed && !in.All && state == compute.StateDeleted {
		return false
	}
	boot := k.boot()
	if named := len(in.ID) > 0 || in.Ref != ""; boot.IsPlaceholder() && !in.Placeholders && !named {
		return false
	}
	host := compute.HostID("")
	if k.instance != nil {
		host = k.instance.Host
	}
	return (in.Name == "" || in.Name == boot.Name) &&
		(in.Flavor == "" || in.Flavor == boot.Flavor) &&
		(in.Queue == "" || in.Queue == k.queue()) &&
		(in.Group == "" || in.Group == boot.Group()) &&
		(in.Host == "" || in.Host == host) &&
		in.selector.Selects(boot.Metadata)
}

func (c cursor) String() string { return fmt.Sprintf("%d_%s", c.since, c.id) }

// before says whether the instance comes behind the cursor.
func (c cursor) before(k entry) bool { return c.id == "" || c.compare(k.cursor()) < 0 }

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	since, id, _ := strings.Cut(text, "_")
	c := cursor{id: id}
	var err error
	if c.since, err = strconv.ParseInt(since, 10, 64); err != nil || compute.InstanceID(id).Check() != nil {
		return cursor{}, compute.Invalid("marker", text, "give the next of the page before, as it is")
	}
	return c, nil
}
