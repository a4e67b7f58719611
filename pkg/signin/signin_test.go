// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"encoding/base64"
	"fmt"
	"testing"
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
