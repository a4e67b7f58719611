// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"slices"
	"strings"
	"unicode"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/auth/grant"
	"github.com/berth-project/berth/pkg/compute"
)

// maxUsername bounds what is written of a caller into every line of the log and the audit.
const maxUsername = 256

// principal is what the settings make of a token's claims.
func (s Settings) principal(claims map[string]any) (auth.Principal, error) {
	name, err := s.username(claims)
	if err != nil {
		return auth.Principal{}, err
	}
	p := auth.Principal{Name: "oidc:" + name}
	for _, r := range s.Projects {
		if has(claims, r.Claim, r.Value) {
			grant.ToProject(&p, grant.Project{Project: r.Project, Role: r.Role})
		}
	}
	for _, r := range s.Cell {
		if has(claims, r.Claim, r.Value) {
			grant.ToCell(&p, r.Role)
		}
	}
	return p, nil
}

// username is what the caller is called. An address that the issuer has not verified may be
// anybody's.
func (s Settings) username(claims map[string]any) (string, error) {
	claim := s.UsernameClaim
	if claim == "" {
		claim = "sub"
	}
	name, _ := lookUp(claims, claim).(string)
	if strings.TrimSpace(name) == "" {
		return "", auth.Unauthenticated("the token has no claim "+claim+", which says who the caller is",
			"let the issuer put it into the token, or set auth.oidc's username_claim to another one")
	}
	if len(name) > maxUsername || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", auth.Unauthenticated("the token's claim "+claim+" is longer than 256 bytes or not printable",
			"set auth.oidc's username_claim to another one")
	}
	if verified, said := claims["email_verified"]; claim == "email" && said && verified != true && verified != "true" {
		return "", auth.Unauthenticated("the issuer has not verified the address in the token's claim email",
			"verify it there, or set auth.oidc's username_claim to another one")
	}
	return name, nil
}

// has says whether a claim is the value, or a list with it. A scope is a list with spaces between.
func has(claims map[string]any, claim, value string) bool {
	switch v := lookUp(claims, claim).(type) {
	case string:
		return v == value || claim == "scope" && slices.Contains(strings.Fields(v), value)
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return one == any(value) })
	case bool:
		return v && value == "true"
	}
	return false
}

// lookUp finds a claim by its name, or one within others by their names with dots between:
// realm_access.roles.
func lookUp(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return nil
	}
	within, ok := claims[outer].(map[string]any)
	if !ok {
		return nil
	}
	return lookUp(within, inner)
}

// refused says why a token does not count.
func refused(message, remedy string) *compute.Error { return auth.Unauthenticated(message, remedy) }
