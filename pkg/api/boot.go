// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

type bootInput struct {
	Project     compute.Project `query:"project" doc:"Whose instance it is, if the body does not say."`
	Key         string          `header:"Idempotency-Key" example:"deploy-42" doc:"1 to 255 printable ASCII characters. Repeated with the same body, on any node and after any restart, it answers the instance of the first request, in whatever state that is; with another body, 409. It stands for the id UUIDv5(project, key)."`
	Traceparent string          `header:"traceparent" doc:"W3C trace context; it travels with the instance."`
	Body        rest.Boot

	keys []string         // the header as often as it was given
	gone []compute.HostID // ids that it names and that stand for no host, or for none any more
}

type acceptedOutput struct {
	Location string `header:"Location" doc:"Where the instance is shown."`
	Body     rest.Instance
}

// boot accepts a request. It answers once the request cannot be lost.
func (s *Server) boot(ctx context.Context, in *bootInput) (*acceptedOutput, error) {
	req, err := s.request(in)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "instance", req.Instance, string(req.Instance))
	if err := s.checkCaller(ctx, "boot", in, req); err != nil {
		return nil, err
	}
	at := instanceKey{req.Project, req.Instance}
	if in.own() {
		done, err := s.locks.lock(ctx, at)
		if err != nil {
			return nil, err
		}
		defer done()
		k, ok, err := s.findExisting(at, func(p compute.Project) error { return s.catchUp(ctx, p) })
		switch {
		case err != nil:
			return nil, err
		case ok:
			return s.answerRepeat(ctx, k, req, in)
		}
	}
	if err := s.checkNew(ctx, at, *req.Boot, in); err != nil {
		return nil, err
	}
	written, err := s.sealBoot(req)
	if err != nil {
		return nil, err
	}
	offset, err := s.publish(ctx, written)
	s.traceBoot(written, traceOf(in.Traceparent), err)
	if err != nil {
		return nil, err
	}
	seen := *written
	seen.At = written.At.Add(-s.clock.Ahead()) // as other nodes read it: this one's clock may be wrong
	was := asked{Request: &seen, origin: origin{offset: offset}}
	if in.own() {
		return s.readBack(ctx, was, req, in)
	}
	s.views.instances.accept([]asked{was}, nil)
	s.metrics.accepted()
	return s.acceptedAnswer(ctx, entry{request: &seen}), nil
}

// own says whether the id is the caller's, directly or by a key: it may be known, as nobody else makes the ids that we
// make.
func (in *bootInput) own() bool { return in.Body.ID != "" || len(in.keys) > 0 }

// checkCaller refuses what this caller may not ask an operation for.
func (s *Server) checkCaller(ctx context.Context, op string, in *bootInput, req *compute.Request) error {
	if err := s.checkProject(ctx, op, req.Project); err != nil {
		return err
	}
	return s.checkForeign(ctx, in, req)
}

// checkNew refuses a boot that would make an instance, if it cannot.
func (s *Server) checkNew(ctx context.Context, at instanceKey, b compute.Boot, in *bootInput) error {
	if len(in.gone) > 0 {
		return compute.NotFound("host", string(in.gone[0]), "give a host as your instances show it")
	}
	if _, others := s.views.instances.otherOwner(at); others {
		return errIDTaken(ctx, at)
	}
	if err := s.findOffered(ctx, at.project, b); err != nil {
		return err
	}
	b, err := s.asAdmitted(at.project, b)
	if err != nil {
		return err
	}
	if err := s.checkBoot(b); err != nil {
		return err
	}
	if err := s.checkReservation(ctx, at.project, b); err != nil {
		return err
	}
	return s.checkGroup(at.project, b)
}

// errIDTaken is the refusal of an id that another project has. A caller that may not see that project is
// not told of it.
func errIDTaken(ctx context.Context, at instanceKey) error {
	if !callerOf(ctx).ReadsAll() {
		return compute.Conflict("id", string(at.id), "cannot be used", "leave the id out, or give a new one")
	}
	e := compute.Conflict("id", string(at.id), "belongs to another project's instance",
		"leave the id out, or give a new one")
	e.Reason = &compute.Reason{Code: compute.RequestDiffers, Detail: "project"}
	return e
}

// request is what the caller wants, checked as far as needs no catalog.
func (s *Server) request(in *bootInput) (*compute.Request, error) {
	boot, err := in.Body.Compute()
	if err != nil {
		return nil, err
	}
	project := in.Body.Project
	switch {
	case project == "":
		project = orDefault(in.Project)
	case in.Project != "" && in.Project != project:
		return nil, compute.Invalid("project", string(project), "the query says "+string(in.Project)+": give it once")
	}
	if err := project.Check(); err != nil {
		return nil, err
	}
	id, err := in.keyedID(project)
	if err != nil {
		return nil, err
	}
	if id = cmp.Or(id, in.Body.ID); id == "" {
		id = compute.InstanceID(uuid.NewString())
	}
	req := &compute.Request{
		Project: project, Instance: id, Op: compute.OpBoot, Boot: &boot,
		At: s.config.Now().UTC(),
	}
	req.Trace = s.config.Tracer.Begin(id, traceOf(in.Traceparent), req.At)
	return req, req.Check()
}

// traceBoot tells how long it took until a boot could not be lost any more.
func (s *Server) traceBoot(req *compute.Request, caller compute.Trace, err error) {
	if s.config.Tracer == nil || req.Trace == "" {
		return
	}
	span := tracing.Span{
		Name: "boot", Trace: req.Trace, Boot: true, Caller: caller, From: req.At, To: s.config.Now(),
		Instance: req.Instance, Project: req.Project, Queue: req.Boot.Queue(),
	}
	if err != nil {
		span.Failed = err.Error()
	}
	s.config.Tracer.Tell(span)
}

// checkBoot refuses at once what no host will ever be asked for. What a host has
// free plays no part.
func (s *Server) checkBoot(b compute.Boot) error {
	if err := s.checkCatalog(b); err != nil {
		return err
	}
	if b.Host != "" {
		if _, ok := s.views.hosts.get(b.Host); !ok {
			return compute.NotFound("host", string(b.Host), "berth host list shows all hosts")
		}
	}
	name := b.BaseQueue()
	switch q := s.views.queues.of(b); {
	case q == nil:
		return &compute.Error{
			Kind: compute.KindUnavailable, Field: "queue", Value: string(name), Message: "is not ready yet",
			Remedy: "it is made within seconds of its flavor; try again",
		}
	case q.State != compute.QueueOpen:
		e := compute.NotFound("queue", string(q.Name), "try again; if its flavor was another one before, it is made anew "+
			"once nothing waits there, reservations too")
		e.Message, e.Reason = "is closed", &compute.Reason{Code: compute.QueueClosedReason}
		return e
	case q.Flavor != b.Flavor || q.Priority != b.Priority():
		e := compute.NotFound("priority", b.Priority().String(), "boot it with normal priority, or another flavor")
		e.Message = fmt.Sprintf("has no queue: %s is another's", q.Name)
		e.Reason = &compute.Reason{Code: compute.QueueClosedReason}
		return e
	}
	return nil
}

// findOffered reads first what other nodes have changed in the catalog, if this one does not find there what a boot
// names.
func (s *Server) findOffered(ctx context.Context, p compute.Project, b compute.Boot) error {
	_, grouped := s.config.Catalog.Group(compute.GroupKey{Project: p, Name: b.Group()})
	if (grouped || b.Group() == "") && s.checkCatalog(b) == nil {
		return nil
	}
	return s.catchUpCatalog(ctx)
}

// lookUp is what find finds, at once or once this node has read what other nodes have changed in the catalog.
func lookUp[T any](ctx context.Context, s *Server, find func() (T, bool)) (T, bool, error) {
	v, ok := find()
	if ok {
		return v, true, nil
	}
	if err := s.catchUpCatalog(ctx); err != nil {
		return v, false, err
	}
	v, ok = find()
	return v, ok, nil
}

// checkCatalog refuses what the catalog does not offer.
func (s *Server) checkCatalog(b compute.Boot) error {
	f, ok := s.config.Catalog.Flavor(b.Flavor)
	if !ok {
		return s.errNoFlavor(b.Flavor)
	}
	for _, axis := range slices.Sorted(maps.Keys(b.With)) {
		if err := s.checkChoice(f, axis, b.With[axis]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) checkChoice(f compute.Flavor, axis compute.AxisName, value compute.AxisValue) error {
	reason := &compute.Reason{Code: compute.NoSuchCapability, Detail: string(axis) + "=" + string(value)}
	c, ok := s.config.Catalog.Capability(axis)
	if !ok {
		e := compute.NotFound("capability", string(axis), "berth capability list shows what there is")
		e.Reason = reason
		return e
	}
	if !slices.Contains(f.Capabilities, axis) {
		e := compute.NotFound("capability", string(axis), "flavor "+string(f.Name)+" "+describeCapabilities(f))
		e.Message, e.Reason = "is not offered with flavor "+string(f.Name), reason
		return e
	}
	if _, ok := c.Value(value); !ok {
		var values []string
		for _, v := range c.Values {
			values = append(values, string(v.Value))
		}
		e := compute.NotFound(string(axis), string(value), "choose one of "+strings.Join(values, ", "))
		e.Reason = reason
		return e
	}
	return nil
}

func describeCapabilities(f compute.Flavor) string {
	if len(f.Capabilities) == 0 {
		return "has no capabilities"
	}
	return fmt.Sprintf("can be combined with %v", f.Capabilities)
}

func (s *Server) errNoFlavor(name compute.FlavorName) error {
	var names []string
	for _, f := range s.config.Catalog.Flavors() {
		names = append(names, string(f.Name))
	}
	remedy := "there are no flavors yet"
	switch {
	case len(names) > 20:
		remedy = "berth flavor list shows all flavors"
	case len(names) > 0:
		remedy = "choose one of " + strings.Join(names, ", ")
	}
	e := compute.NotFound("flavor", string(name), remedy)
	e.Reason = &compute.Reason{Code: compute.NoSuchFlavor, Detail: string(name)}
	return e
}

// acceptedAnswer answers for what is safe, with what is known of it now, or else of before:
// the conductor may have written it meanwhile in a schema that this node does not read.
func (s *Server) acceptedAnswer(ctx context.Context, was entry) *acceptedOutput {
	if k, ok := s.views.instances.get(was.key()); ok {
		was = k
	}
	return &acceptedOutput{Location: location(was.key()), Body: s.presenter(ctx).instance(was, nil)}
}

func location(at instanceKey) string {
	path := "/v1/instances/" + url.PathEscape(string(at.id))
	if at.project == defaultProject {
		return path
	}
	return path + "?project=" + url.QueryEscape(string(at.project))
}

// publish returns once the request is safe, and where it is in its partition. An error that leaves its fate open
// says so, with what makes a repetition harmless.
func (s *Server) publish(ctx context.Context, req *compute.Request) (offset int64, err error) {
	rec := wire.EncodeRequest(*req).To(s.config.Topics.Requests(), wire.Partition(req.Project, s.config.Partitions))
	err = s.withBreaker(ctx, place{topic: rec.Topic, partition: rec.Partition}, func(ctx context.Context) (err error) {
		offset, err = s.config.Publisher.Append(ctx, rec)
		return err
	})
	var e *compute.Error
	if errors.As(err, &e) && e.Kind == compute.KindTimeout {
		e.Field, e.Value = "id", string(req.Instance)
		e.Remedy = "ask for instance " + string(req.Instance) + ", or repeat the request with this id"
	}
	return offset, err
}

// askAfterTimeout has a request that may be kept or not name what to ask for, in place of its first instance.
func askAfterTimeout(err error, field, value, remedy string) error {
	var e *compute.Error
	if !errors.As(err, &e) || e.Kind != compute.KindTimeout {
		return err
	}
	out := *e
	out.Field, out.Value, out.Remedy = field, value, remedy
	return &out
}

const defaultProject = rest.DefaultProject

func orDefault(p compute.Project) compute.Project {
	if p == "" {
		return defaultProject
	}
	return p
}

var tracePattern = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceOf takes a trace context if it is one; the standard says to ignore others.
func traceOf(header string) compute.Trace {
	if tracePattern.MatchString(header) {
		return compute.Trace(header)
	}
	return ""
}
