// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/berth-project/berth/pkg/compute"
)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// The token about the person goes before the one for access, which often only its issuer can read;
// and it is renewed in time.
func TestWhatIsKept(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	id := jwt(fmt.Sprintf(`{"exp":%d}`, now.Add(10*time.Minute).Unix()))
	given := (&oauth2.Token{AccessToken: "opaque", RefreshToken: "r", Expiry: now.Add(time.Hour)}).
		WithExtra(map[string]any{"id_token": id})
	s, err := Session{Issuer: "i", Refresh: "old"}.with(given)
	if err != nil || s.Token != id || s.Refresh != "r" || !s.Expires.Equal(now.Add(10*time.Minute)) {
		t.Errorf("%+v %v", s, err)
	}
	for after, due := range map[time.Duration]bool{
		0: false, 8 * time.Minute: false, 9*time.Minute + 1: true, time.Hour: true,
	} {
		if s.Due(now.Add(after)) != due {
			t.Errorf("due after %v: %t", after, !due)
		}
	}
	if s, err = s.with(&oauth2.Token{AccessToken: jwt("{}")}); err != nil || s.Refresh != "r" || s.Due(now) {
		t.Errorf("an issuer that gives no new refresh token: %+v %v", s, err)
	}
	if _, err := (Session{}).with(&oauth2.Token{AccessToken: "opaque"}); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("a token that nobody can check: %v", err)
	}
}

// said is one answer of an issuer that is asked for a token.
type said struct {
	status int
	body   string
}

// device is an issuer that gives codes for ten minutes, and these answers in turn; the last one again and again.
func device(t *testing.T, answers ...said) (url string, asked *atomic.Int64) {
	t.Helper()
	mux, asked := http.NewServeMux(), &atomic.Int64{}
	served := httptest.NewServer(mux)
	t.Cleanup(served.Close)
	tell := func(w http.ResponseWriter, s said) {
		if s.status == 0 {
			panic(http.ErrAbortHandler) // the connection is closed
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, said{200, fmt.Sprintf(`{"issuer":%q,"token_endpoint":%q,"device_authorization_endpoint":%q}`,
			served.URL, served.URL+"/token", served.URL+"/device")})
	})
	mux.HandleFunc("/device", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, said{200, `{"device_code":"d","user_code":"u","verification_uri":"v","expires_in":600,"interval":5}`})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, answers[min(int(asked.Add(1)), len(answers))-1])
	})
	return served.URL, asked
}

// An issuer that is away while the person is in the browser is asked again; what it says for good ends the sign-in, and
// what is no answer of an issuer is told with its status. The clock is the test's, and the issuer's connections are
// not.
func TestDevice(t *testing.T) {
	token := fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer"}`, jwt("{}"))
	pending, bad := said{400, `{"error":"authorization_pending"}`}, said{502, `<html>`}
	for name, c := range map[string]struct {
		answers []said
		kind    compute.Kind
		say     string // empty: it signs in
	}{
		"away for a moment":   {[]said{pending, bad, {503, `{"error":"temporarily_unavailable"}`}, pending, {200, token}}, 0, ""},
		"a broken connection": {[]said{pending, {}, {200, token}}, 0, ""},
		"away until the end":  {[]said{bad}, compute.KindUnauthenticated, "not told yes in the browser in time"},
		"nobody answers":      {[]said{pending}, compute.KindUnauthenticated, "not told yes in the browser in time"},
		"no":                  {[]said{bad, {400, `{"error":"access_denied"}`}}, compute.KindUnauthenticated, "told no"},
		"not found":           {[]said{{404, `<html>`}}, compute.KindUnavailable, "cannot be asked: it answers 404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := device(t, c.answers...)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s, err := Device(t.Context(), Options{Issuer: url, ClientID: "berth", Ask: func(_, _, _ string) {}})
				if c.say == "" && (err != nil || s.Token != jwt("{}")) {
					t.Errorf("%+v %v", s, err)
				}
				if c.say != "" && (compute.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.say)) {
					t.Errorf("%v, want %q", err, c.say)
				}
				if time.Since(began) > 600*time.Second || asked.Load() < int64(len(c.answers)) {
					t.Errorf("asked %d times in %s", asked.Load(), time.Since(began))
				}
			})
		})
	}
	err := failed("i", &oauth2.RetrieveError{Response: &http.Response{StatusCode: 503, Status: "503 X"}})
	if compute.KindOf(err) != compute.KindUnavailable || !strings.HasSuffix(err.Error(), "answers 503 X; try again") {
		t.Errorf("at the first question: %v", err)
	}
}

func FuzzExpiry(f *testing.F) {
	for _, token := range []string{jwt(`{"exp":1}`), jwt(`{"exp":-1e300}`), jwt(`{"exp":"x"}`), "a.b", "..", jwt("[]")} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if at, ok := expiry(token); ok && (at.Unix() < 0 || at.Year() > 9999) {
			t.Errorf("%q expires at %v", token, at)
		}
	})
}
