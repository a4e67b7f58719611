// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func TestTokenIsReadAsItWasMade(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		text, id, hash := NewToken()
		if seen[text] || len(text) != tokenLength {
			t.Fatalf("%q", text)
		}
		seen[text] = true
		gotID, gotHash, err := ParseToken(text)
		if err != nil || gotID != id || gotHash != hash {
			t.Fatalf("%q is read as %q %x: %v", text, gotID, gotHash, err)
		}
	}
}

// Any one letter that is wrong is a slip, and is never told apart from others by what it answers of the secret.
func TestSlipsAreToldFromForgery(t *testing.T) {
	text, _, _ := NewToken()
	for i := range text {
		for _, c := range "abcdefghijklmnopqrstuvwxyz234567B=0 _" {
			wrong := text[:i] + string(c) + text[i+1:]
			if wrong == text {
				continue
			}
			_, hash, err := ParseToken(wrong)
			if compute.KindOf(err) != compute.KindUnauthenticated || hash != (compute.SecretHash{}) {
				t.Fatalf("%q for %q is taken: %v", wrong, text, err)
			}
			if strings.Contains(err.Error(), text[len(TokenPrefix)+idLetters+1:][:12]) {
				t.Fatalf("it repeats the secret: %v", err)
			}
		}
	}
	for _, wrong := range []string{"", "berth_", text[:len(text)-1], text + "a", strings.ToUpper(text), " " + text} {
		if _, _, err := ParseToken(wrong); compute.KindOf(err) != compute.KindUnauthenticated {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func request(authorization ...string) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	for _, a := range authorization {
		r.Header.Add("Authorization", a)
	}
	return r
}

func TestTokensCount(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	all := NewTokens(func() time.Time { return now })
	text, id, hash := NewToken()
	all.Put(compute.Token{ID: id, Hash: hash, Name: "ci", Role: RoleMember, Project: "p", ExpiresAt: now.Add(time.Hour)})
	asks := func(what string, known bool, says string, authorization ...string) Principal {
		t.Helper()
		p, ok, err := all.Authenticate(t.Context(), request(authorization...))
		if ok != known || says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v %v %v", what, p, ok, err)
		}
		if err != nil && compute.KindOf(err) != compute.KindUnauthenticated {
			t.Errorf("%s: %v", what, err)
		}
		return p
	}
	p := asks("a good one", true, "", "Bearer "+text)
	if p.Name != "token:ci" || p.ID != string(id) || p.Projects["p"] != RoleMember || p.Cell != "" ||
		!p.Expires.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v", p)
	}
	asks("in other letters", true, "", "bearer "+text)
	asks("nothing", false, "")
	asks("another kind", false, "", "Bearer eyJhbGciOiJub25lIn0.e30.")
	asks("twice", false, "cannot be used", "Bearer "+text, "Bearer "+text)
	asks("another scheme", false, "cannot be used", "Basic "+text)
	asks("empty", false, "cannot be used", "Bearer ")
	asks("a slip", false, "is not one that Berth makes", "Bearer "+text[:30])
	other, _, _ := NewToken()
	asks("unknown", false, "does not count", "Bearer "+other)
	asks("forged", false, "does not count", "Bearer "+forged(id))
	now = now.Add(time.Hour)
	asks("expired", false, "has expired on 2026-03-04T06:06:07Z", "Bearer "+text)
	all.Remove(id)
	asks("revoked", false, "does not count", "Bearer "+text)
}

// forged is a token with somebody's id, another secret and a checksum that is right.
func forged(id compute.TokenID) string {
	secret := sha256.Sum256([]byte("guess"))
	return TokenPrefix + string(id) + "_" + letters.EncodeToString(append(secret[:], checksum(id, secret[:])...))
}

func FuzzParseToken(f *testing.F) {
	text, id, _ := NewToken()
	for _, seed := range []string{text, forged(id), "", "berth_", strings.Repeat("_", tokenLength)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, hash, err := ParseToken(text)
		switch {
		case err == nil && (id.Check() != nil || !strings.HasPrefix(text, TokenPrefix+string(id)+"_")):
			t.Errorf("%q is read as %q", text, id)
		case err != nil && (compute.KindOf(err) != compute.KindUnauthenticated || hash != compute.SecretHash{}):
			t.Errorf("%q: %#v", text, err)
		}
	})
}

func TestRoles(t *testing.T) {
	is := func(p Principal, want string) {
		t.Helper()
		got := ""
		for _, role := range compute.Roles() {
			for _, project := range []compute.Project{"own", "other"} {
				if p.May(role, project) {
					got += string(role) + "/" + string(project) + " "
				}
			}
		}
		if got != want {
			t.Errorf("%+v may %q, want %q", p, got, want)
		}
	}
	own := func(r Role) Principal { return Principal{Projects: map[compute.Project]Role{"own": r}} }
	is(Principal{}, "")
	is(own(RoleReader), "reader/own ")
	is(own(RoleMember), "reader/own member/own ")
	is(own(RoleAdmin), "") // no role of a project
	is(own("root"), "")
	is(Principal{Cell: RoleMember}, "") // no role of the cell
	is(Principal{Cell: RoleOperator}, "reader/own reader/other operator/own operator/other ")
	is(Principal{Cell: RoleAdmin}, "reader/own reader/other member/own member/other operator/own operator/other "+
		"admin/own admin/other ")
	if (Principal{}).May("", "own") || (Principal{Cell: RoleAdmin}).May("root", "own") {
		t.Error("nobody has a role that is none")
	}
}
