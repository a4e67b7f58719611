// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/auth"
)

// FuzzClaims: whatever a token says, a role comes only of a claim that is there with its value.
func FuzzClaims(f *testing.F) {
	for _, text := range []string{
		`{"sub":"a","groups":["team-a"]}`, `{"sub":"a","groups":"team-b"}`, `{"sub":"a","groups":{"team-a":1}}`,
		`{"sub":"a","realm_access":{"roles":["ops"]}}`, `{"sub":"a","realm_access.roles":"ops"}`,
		`{"sub":"a\n","groups":null}`, `{"sub":"a","realm_access":["roles"],"scope":"a b"}`, `[]`, `{"sub":1e999}`,
		`{"email":"a","email_verified":"false"}`, `{"sub":"a","groups":"team-a2"}`, `{"sub":"a","groups":["team-bb"]}`,
	} {
		f.Add(text)
	}
	s := settings("https://login.example.org")
	s.UsernameClaim = ""
	s.Cell = append(s.Cell, CellRule{"scope", "berth:admin", auth.RoleAdmin})
	f.Fuzz(func(t *testing.T, text string) {
		var claims map[string]any
		if json.Unmarshal([]byte(text), &claims) != nil {
			return
		}
		p, err := s.principal(claims)
		if err != nil {
			if len(p.Projects) > 0 || p.Cell != "" {
				t.Errorf("refused with %+v", p)
			}
			return
		}
		name, _ := claims["sub"].(string)
		if p.Name != "oidc:"+name || len(name) > maxUsername || strings.ContainsAny(p.Name, "\n\r\x00\x1b") {
			t.Errorf("called %q", p.Name)
		}
		groups := values(claims["groups"])
		for project, role := range p.Projects {
			ok := project == "a" && (role == auth.RoleReader && slices.Contains(groups, "team-a") ||
				role == auth.RoleMember && slices.Contains(groups, "leads")) ||
				project == "b" && role == auth.RoleMember && slices.Contains(groups, "team-b")
			if !ok {
				t.Errorf("%s on %s of %s", role, project, text)
			}
		}
		scope, _ := claims["scope"].(string)
		scopes := append(strings.Fields(scope), values(claims["scope"])...)
		realm, _ := claims["realm_access"].(map[string]any)
		roles := append(values(realm["roles"]), values(claims["realm_access.roles"])...)
		if p.Cell == auth.RoleAdmin && !slices.Contains(scopes, "berth:admin") ||
			p.Cell == auth.RoleOperator && !slices.Contains(roles, "ops") {
			t.Errorf("%s of %s", p.Cell, text)
		}
	})
}

// values are the texts of a claim.
func values(claim any) (out []string) {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
	}
	return out
}
