// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Role is what a principal may do: reader < member for a project; operator < admin for the cell.
type Role = compute.Role

// The roles. No role is the empty string.
const (
	RoleReader   = compute.RoleReader
	RoleMember   = compute.RoleMember
	RoleOperator = compute.RoleOperator
	RoleAdmin    = compute.RoleAdmin
)

// Principal is the caller of a request, once it is known.
type Principal struct {
	// Name is for audit and logs: "token:ci-bot", "oidc:alice@example.org", "cert:CN=…", "anonymous".
	Name     string
	Projects map[compute.Project]Role // reader or member, by project
	Cell     Role                     // operator, admin or ""
	Expires  time.Time                // zero: not
	ID       string                   // what limits and revocation go by: a token's id, an issuer and subject
}

// May says whether the principal has at least the role: for the project if it is a role of projects,
// for the cell otherwise. Operators read every project, admins are members of every one.
func (p Principal) May(least Role, project compute.Project) bool {
	if least.OfCell() {
		return p.Cell.AtLeast(least)
	}
	return p.of(project).AtLeast(least)
}

// MaySomewhere says whether the principal has at least the role for some project, or one of the cell.
func (p Principal) MaySomewhere(least Role) bool {
	for project := range p.Projects {
		if p.May(least, project) {
			return true
		}
	}
	return p.May(least, "")
}

// of is the role that the principal has for a project.
func (p Principal) of(project compute.Project) Role {
	own := p.Projects[project]
	switch {
	case p.Cell == RoleAdmin, own == RoleMember:
		return RoleMember
	case p.Cell == RoleOperator, own == RoleReader:
		return RoleReader
	}
	return "" // operator and admin are no roles of a project
}

// ReadsAll says whether the principal may see what all projects have, and the names of hosts.
func (p Principal) ReadsAll() bool { return p.Cell.OfCell() }

// Anonymous is the caller of a cell in which nobody signs in: it may do everything.
func Anonymous() Principal { return Principal{Name: "anonymous", Cell: RoleAdmin, ID: "anonymous"} }

// Authenticator finds the principal that makes a request. ok is false where the request carries nothing of its kind;
// err is a *compute.Error of KindUnauthenticated if it carries something that does not count.
type Authenticator interface {
	Authenticate(ctx context.Context, r *http.Request) (p Principal, ok bool, err error)
}

// Chain asks each in turn. The first that knows the caller, or refuses what it carries, has decided.
type Chain []Authenticator

// Authenticate is the Authenticator of the whole chain.
func (c Chain) Authenticate(ctx context.Context, r *http.Request) (p Principal, ok bool, err error) {
	for _, a := range c {
		p, ok, err = a.Authenticate(ctx, r)
		switch {
		case err != nil:
			return Principal{}, false, err
		case ok:
			return p, true, nil
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
