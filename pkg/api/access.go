// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
)

// door authenticates callers, and lets in a caller that has what the operation needs.
type door struct {
	needs  map[string]auth.Need // by operationID
	signIn auth.Chain           // empty: callers do not sign in, and each may do everything
	tokens *auth.Tokens         // nil: none count
}

func newDoor(c Config) door {
	d := door{needs: auth.Operations(), signIn: c.SignIn}
	if c.Tokens != nil {
		d.tokens = auth.NewTokens(c.Now)
		d.signIn = append(auth.Chain{d.tokens}, c.SignIn...)
	}
	return d
}

// open says that nobody signs in.
func (d door) open() bool { return len(d.signIn) == 0 }

// guard is the middleware through which every operation goes.
func (s *Server) guard(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation().OperationID
	need := s.door.needs[op]
	if need.Scope == auth.Public {
		next(ctx)
		return
	}
	r, _ := humago.Unwrap(ctx)
	caller, err := s.caller(ctx.Context(), r)
	if err == nil {
		audit.Caller(ctx.Context(), caller)
		err = s.door.checkEarly(need, caller, ctx)
	}
	if err != nil {
		if compute.KindOf(err) == compute.KindNotFound {
			audit.Denied(ctx.Context())
		}
		s.answer(ctx, s.refuse(ctx.Context(), op, err))
		return
	}
	next(huma.WithContext(ctx, auth.With(ctx.Context(), caller)))
}

// caller is the caller of a request, once what it shows was checked.
func (s *Server) caller(ctx context.Context, r *http.Request) (auth.Principal, error) {
	if s.door.open() {
		return auth.Anonymous(), nil
	}
	if behind := s.views.behind(); len(behind) > 0 && s.door.tokens != nil {
		return auth.Principal{}, notCaughtUp(behind) // a token may be among what is not read yet
	}
	caller, ok, err := s.door.signIn.Authenticate(ctx, r)
	if err == nil && !ok {
		err = auth.Unauthenticated("the request does not say who calls",
			"send a token, as in Authorization: Bearer berth_…; berth login keeps one for the command line")
	}
	return caller, err
}

// Operators lets nobody but an operator through, where callers sign in.
func (s *Server) Operators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestID(w.Header(), r)
		ctx := context.WithValue(r.Context(), requestKey{}, id)
		ctx = s.config.Audit.Begin(ctx, r, id, "metrics", false, http.StatusOK)
		caller, err := s.caller(ctx, r)
		if err == nil {
			audit.Caller(ctx, caller)
			err = auth.Need{Role: auth.RoleOperator, Scope: auth.Cell}.Check(caller, "")
		}
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		refused := s.refuse(ctx, "metrics", err)
		refused.Answer(w)
		audit.Kind(ctx, refused.Kind)
		s.config.Audit.End(ctx, refused.Status)
	})
}

// checkEarly refuses what can be refused before anything else is looked at. A caller without a role in the
// project of an instance is told that the instance does not exist, whether it does or not.
func (d door) checkEarly(need auth.Need, caller auth.Principal, ctx huma.Context) error {
	project := compute.Project(cmp.Or(ctx.Param("project"), ctx.Query("project"), string(defaultProject)))
	if need.Scope == auth.Instance && !caller.May(auth.RoleReader, project) {
		return errNoInstance(instanceKey{project, compute.InstanceID(ctx.Param("id"))})
	}
	return need.CheckEarly(caller, project)
}

// checkProject refuses a caller that lacks the operation's role for a project that its body names.
func (s *Server) checkProject(ctx context.Context, op string, project compute.Project) error {
	audit.Project(ctx, project)
	return s.door.needs[op].Check(callerOf(ctx), project)
}

// callerOf is the caller; where the guard was not passed it is the empty principal, which may do nothing.
func callerOf(ctx context.Context) auth.Principal {
	caller, _ := auth.From(ctx)
	return caller
}

// bearerScheme is how the document calls what the Authorization header carries.
const bearerScheme = "bearer"

// secured says in the document what an operation needs.
func (s *Server) secured(op huma.Operation) huma.Operation {
	need := s.door.needs[op.OperationID]
	words := need.Words()
	if words == "" {
		return op
	}
	roles := []string{}
	if need.Role != "" {
		roles = append(roles, string(need.Role))
	}
	op.Security = []map[string][]string{{bearerScheme: roles}}
	if op.Description != "" {
		op.Description += "\n\n"
	}
	op.Description += "Needs, where callers sign in: " + words + "."
	return op
}

// securitySchemes is how callers sign in, for the document.
func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{bearerScheme: {
		Type: "http", Scheme: "bearer",
		Description: "A token of this cell. The names in an operation's security are the least role; " +
			"docs/ACCESS.md says what each may do. Cells that are open to all ask for none.",
	}}
}
