// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// readsOnly is in the metadata of an operation that changes nothing though its method says so.
const readsOnly = "reads only"

// audited is the middleware that has every call of an operation written down that changes something or is refused.
func (s *Server) audited(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	id := requestID(w.Header(), r)
	ctx = huma.WithValue(ctx, requestKey{}, id)
	if s.config.Audit == nil {
		next(ctx)
		return
	}
	dry, _ := strconv.ParseBool(ctx.Query("dry_run")) // what is none is refused
	changes := op.Method != http.MethodGet && !dry && op.Metadata[readsOnly] != true
	within := s.config.Audit.Begin(ctx.Context(), r, id, op.OperationID, changes, op.DefaultStatus)
	s.noteTarget(within, ctx)
	next(huma.WithContext(ctx, within))
	s.config.Audit.End(within, ctx.Status())
}

// requestKey is of the request's id in its context, with which the log tells of what went wrong.
type requestKey struct{}

// requestID is the request's id, which is in its answer too.
func requestID(answer http.Header, r *http.Request) string {
	id := audit.RequestID(r.Header.Get(audit.RequestHeader))
	answer.Set(audit.RequestHeader, id)
	return id
}

// noteTarget notes what the path and the query say that the call is about.
func (s *Server) noteTarget(ctx context.Context, h huma.Context) {
	project := cmp.Or(h.Param("project"), h.Query("project"))
	switch s.door.needs[h.Operation().OperationID].Scope {
	case auth.Project, auth.Instance:
		project = cmp.Or(project, string(defaultProject))
	}
	audit.Project(ctx, compute.Project(project))
	instance, host := h.Param("id"), h.Param("host")
	flavor, axis, token := h.Param("flavor"), h.Param("axis"), h.Param("token")
	audit.Target(ctx, "instance", compute.InstanceID(instance), instance)
	audit.Target(ctx, "host", compute.HostID(host), host)
	audit.Target(ctx, "flavor", compute.FlavorName(flavor), flavor)
	audit.Target(ctx, "group", compute.GroupName(h.Param("group")), h.Param("group"))
	audit.Target(ctx, "capability", compute.AxisName(axis), axis)
	audit.Target(ctx, "token", compute.TokenID(token), token)
}

func (s *Server) routeAudit(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Tags: []string{"access"},
		Summary: "List who changed what, and what was refused: the newest first",
		Description: "It is read from Kafka for each request, as far as this node may. For one page at most " +
			strconv.Itoa(audit.MostRead) + " records, or " + strconv.Itoa(audit.MostBytes>>20) +
			" MiB of them, are looked at: where that was not enough, stopped_early is true, and next goes on with " +
			"what is older.",
	}, s.listAudit)
}

// auditPages is how many pages of the audit, and of what was refused, are read at once for callers of the cell, and as
// many for those of projects: each takes some MB while it is read.
const auditPages = 2

type auditInput struct {
	Paging
	Project   compute.Project `query:"project" doc:"About this project alone."`
	Who       string          `query:"who" maxLength:"256" doc:"Of this caller alone: its name or its id." example:"token:ci-bot"`
	Operation string          `query:"operation" maxLength:"64" doc:"This operation alone." example:"delete-instance"`
	Result    string          `query:"result" maxLength:"64" doc:"ok, refused, a status or the kind of a problem." example:"refused"`
	Since     time.Time       `query:"since" doc:"No older than this."`
}

type auditOutput struct{ Body rest.AuditPage }

func (s *Server) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	if s.config.Trail == nil {
		return nil, compute.Conflict("audit", "false", "this node keeps no audit", "set audit: true on every API node")
	}
	q := audit.Query{
		Wanted: audit.Wanted{Project: in.Project, Who: in.Who, What: in.Operation, Result: in.Result},
		Since:  in.Since, Before: -1, Limit: in.Limit,
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if in.Marker != "" {
		before, err := strconv.ParseInt(in.Marker, 10, 64)
		if err != nil || before < 0 {
			return nil, compute.Invalid("marker", in.Marker, "give the next of the page before")
		}
		q.Before = before
	}
	page, err := s.readAudit(ctx, q)
	if err != nil {
		return nil, notRead("read the audit", err)
	}
	out := &auditOutput{Body: rest.AuditPage{
		Items: []rest.AuditEntry{}, Read: page.Read, Garbled: page.Garbled, StoppedEarly: page.StoppedEarly(q.Limit),
	}}
	if page.Next >= 0 {
		out.Body.Next = strconv.FormatInt(page.Next, 10)
	}
	for _, e := range page.Entries {
		out.Body.Items = append(out.Body.Items, rest.FromAudit(e))
	}
	return out, nil
}

// readAudit reads a page once few others are read.
func (s *Server) readAudit(ctx context.Context, q audit.Query) (page audit.Page, err error) {
	err = s.onePage(ctx, func(ctx context.Context) error {
		page, err = audit.ReadPage(ctx, s.config.Trail, q)
		return err
	})
	return page, err
}

// onePage reads a page of a topic once few others are read. Callers of the cell do not wait for those of projects: what
// somebody asks for again and again keeps nobody from seeing who that is.
func (s *Server) onePage(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.SyncTimeout)
	defer cancel()
	places := s.projectPages
	if callerOf(ctx).ReadsAll() {
		places = s.pages
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return read(ctx)
}

// notRead says why a part of a topic cannot be shown. That Kafka refuses the node is not the caller's fault.
func notRead(op string, err error) error {
	var e *compute.Error
	if errors.As(err, &e) && e.Kind == compute.KindForbidden {
		return &compute.Error{
			Op: op, Kind: compute.KindUnavailable, Message: "Kafka does not let this node read it",
			Remedy: "the operator has to allow it: berth acl apply --role api", Cause: err,
		}
	}
	return compute.Unavailable(op, err)
}
