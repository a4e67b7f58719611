// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// TokenWish asks for a token.
type TokenWish struct {
	Name      string          `json:"name,omitempty" maxLength:"64" doc:"For people, in logs; need not be unique." example:"ci-bot"`
	Role      compute.Role    `json:"role" enum:"reader,member,operator,admin" doc:"reader or member of a project, operator or admin of the cell."`
	Project   compute.Project `json:"project,omitempty" doc:"Of a reader or member; left out for the others." example:"web-shop"`
	ExpiresIn Duration        `json:"expires_in,omitempty" doc:"How long it counts, up to 87600h; left out: 2160h, which is 90 days." example:"2160h0m0s"`
	Never     bool            `json:"never_expires,omitempty" doc:"It counts until it is revoked."`
}

// Token is what is known of a token; its secret is not.
type Token struct {
	ID        compute.TokenID `json:"id" doc:"The part of the token before the secret."`
	Name      string          `json:"name,omitempty"`
	Role      compute.Role    `json:"role" enum:"reader,member,operator,admin"`
	Project   compute.Project `json:"project,omitempty"`
	Expired   bool            `json:"expired,omitempty" doc:"It counts no more, by this node's clock."`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	CreatedBy string          `json:"created_by,omitempty"`
	ExpiresAt time.Time       `json:"expires_at,omitzero" doc:"Absent: never."`
}

// FromToken shows a token.
func FromToken(t compute.Token, now time.Time) Token {
	return Token{
		ID: t.ID, Name: t.Name, Role: t.Role, Project: t.Project,
		Expired:   !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt),
		CreatedAt: utc(t.CreatedAt), CreatedBy: t.CreatedBy, ExpiresAt: utc(t.ExpiresAt),
	}
}

// NewToken is a token with its secret, which is shown this once.
type NewToken struct {
	Token
	Secret string `json:"token" doc:"The whole token, for the Authorization header. It is shown this once, and kept nowhere."`
}

// Tokens is a list.
type Tokens struct {
	Items []Token `json:"items" nullable:"false"`
	Next  string  `json:"next,omitempty" doc:"Give this as marker to get the next page; absent on the last."`
}

// Caller is the caller of a request, and what it may do.
type Caller struct {
	Name     string                           `json:"name" example:"token:ci-bot" doc:"As in logs; anonymous where nobody signs in."`
	ID       string                           `json:"id" doc:"What revocation and limits go by."`
	Cell     compute.Role                     `json:"cell,omitempty" enum:"operator,admin" doc:"The role for the whole cell."`
	Projects map[compute.Project]compute.Role `json:"projects,omitempty" doc:"reader or member, by project."`
	Expires  time.Time                        `json:"expires_at,omitzero" doc:"Absent: never."`
	Open     bool                             `json:"open,omitempty" doc:"Nobody signs in here: whoever reaches this node may do everything."`
}
