// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/signin"
)

// rotating is an issuer that takes each refresh token once.
type rotating struct {
	url     string
	expires func(n int) time.Time // when a token does; nil: in an hour
	bare    bool                  // it gives nothing about the person when it renews

	mu    sync.Mutex
	given int // tokens; the last one renews
	twice int // how often a token came that had come before
}

func jwtNumber(n int, expires time.Time) string {
	claims := fmt.Sprintf(`{"exp":%d,"n":%d}`, expires.Unix(), n)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func (i *rotating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" {
		answer(w, http.StatusOK, map[string]any{
			"issuer": i.url, "token_endpoint": i.url + "/token", "authorization_endpoint": i.url + "/auth",
			"jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.FormValue("refresh_token") != fmt.Sprintf("refresh-%d", i.given) {
		i.twice++
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	i.given++
	expires := time.Now().Add(time.Hour)
	if i.expires != nil {
		expires = i.expires(i.given)
	}
	given := map[string]any{
		"access_token": "a", "token_type": "Bearer", "id_token": jwtNumber(i.given, expires), "expires_in": 3600,
		"refresh_token": fmt.Sprintf("refresh-%d", i.given),
	}
	if i.bare {
		delete(given, "id_token")
	}
	answer(w, http.StatusOK, given)
}

// signedIn keeps a session at an issuer, whose first token expires then, and answers it.
func signedIn(t *testing.T, issuer *rotating, expires time.Time) signin.Session {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(EnvToken, "")
	t.Setenv(EnvTokenFile, "")
	served := httptest.NewServer(issuer)
	t.Cleanup(served.Close)
	issuer.url = served.URL
	session := signin.Session{
		Issuer: issuer.url, ClientID: "berth", Token: jwtNumber(0, expires), Refresh: "refresh-0", Expires: expires,
	}
	if err := keep(keptFile(t), session.Token); err != nil {
		t.Fatal(err)
	}
	if err := keepSession(keptFile(t), session); err != nil {
		t.Fatal(err)
	}
	return session
}

// TestSessionIsRenewedOnce: of commands that run at the same time one renews the token, and all show the new one.
func TestSessionIsRenewedOnce(t *testing.T) {
	issuer := &rotating{}
	old := signedIn(t, issuer, time.Now().Add(time.Second))
	shown := make([]string, 8)
	var all sync.WaitGroup
	for n := range shown {
		all.Go(func() { shown[n], _, _ = findToken() })
	}
	all.Wait()
	for n, token := range shown {
		if token != shown[0] || token == old.Token {
			t.Errorf("command %d shows %q, and the first %q", n, token, shown[0])
		}
	}
	if issuer.given != 1 || issuer.twice != 0 {
		t.Errorf("it was renewed %d times, and %d times with a token that had come before", issuer.given, issuer.twice)
	}
}

// TestRefreshTokenIsKeptAlone: an issuer may answer with a refresh token and no token that can be shown. What is kept
// is shown on, and the issuer sees no refresh token twice, which it could take for a theft.
func TestRefreshTokenIsKeptAlone(t *testing.T) {
	issuer := &rotating{bare: true}
	old := signedIn(t, issuer, time.Now().Add(time.Second))
	for range 3 {
		if token, _, err := findToken(); err != nil || token != old.Token {
			t.Errorf("%q, %v", token, err)
		}
	}
	issuer.bare = false
	if token, _, err := findToken(); err != nil || token == old.Token || issuer.given != 4 || issuer.twice != 0 {
		t.Errorf("%q, %v: renewed %d times, and %d times with a token that had come before",
			token, err, issuer.given, issuer.twice)
	}
}

// TestLoginAndLogoutWaitForARenewal: what a command keeps that renews the token does not take the place of what came
// later.
func TestLoginAndLogoutWaitForARenewal(t *testing.T) {
	again := signin.Session{Token: "d.e.f", Refresh: "another"}
	login := func(token string, session *signin.Session) func(context.Context) error {
		return func(ctx context.Context) error { _, err := keepLogin(ctx, token, session); return err }
	}
	logout := newLogout()
	logout.SetArgs(nil)
	logout.SetOut(io.Discard)
	for what, c := range map[string]struct {
		does func(context.Context) error
		kept signin.Session
	}{
		"login with a token": {login("berth_a_b", nil), signin.Session{Token: "berth_a_b"}},
		"login at an issuer": {login(again.Token, &again), again},
		"logout":             {logout.ExecuteContext, signin.Session{}},
	} {
		old := signedIn(t, &rotating{}, virtualStart().Add(time.Hour))
		file, err := keptToken()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			letGo := holdSession(t.Context(), file) // as a command that renews the token
			done := make(chan error)
			go func() { done <- c.does(t.Context()) }()
			synctest.Wait()
			if session, err := keptSession(file); err != nil || session.Refresh != old.Refresh {
				t.Errorf("%s: it did not wait: %+v, %v", what, session, err)
			}
			letGo()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", what, err)
			}
			session, err := keptSession(file)
			if session.Token != c.kept.Token || session.Refresh != c.kept.Refresh || (err == nil) != (c.kept.Token != "") {
				t.Errorf("%s: %+v, %v", what, session, err)
			}
		})
	}
}

// virtualStart is when time begins in a synctest bubble. The issuers of these tests are outside of it.
func virtualStart() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// TestTokenIsRenewedWhileACommandRuns: a wait outlives the tokens that it shows, also on a new connection.
func TestTokenIsRenewedWhileACommandRuns(t *testing.T) {
	const life = 10 * time.Minute
	issuer := &rotating{expires: func(n int) time.Time { return virtualStart().Add(time.Duration(n+1) * life) }}
	signedIn(t, issuer, virtualStart().Add(life))
	in(t, func(t *testing.T, n *apiNode) {
		n.token = ""
		n.lets = func(r *http.Request) bool {
			for i := range 4 {
				expires := virtualStart().Add(time.Duration(i+1) * life)
				if r.Header.Get("Authorization") == "Bearer "+jwtNumber(i, expires) {
					return time.Now().Before(expires)
				}
			}
			return false
		}
		n.boots = func(i client.Instance) {
			later(15*time.Minute, func() { n.end(); n.start() }, life, func() { n.becomes(i.ID, "active") })
		}
		said, err := n.does(newBoot, append(slices.Clone(bootArgs), "--timeout", "1h")...)
		if err != nil || issuer.given != 2 || issuer.twice != 0 {
			t.Errorf("%v: renewed %d times, and %d times with a token that had come before: %s",
				err, issuer.given, issuer.twice, said)
		}
	})
}

// TestAnIssuerThatRenewsNothingIsAskedSeldom: the token stays what is shown.
func TestAnIssuerThatRenewsNothingIsAskedSeldom(t *testing.T) {
	issuer := &rotating{given: 1} // it has seen the refresh token
	session := signedIn(t, issuer, virtualStart().Add(10*time.Minute))
	synctest.Test(t, func(t *testing.T) {
		var token shownToken
		if err := token.look(); err != nil {
			t.Fatal(err)
		}
		for range 1200 { // seconds
			if text := token.now(); text != session.Token {
				t.Fatalf("it shows %q", text)
			}
			time.Sleep(time.Second) // virtual
		}
		if issuer.twice < 40 || issuer.twice > 80 { // twice each time: with the client's id here and there
			t.Errorf("the issuer was asked %d times in the last minute of the token and ten minutes after", issuer.twice)
		}
	})
}

// keptFile is where the token of this user is kept.
func keptFile(t *testing.T) string {
	t.Helper()
	file, err := keptToken()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTokenOfAnotherCommand: of a token that another command keeps right now the session is known in a moment.
func TestTokenOfAnotherCommand(t *testing.T) {
	issuer := &rotating{}
	session := signedIn(t, issuer, virtualStart().Add(10*time.Minute))
	synctest.Test(t, func(t *testing.T) {
		var token shownToken
		session.Token, session.Expires = "d.e.f", virtualStart().Add(20*time.Minute)
		if err := keep(keptFile(t), session.Token); err != nil {
			t.Fatal(err)
		}
		if err := token.look(); err != nil {
			t.Fatal(err)
		}
		if err := keepSession(keptFile(t), session); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			at      time.Duration
			renewed int
		}{{time.Second, 0}, {18 * time.Minute, 0}, {20 * time.Minute, 1}} {
			time.Sleep(time.Until(virtualStart().Add(step.at))) // virtual
			if token.now(); issuer.given != step.renewed {
				t.Errorf("after %s it was renewed %d times, want %d", step.at, issuer.given, step.renewed)
			}
		}
	})
}

// TestTokenFileIsReadAgain: another token in it counts after a second, and one that cannot be read leaves the one
// before.
func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	t.Setenv(EnvToken, "")
	t.Setenv(EnvTokenFile, file)
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write("one\n")
		var token shownToken
		if err := token.look(); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ text, wanted string }{{"one", "one"}, {"two", "two"}, {"", "two"}, {"three", "three"}} {
			write(step.text)
			time.Sleep(time.Second) // virtual
			if shown := token.now(); shown != step.wanted {
				t.Errorf("%q in the file: it shows %q, want %q", step.text, shown, step.wanted)
			}
		}
	})
}

// TestATokenThatCannotBeKept: one that was renewed, and not written down, is shown on rather than the kept one, which
// expires earlier.
func TestATokenThatCannotBeKept(t *testing.T) {
	issuer := &rotating{expires: func(int) time.Time { return virtualStart().Add(time.Hour) }}
	session := signedIn(t, issuer, virtualStart().Add(10*time.Minute))
	synctest.Test(t, func(t *testing.T) {
		var token shownToken
		time.Sleep(time.Until(virtualStart().Add(10*time.Minute - time.Second))) // virtual
		if err := token.look(); err != nil {
			t.Fatal(err)
		}
		fresh := token.now()
		if fresh == session.Token {
			t.Fatal("it was not renewed")
		}
		if err := keep(keptFile(t), session.Token); err != nil { // as if the new one had not been written
			t.Fatal(err)
		}
		if err := keepSession(keptFile(t), session); err != nil {
			t.Fatal(err)
		}
		_ = token.look()
		if shown := token.now(); shown != fresh {
			t.Errorf("it shows %q again", shown)
		}
	})
}
