// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Role is what a principal may do: reader < member for a project; operator < admin for the cell.
type Role string

// The roles. No role is the empty string.
const (
	RoleReader   Role = "reader"
	RoleMember   Role = "member"
	RoleOperator Role = "operator"
	RoleAdmin    Role = "admin"
)

// RoleNamed is the role with a name.
func RoleNamed(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleReader, RoleMember, RoleOperator, RoleAdmin:
		return r, nil
	}
	return "", compute.Invalid("role", s, "give reader or member for a project, operator or admin for the cell")
}

// OfCell says whether the role is held for the whole cell, and not for a project.
func (r Role) OfCell() bool { return r == RoleOperator || r == RoleAdmin }

// rank orders the roles: who has one has those below it. An unknown role has none.
func (r Role) rank() int {
	switch r {
	case RoleReader:
		return 1
	case RoleMember:
		return 2
	case RoleOperator:
		return 3
	case RoleAdmin:
		return 4
	}
	return 0
}

// Principal is the caller of a request, once it is known.
type Principal struct {
	Name     string                   // for audit and logs: "token:ci-bot", "oidc:alice@example.org", "cert:CN=…", "anonymous"
	Projects map[compute.Project]Role // reader or member, by project
	Cell     Role                     // operator, admin or ""
	Expires  time.Time                // zero: not
	ID       string                   // what limits and revocation go by: a token's id, an issuer and subject
}

// May says whether the principal has at least the role: for the project if it is a role of
// projects, for the cell otherwise. Operators read every project; admins are members of every one.
func (p Principal) May(least Role, project compute.Project) bool {
	switch {
	case least.rank() == 0:
		return false
	case least.OfCell():
		return p.Cell.OfCell() && p.Cell.rank() >= least.rank()
	case p.Cell == RoleAdmin, p.Cell == RoleOperator && least == RoleReader:
		return true
	}
	own := p.Projects[project]
	return !own.OfCell() && own.rank() >= least.rank()
}

// Anonymous is the caller of a cell in which nobody signs in: it may do everything.
func Anonymous() Principal { return Principal{Name: "anonymous", Cell: RoleAdmin, ID: "anonymous"} }

// Authenticator finds out who calls. ok is false where the request carries nothing of its kind;
// err is a *compute.Error of KindUnauthenticated if it carries something that does not count.
type Authenticator interface {
	Authenticate(ctx context.Context, r *http.Request) (p Principal, ok bool, err error)
}

// Chain asks each in turn. The first that knows the caller, or refuses what it carries, has decided.
type Chain []Authenticator

// Authenticate is the Authenticator of the whole chain.
func (c Chain) Authenticate(ctx context.Context, r *http.Request) (p Principal, ok bool, err error) {
	for _, a := range c {
		if p, ok, err = a.Authenticate(ctx, r); ok || err != nil {
			return p, ok && err == nil, err
		}
	}
	return Principal{}, false, nil
}

type contextKey struct{}

// With puts the caller into the context of its request.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From finds the caller of a request; ok is false outside of one.
func From(ctx context.Context) (p Principal, ok bool) {
	p, ok = ctx.Value(contextKey{}).(Principal)
	return p, ok
}

// Unauthenticated refuses what a caller shows, or that it shows nothing: 401.
func Unauthenticated(message, remedy string) *compute.Error {
	return &compute.Error{Kind: compute.KindUnauthenticated, Message: message, Remedy: remedy}
}
