// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/api/capabilities"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/sse"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// followEvents is the operation that does not end by itself.
const followEvents = "follow-events"

const eventsDescription = "Server-sent events: one for each change of an instance, as this node reads it from the " +
	"log. Of the names of events, change has the change, and removed says that a record is gone, long after its " +
	"instance ended. Both have an id.\n\n" +
	"**Going on.** Send the last id that came as Last-Event-ID, to any node, with the same project: each change behind " +
	"it that passes the filters comes, once, those of a project in the order of the log. Take the ids of blocks without " +
	"data too: they come when nothing was to be told. Without Last-Event-ID and since it begins with what comes from " +
	"now on; the first block says where that is. A node keeps the newest 50,000 changes, of all projects, and fewer " +
	"where their texts are long: where something may be missing, gap says so, and where it goes on. It never leaves " +
	"anything out silently.\n\n" +
	"**The present.** With present=true it begins with the instances as they are: present for each, deleted ones only " +
	"if state or instance names them, then presented. After a gap they come anew.\n\n" +
	"**The end.** The last event is end, with the reason. A listener that takes nothing for 10 s is cut off without it. " +
	"503 with Retry-After when there are too many. Lines that begin with a colon keep the connection open: they come " +
	"every 15 s."

// Bounds of listeners.
const (
	keptEvents   = 50_000
	keptBytes    = 64 << 20
	tellEntries  = 12 * time.Hour // before they are read: what is older may have been compacted without a trace
	keepOpen     = 15 * time.Second
	blocked      = 10 * time.Second
	tellAtOnce   = 256         // events between two looks at whether to go on
	comeAgain    = time.Second // after the end of a stream, at the earliest
	mostPresent  = 1_000_000
	fewPresent   = 1000
	listAtOnce   = 2
	spread       = 4 * time.Second // of that, so that not all come at once
	allProjects  = compute.Project("*")
	shareOfALone = 4 // one caller may have a quarter of the listeners, or of the consoles
)

type eventsInput struct {
	Project     compute.Project    `query:"project" doc:"Whose instances; left out, \"default\". * means all projects, for operators."`
	Instance    compute.InstanceID `query:"instance" doc:"Of this instance alone, by its whole id."`
	Host        compute.HostID     `query:"host" doc:"Of what this host has after the change, or had before."`
	State       []string           `query:"state,explode" enum:"queued,starting,active,deleting,deleted,error" doc:"Only changes after which it is in one of these states." nullable:"false"`
	Reason      []string           `query:"reason,explode" maxItems:"50" doc:"Only changes with one of these reasons, as in BuildFailed." nullable:"false"`
	Label       []string           `query:"label,explode" maxItems:"16" doc:"Only of instances that have such metadata after the change, or had before, as in list-instances." nullable:"false"`
	LastEventID string             `header:"Last-Event-ID" doc:"The last id that came: it goes on behind it."`
	Since       time.Time          `query:"since" doc:"Without Last-Event-ID: begin with what this node knows since then, by the time of the log."`
	Present     bool               `query:"present" doc:"Tell how the instances are now, too."`
	Follow      bool               `query:"follow" default:"true" doc:"false: end when all is told that there is now."`
}

func (s *Server) routeEvents(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	var kinds []*huma.Schema
	for _, of := range []reflect.Type{
		reflect.TypeFor[rest.Event](), reflect.TypeFor[rest.EventsGap](), reflect.TypeFor[rest.EventsEnd](),
	} {
		kinds = append(kinds, schemas.Schema(of, true, of.Name()))
	}
	route(s, api, huma.Operation{
		OperationID: followEvents, Method: http.MethodGet, Path: "/v1/events", Tags: []string{"instances"},
		Summary: "Follow what changes: server-sent events", Description: eventsDescription,
		Responses: map[string]*huma.Response{"200": {
			Description: "Events; the schema is that of their data.",
			Content:     map[string]*huma.MediaType{sse.ContentType: {Schema: &huma.Schema{OneOf: kinds}}},
		}},
	}, func(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
		wish, err := s.wish(ctx, in)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(h huma.Context) { s.stream(h, in, wish) }}, nil
	})
}

// wish is what the caller wants to hear.
func (s *Server) wish(ctx context.Context, in *eventsInput) (events.Wish, error) {
	w := events.Wish{Since: in.Since, Wanted: events.Wanted{Instance: in.Instance, Host: in.Host}}
	w.Caller = s.boundedCaller(ctx)
	project, err := oneOrAll(callerOf(ctx), in.Project)
	if err != nil {
		return w, err
	}
	if w.Wanted.Project = project; project != "" {
		w.Partitions = []int32{wire.Partition(project, s.config.Partitions)}
	}
	if in.Instance != "" && in.Instance.Check() != nil {
		return w, compute.Invalid("instance", string(in.Instance), "give the whole id in lower case")
	}
	if in.Host != "" {
		if err := in.Host.Check(); err != nil {
			return w, err
		}
		var known bool
		if w.Wanted.Host, known = s.realHost(ctx, in.Host); !known {
			return w, compute.NotFound("host", string(in.Host), "give a host as your instances show it")
		}
	}
	for _, name := range in.State {
		state, err := compute.ParseState(name)
		if err != nil {
			return w, err
		}
		w.Wanted.States = append(w.Wanted.States, state)
	}
	if w.Wanted.Labels, err = compute.ParseSelector(in.Label); err != nil {
		return w, err
	}
	for n, code := range in.Reason {
		if err := capabilities.CheckReason(fmt.Sprintf("reason[%d]", n), code); err != nil {
			return w, err
		}
		w.Wanted.Reasons = append(w.Wanted.Reasons, compute.ReasonCode(code))
	}
	if in.LastEventID != "" {
		var err error
		if w.From, err = events.ParseID(in.LastEventID); err != nil {
			return w, err
		}
		if s.events.Ahead(w.From) { // another node has read more
			return w, s.catchUp(ctx, cmp.Or(project, allProjects))
		}
	}
	return w, nil
}

// oneOrAll is the project that a question is about; empty: all, which callers of the cell may ask for as "*".
func oneOrAll(caller auth.Principal, asked compute.Project) (compute.Project, error) {
	project := orDefault(asked)
	if project != allProjects {
		return project, project.Check()
	}
	if !caller.ReadsAll() {
		return "", auth.Need{Role: auth.RoleOperator, Scope: auth.Cell}.Check(caller, "")
	}
	return "", nil
}

// present lists the instances that are wanted as they are, the oldest first, and begins to listen to what changes from
// then on: nothing changes in between. Nobody waits until they are in order.
func (v *instances) present(w events.Wanted, begin func() error) ([]*compute.Instance, error) {
	found, err := v.mayBePresent(w, begin)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(k *entry) bool {
		gone := k.state() == compute.StateDeleted && len(w.States) == 0 && w.Instance == ""
		return k.instance == nil || gone || !w.Has(k.instance)
	})
	slices.SortFunc(found, listOrder)
	all := make([]*compute.Instance, len(found))
	for n, k := range found {
		all[n] = k.instance
	}
	return all, nil
}

// mayBePresent are those that can be wanted, in no order: by the index that has the fewest others.
func (v *instances) mayBePresent(w events.Wanted, begin func() error) (found []*entry, err error) {
	v.telling.Lock()
	defer v.telling.Unlock()
	if err := begin(); err != nil {
		return nil, err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	switch {
	case w.Instance != "" && w.Project != "":
		if k := v.lookup(instanceKey{w.Project, w.Instance}); k != nil {
			found = append(found, k)
		}
	case w.Instance != "":
		if k := v.byID[w.Instance]; k != nil {
			found = append(found, k)
		}
		for at, k := range v.others {
			if at.id == w.Instance {
				found = append(found, k)
			}
		}
	case w.Host != "":
		found = slices.AppendSeq(found, maps.Keys(v.byHost[w.Host]))
	case w.Project != "":
		found = v.byProject[w.Project].inStates(found, w.States)
	default:
		for _, of := range v.byProject {
			found = of.inStates(found, w.States)
		}
	}
	return found, nil
}

// inStates appends those of a project that are in some states; of none, in all but deleted.
func (t *projectIndex) inStates(to []*entry, states []compute.State) []*entry {
	if t == nil {
		return to
	}
	for s, all := range t.byState {
		state := compute.State(s)
		if len(states) == 0 && state != compute.StateDeleted || slices.Contains(states, state) {
			to = slices.AppendSeq(slices.Grow(to, all.Len()), all.From(nil))
		}
	}
	return to
}

// presents bounds the instances that listeners are still to be told of as they were, of all listeners together: each is
// kept in memory for that though it may have changed. They are listed for two listeners at a time.
type presents struct {
	listing chan struct{}
	most    int // one listener alone may be told of more
	few     int // so many for one listener do not count, or one that is slow with many would keep all others out
	mu      sync.Mutex
	held    int
}

// hold takes places for so many, until they are let go.
func (p *presents) hold(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.few && p.held > 0 && p.held+n > p.most {
		return &compute.Error{
			Kind: compute.KindUnavailable, Field: "present", Value: "true",
			Message: fmt.Sprintf("this node tells others of %d instances as they are already", p.held),
			Remedy:  "try again in a moment, ask another node, or for fewer of them",
		}
	}
	p.held += n
	return nil
}

func (p *presents) letGo(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= n
}

// event shows one.
func (s *presenter) event(e *events.Event, id string) rest.Event {
	out := rest.Event{
		ID: id, At: e.Time.UTC(), Project: e.Project, Instance: e.ID, Name: e.Name, Metadata: e.Labels, Version: e.Version,
		Renamed: e.Renamed, NameBefore: e.NameBefore, Relabelled: e.Relabelled,
		State: rest.State(e.After.String()), Host: s.host(e.Host), Attempt: e.Attempt,
		Reason: rest.FromReason(e.Reason), Command: rest.FromCommand(e.Command), Answer: rest.FromAnswer(e.Answer),
		Notice: rest.FromNotice(e.Notice, e.Then),
		Delete: e.Delete && !e.DeleteBefore, Power: rest.FromPower(e.Power),
	}
	if e.Before != compute.StateNone {
		out.StateBefore = rest.State(e.Before.String())
	}
	if e.HostBefore != e.Host {
		out.HostBefore = s.host(e.HostBefore)
	}
	if e.PowerBefore != e.Power {
		out.PowerBefore = rest.FromPower(e.PowerBefore)
	}
	if r := out.Reason; r != nil {
		s.hideInSet(e.Project, r)
		r.Message, r.Detail, r.Host = s.text(r.Message, e.Named...), s.text(r.Detail, e.Named...), s.host(r.Host)
	}
	if out.Notice != nil {
		out.Notice.Host = s.host(out.Notice.Host)
	}
	if out.Answer != nil {
		out.Answer.Failed = s.text(out.Answer.Failed, e.Named...)
	}
	return out
}

// StopListeners ends all streams of events with a word, and refuses new ones.
func (s *Server) StopListeners() { s.events.Stop() }

// boundListeners fills in what is not set.
func boundListeners(b events.Bounds) events.Bounds {
	b.Kept, b.Bytes, b.Listeners = cmp.Or(b.Kept, keptEvents), cmp.Or(b.Bytes, keptBytes), cmp.Or(b.Listeners, 1000)
	b.OfCaller = cmp.Or(b.OfCaller, max(1, b.Listeners/shareOfALone))
	return b
}
