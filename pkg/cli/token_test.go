// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestTokenOfAProject: a role of the whole cell is not given where a project was named, and what is told says whose the
// token is.
func TestTokenOfAProject(t *testing.T) {
	web := []string{"--project", "web"}
	for name, c := range map[string]struct {
		args []string
		code exitCode
		says string
	}{
		"an operator of a project": {append(web[:2:2], "--role", "operator"), exitUsage, "an operator is of the whole cell"},
		"an admin of a project":    {append(web[:2:2], "--role", "admin"), exitUsage, "an admin is of the whole cell"},
		"an operator":              {[]string{"--role", "operator"}, exitOK, "operator of the cell, counts"},
		"a member":                 {append(web[:2:2], "--role", "member"), exitOK, "member of project web, counts"},
		"a member of the default":  {[]string{"--role", "member"}, exitOK, "member of project default, counts"},
	} {
		t.Run(name, func(t *testing.T) {
			node := func(w http.ResponseWriter, r *http.Request) {
				var wish client.TokenWish
				if err := json.NewDecoder(r.Body).Decode(&wish); err != nil {
					t.Error(err)
				}
				made := client.NewToken{Secret: "berth_a_b"}
				made.Role, made.Project = wish.Role, wish.Project
				answer(w, http.StatusCreated, made)
			}
			_, told, err := typed(t.Context(), t, node, newTokenCreate, c.args...)
			if err != nil {
				told += err.Error()
			}
			if codeOf(err) != c.code || !strings.Contains(told, c.says) {
				t.Errorf("%v (%d), told %q", err, codeOf(err), told)
			}
			if c.code == exitUsage && compute.KindOf(err) != compute.KindInvalid {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTokensInOrder: ages and times to expiry are ordered as such; what has expired comes first, what never does last.
func TestTokensInOrder(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	token := func(id compute.TokenID, age, expires time.Duration) client.Token {
		return client.Token{ID: id, CreatedAt: now.Add(-age), ExpiresAt: now.Add(expires)}
	}
	all := []client.Token{
		token("old", 80*day, 10*day), token("new", 9*day, 80*day), token("hours", 3*time.Hour, 9*day),
		{ID: "never", CreatedAt: now.Add(-time.Minute)},
		{ID: "expired", CreatedAt: now.Add(-100 * day), ExpiresAt: now.Add(-day), Expired: true},
	}
	for by, want := range map[string]string{
		"age":      "never hours new old expired",
		"expires":  "expired hours old new never",
		"-expires": "never new old hours expired",
	} {
		sorted, err := tokenSheet(now).sorted(all, by)
		var ids []string
		for _, t := range sorted {
			ids = append(ids, string(t.ID))
		}
		if got := strings.Join(ids, " "); err != nil || got != want {
			t.Errorf("by %s: %s, %v; want %s", by, got, err, want)
		}
	}
}
