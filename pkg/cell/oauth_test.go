// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// jwt is a token for somebody.
func jwt(subject string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub": "`+subject+`"}`)) + ".x"
}

func keep(t *testing.T, file, text string, mode os.FileMode) string {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(t.TempDir(), file)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func tokensOf(t *testing.T, s SASLSettings) *tokens {
	t.Helper()
	from, err := newTokens(s)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// The token of a file is the one that is in it now, and names the user of this process.
func TestTokenOfAFile(t *testing.T) {
	file := keep(t, "token", jwt("one")+"\n", 0o600)
	from := tokensOf(t, SASLSettings{TokenFile: file})
	if from.subject() != "" {
		t.Errorf("before there is a token it is for %q", from.subject())
	}
	for _, who := range []string{"one", "two"} {
		keep(t, file, jwt(who)+"\n", 0o600)
		if got, err := from.token(); err != nil || got != jwt(who) || from.subject() != who {
			t.Errorf("%q for %q, %v", got, from.subject(), err)
		}
	}
	if err := os.Chmod(file, 0o604); err != nil {
		t.Fatal(err)
	}
	started := tokensOf(t, SASLSettings{TokenFile: file})
	if _, err := started.token(); compute.KindOf(err) != compute.KindInvalid ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that everybody may read: %v", err)
	}
	// A process that runs goes on with the last one, whatever the file is like while it is renewed.
	for _, spoil := range []func() error{
		func() error { return nil }, func() error { return os.Truncate(file, 0) }, func() error { return os.Remove(file) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got, err := from.token(); err != nil || got != jwt("two") {
			t.Errorf("%q, %v", got, err)
		}
	}
	if subjectOf("no token") != "" || subjectOf("a.b.c") != "" {
		t.Error("what is no token is somebody's")
	}
}

// An endpoint is asked once for a token that lasts, and each time for one that is over; the secret is read each time.
func TestTokensOfAnEndpoint(t *testing.T) {
	asked, lasts, secret := 0, 3600, "first"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if _, given, _ := r.BasicAuth(); given != secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": %d}`, jwt("cell"), lasts)
	}))
	defer s.Close()
	file := keep(t, "secret", secret, 0o600)
	settings := SASLSettings{TokenURL: s.URL, ClientID: "c", ClientSecretFile: file}
	takes := func(from *tokens, want int) {
		t.Helper()
		asked = 0
		for range 3 {
			if got, err := from.token(); err != nil || got != jwt("cell") || from.subject() != "cell" {
				t.Errorf("%q: %v", got, err)
			}
		}
		if asked != want {
			t.Errorf("asked %d times, want %d", asked, want)
		}
	}
	takes(tokensOf(t, settings), 1)
	lasts = 1
	from := tokensOf(t, settings)
	takes(from, 3)
	secret = "second"
	if _, err := from.token(); compute.KindOf(err) != compute.KindForbidden {
		t.Errorf("with the old secret: %v", err)
	}
	keep(t, file, secret, 0o600)
	takes(from, 3)
}

// A secret goes nowhere but to the endpoint of the settings, and is in no message.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	another := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the endpoint's redirect is followed")
	}))
	defer another.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, another.URL, http.StatusTemporaryRedirect)
		},
		"refused": func(w http.ResponseWriter, r *http.Request) { // by what does not speak OAuth
			_, secret, _ := r.BasicAuth()
			http.Error(w, "not "+secret, http.StatusForbidden)
		},
		"no token": func(w http.ResponseWriter, r *http.Request) {
			_, secret, _ := r.BasicAuth()
			_, _ = fmt.Fprintf(w, "{%q}", secret)
		},
		"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(answer)
			defer s.Close()
			file := keep(t, "secret", "planted", 0o600)
			_, err := tokensOf(t, SASLSettings{TokenURL: s.URL, ClientID: "c", ClientSecretFile: file}).token()
			if err == nil || strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), "gives no token") {
				t.Error(err)
			}
		})
	}
}

// A password file that is away, or empty, for a moment keeps no running process from signing in.
func TestPasswordWhileItIsRenewed(t *testing.T) {
	s := SASLSettings{Mechanism: "SCRAM-SHA-512", User: "u", PasswordFile: keep(t, "password", "first\n", 0o600)}
	password := lastGood(s.password)
	want := func(want string) {
		t.Helper()
		if got, err := password(); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	want("first")
	if err := os.Remove(s.PasswordFile); err != nil {
		t.Fatal(err)
	}
	want("first")
	keep(t, s.PasswordFile, "\n", 0o600)
	want("first")
	if err := s.check(true); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("with an empty file a process starts: %v", err)
	}
	if _, err := lastGood(s.password)(); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("a process that starts: %v", err)
	}
	keep(t, s.PasswordFile, "second\n", 0o600)
	want("second")
}

// What refuses a token without a word of OAuth is no refusal: a proxy in front of the endpoint that is being changed.
func TestAnotherRefusesTheToken(t *testing.T) {
	for answer, c := range map[string]struct {
		status int
		want   compute.Kind
	}{
		`{"error": "invalid_scope"}`: {http.StatusBadRequest, compute.KindForbidden},
		`{"error": "slow_down"}`:     {http.StatusTooManyRequests, compute.KindUnavailable},
		"not here":                   {http.StatusNotFound, compute.KindUnavailable},
	} {
		want := c.want
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(answer))
		}))
		defer s.Close()
		settings := SASLSettings{TokenURL: s.URL, ClientID: "c", ClientSecretFile: keep(t, "secret", "x", 0o600)}
		if _, err := tokensOf(t, settings).token(); compute.KindOf(err) != want {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// A password that everybody may read is refused when a process starts; a running one signs in all the same.
func TestPasswordThatEverybodyMayRead(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o644: true} {
		s := SASLSettings{Mechanism: "SCRAM-SHA-512", User: "u", PasswordFile: keep(t, "password", "planted", mode)}
		err := s.check(true)
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "chmod 600 "+s.PasswordFile) {
			t.Errorf("%o: %v", mode, err)
		}
		if text, err := s.password(); err != nil || text != "planted" {
			t.Errorf("%o: %q, %v", mode, text, err)
		}
	}
}
