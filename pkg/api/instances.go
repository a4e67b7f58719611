package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeInstances(api huma.API) {
	tags := []string{"instances"}
	route(s, api, huma.Operation{
		OperationID: "boot", Method: http.MethodPost, Path: "/v1/instances", Tags: tags,
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxBootBody, Summary: "Boot a machine",
		Description: "Answered once the request cannot be lost. Unknown flavors, capabilities and values are refused at once; everything else, quota included, shows in the instance's state.",
	}, s.boot)
	route(s, api, huma.Operation{
		OperationID: "list-instances", Method: http.MethodGet, Path: "/v1/instances", Tags: tags,
		Summary: "List a project's instances, oldest first",
	}, s.listInstances)
	route(s, api, huma.Operation{
		OperationID: "show-instance", Method: http.MethodGet, Path: "/v1/instances/{id}", Tags: tags,
		Summary: "Show an instance", Description: "Never 404 once the boot was answered, on any node.",
	}, s.showInstance)
	route(s, api, huma.Operation{
		OperationID: "delete-instance", Method: http.MethodDelete, Path: "/v1/instances/{id}", Tags: tags,
		DefaultStatus: http.StatusAccepted, Summary: "Delete an instance, in whatever state",
		Description: "Answered once the request cannot be lost. Repeating it is harmless.",
	}, s.deleteInstance)
}

type instanceInput struct {
	ID          compute.InstanceID `path:"id" doc:"A UUID in lower case."`
	Project     compute.Project    `query:"project" doc:"Whose instance it is; left out, \"default\"."`
	Traceparent string             `header:"traceparent" hidden:"true"`
}

func (in *instanceInput) key() (key, error) {
	at := key{orDefault(in.Project), in.ID}
	if err := at.project.Check(); err != nil {
		return at, err
	}
	return at, at.id.Check()
}

type instanceOutput struct{ Body rest.Instance }

func (s *Server) showInstance(ctx context.Context, in *instanceInput) (*instanceOutput, error) {
	at, err := in.key()
	if err != nil {
		return nil, err
	}
	k, err := s.find(ctx, at)
	if err != nil {
		return nil, err
	}
	return &instanceOutput{Body: s.shower().instance(k)}, nil
}

// find looks at what is known and, on a miss, reads what other nodes published
// until now: what any of them accepted is then here.
func (s *Server) find(ctx context.Context, at key) (known, error) {
	if k, ok := s.views.instances.get(at); ok {
		return k, nil
	}
	if err := s.catchUp(ctx); err != nil {
		return known{}, err
	}
	k, ok := s.views.instances.get(at)
	if !ok {
		return known{}, compute.NotFound("instance", string(at.id), "project "+string(at.project)+" has no such instance")
	}
	return k, nil
}

func (s *Server) deleteInstance(ctx context.Context, in *instanceInput) (*acceptedOutput, error) {
	at, err := in.key()
	if err != nil {
		return nil, err
	}
	k, err := s.find(ctx, at)
	if err != nil {
		return nil, err
	}
	if k.instance == nil || k.instance.State != compute.StateDeleted {
		err := s.publish(ctx, &compute.Request{
			Project: at.project, Instance: at.id, Op: compute.OpDelete,
			At: time.Now().UTC(), Trace: traceOf(in.Traceparent),
		})
		if err != nil {
			return nil, err
		}
	}
	return &acceptedOutput{Location: location(at), Body: s.shower().instance(k)}, nil
}

type listInput struct {
	Project compute.Project    `query:"project" doc:"Left out: \"default\"."`
	State   []string           `query:"state,explode" enum:"accepted,queued,starting,active,deleting,deleted,error,unknown" doc:"Only these states; left out, all but deleted." nullable:"false"`
	All     bool               `query:"all" doc:"Deleted ones too."`
	Name    string             `query:"name" doc:"Exactly this name."`
	Host    compute.HostID     `query:"host" doc:"Only what this host has."`
	Queue   compute.QueueName  `query:"queue"`
	Flavor  compute.FlavorName `query:"flavor"`
	ID      []string           `query:"id,explode" maxItems:"1000" doc:"Only these; ids that are not known are left out." nullable:"false"`
	Ref     string             `query:"ref" doc:"What a person typed: an id, else a name, else the beginning of an id or a name. Live instances hide deleted ones that match as well."`
	Limit   int                `query:"limit" minimum:"1" maximum:"1000" default:"500" doc:"Most instances in one answer."`
	After   string             `query:"after" doc:"The next of the page before."`
}

type listOutput struct{ Body rest.Instances }

func (s *Server) listInstances(ctx context.Context, in *listInput) (*listOutput, error) {
	project := orDefault(in.Project)
	if err := project.Check(); err != nil {
		return nil, err
	}
	after, err := parseCursor(in.After)
	if err != nil {
		return nil, err
	}
	sh := s.shower()
	found := s.candidates(project, in)
	if in.Ref != "" && len(found) == 0 {
		if err := s.catchUp(ctx); err != nil {
			return nil, err
		}
		found = s.candidates(project, in)
	}
	found = slices.DeleteFunc(found, func(k known) bool { return !in.wants(sh, k) || !after.before(k) })
	slices.SortFunc(found, known.compare)
	out := &listOutput{Body: rest.Instances{Items: []rest.Instance{}}}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		out.Body.Next = cursorAt(found[len(found)-1]).String()
	}
	for _, k := range found {
		out.Body.Items = append(out.Body.Items, sh.instance(k))
	}
	return out, nil
}

// candidates uses the narrowest index there is.
func (s *Server) candidates(p compute.Project, in *listInput) []known {
	switch {
	case len(in.ID) > 0:
		var out []known
		for _, id := range in.ID {
			if k, ok := s.views.instances.get(key{p, compute.InstanceID(id)}); ok {
				out = append(out, k)
			}
		}
		return out
	case in.Ref != "":
		return refer(s.views.instances.of(p, ""), in.Ref)
	}
	return s.views.instances.of(p, in.Name)
}

// wants says whether all the filters let it through.
func (in *listInput) wants(sh *shower, k known) bool {
	state := sh.state(k)
	if len(in.State) > 0 && !slices.Contains(in.State, state.String()) {
		return false
	}
	narrowed := len(in.State) > 0 || len(in.ID) > 0 || in.Ref != ""
	if !narrowed && !in.All && state == compute.StateDeleted {
		return false
	}
	boot := k.boot()
	host := compute.HostID("")
	if k.instance != nil {
		host = k.instance.Host
	}
	return (in.Name == "" || in.Name == boot.Name) &&
		(in.Flavor == "" || in.Flavor == boot.Flavor) &&
		(in.Queue == "" || in.Queue == k.queue()) &&
		(in.Host == "" || in.Host == host)
}

// refer finds what a person may mean: the best kind of match there is, and
// among its matches the live ones if there are any.
func refer(all []known, ref string) []known {
	for _, matches := range []func(known) bool{
		func(k known) bool { return string(k.key().id) == ref },
		func(k known) bool { return k.boot().Name == ref },
		func(k known) bool {
			return strings.HasPrefix(string(k.key().id), ref) || strings.HasPrefix(k.boot().Name, ref)
		},
	} {
		var live, gone []known
		for _, k := range all {
			switch {
			case !matches(k):
			case k.instance != nil && k.instance.State == compute.StateDeleted:
				gone = append(gone, k)
			default:
				live = append(live, k)
			}
		}
		if len(live) > 0 {
			return live
		}
		if len(gone) > 0 {
			return gone
		}
	}
	return nil
}

// cursor is a place in a list: behind an instance asked for then, with that id.
// The zero cursor is before the first.
type cursor struct {
	since int64 // nanoseconds since 1970
	id    compute.InstanceID
}

func cursorAt(k known) cursor { return cursor{since: nanos(k.since()), id: k.key().id} }

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func (c cursor) String() string { return fmt.Sprintf("%d_%s", c.since, c.id) }

// before says whether the instance comes behind the cursor.
func (c cursor) before(k known) bool {
	if c.id == "" {
		return true
	}
	other := cursorAt(k)
	return cmp.Or(cmp.Compare(c.since, other.since), cmp.Compare(c.id, other.id)) < 0
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	since, id, _ := strings.Cut(text, "_")
	c := cursor{id: compute.InstanceID(id)}
	var err error
	if c.since, err = strconv.ParseInt(since, 10, 64); err != nil || c.id.Check() != nil {
		return cursor{}, compute.Invalid("after", text, "give the next of the page before, as it is")
	}
	return c, nil
}
