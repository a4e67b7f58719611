// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
)

// audited is the middleware that has every call of an operation written down that changes something or is refused.
func (s *Server) audited(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	id := requestID(w.Header(), r)
	if s.config.Audit == nil {
		next(ctx)
		return
	}
	dry, _ := strconv.ParseBool(ctx.Query("dry_run")) // what is none is refused
	changes := op.Method != http.MethodGet && !dry
	within := s.config.Audit.Begin(ctx.Context(), r, id, op.OperationID, changes, op.DefaultStatus)
	s.noteTarget(within, ctx)
	next(huma.WithContext(ctx, within))
	s.config.Audit.End(within, ctx.Status())
}

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
	audit.Target(ctx, "capability", compute.AxisName(axis), axis)
	audit.Target(ctx, "token", compute.TokenID(token), token)
}
