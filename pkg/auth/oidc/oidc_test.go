// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

// signer is an issuer whose keys and clock the test turns.
type signer struct {
	*httptest.Server
	t     *testing.T
	asked atomic.Int64 // for its keys

	mu   sync.Mutex
	keys []any
	down bool
	held chan struct{} // if set, an answer about keys waits for it
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		keys, down, held := s.keys, s.down, s.held
		s.mu.Unlock()
		if held != nil {
			<-held
		}
		if down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// tells has the issuer tell these keys from now on.
func (s *signer) tells(keys ...key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = nil
	for _, k := range keys {
		s.keys = append(s.keys, jose.JSONWebKey{Key: &k.private.PublicKey, KeyID: k.id, Use: "sig"})
	}
}

// tellsToo adds a key as JSON.
func (s *signer) tellsToo(raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, json.RawMessage(raw))
}

func (s *signer) goes(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

type key struct {
	private *ecdsa.PrivateKey
	id      string
}

func newKey(t *testing.T, id string) key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key{private, id}
}

type claims map[string]any

// with is the claims with some changed; nil takes one away.
func (c claims) with(changes claims) claims {
	out := maps.Clone(c)
	for name, v := range changes {
		if out[name] = v; v == nil {
			delete(out, name)
		}
	}
	return out
}

func (k key) signs(t *testing.T, c claims) string {
	t.Helper()
	return signed(t, jose.ES256, jose.JSONWebKey{Key: k.private, KeyID: k.id}, c)
}

func signed(t *testing.T, a jose.SignatureAlgorithm, k any, c claims) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: a, Key: k}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := s.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// door is an Authenticator whose clock the test turns.
type door struct {
	*Authenticator
	t   *testing.T
	now time.Time
}

func newDoor(t *testing.T, all ...Settings) *door {
	t.Helper()
	if err := Check(all); err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, now: time.Now().Truncate(time.Second)}
	var err error
	if d.Authenticator, err = New(all, Options{Now: func() time.Time { return d.now }}); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *door) asks(token string) (auth.Principal, bool, error) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return d.Authenticate(r.Context(), r)
}

// lets wants the token to count.
func (d *door) lets(token string) auth.Principal {
	d.t.Helper()
	p, ok, err := d.asks(token)
	if !ok || err != nil {
		d.t.Fatalf("refused: %v", err)
	}
	return p
}

// refuses wants an error of a kind that says something, and nothing of the token itself.
func (d *door) refuses(what, token, say string, kind compute.Kind) {
	d.t.Helper()
	p, ok, err := d.asks(token)
	if ok || compute.KindOf(err) != kind || !strings.Contains(err.Error(), say) {
		d.t.Errorf("%s: %+v %t %v, want %s with %q", what, p, ok, err, kind, say)
	}
	if parts := strings.Split(token, "."); err != nil && parts[2] != "" && strings.Contains(err.Error(), parts[2]) {
		d.t.Errorf("%s: the error shows the token: %v", what, err)
	}
}

func settings(issuer string) Settings {
	return Settings{
		Issuer: issuer, Audience: "berth", UsernameClaim: "email",
		Projects: []ProjectRule{
			{"groups", "team-a", "a", auth.RoleReader}, {"groups", "leads", "a", auth.RoleMember},
			{"groups", "team-b", "b", auth.RoleMember},
		},
		Cell: []CellRule{{"realm_access.roles", "ops", auth.RoleOperator}},
	}
}

func (d *door) claims(issuer string) claims {
	return claims{
		"iss": issuer, "aud": "berth", "sub": "42", "email": "alice@example.org", "groups": []string{"team-a", "x"},
		"exp": d.now.Add(time.Hour).Unix(),
	}
}

func TestClaimsBecomeRoles(t *testing.T) {
	s := newSigner(t)
	k := newKey(t, "k1")
	s.tells(k)
	d := newDoor(t, settings(s.URL))
	c := d.claims(s.URL)
	want := auth.Principal{
		Name: "oidc:alice@example.org", ID: "oidc:" + s.URL + "#42", Expires: d.now.Add(time.Hour + skew),
		Projects: map[compute.Project]auth.Role{"a": auth.RoleReader},
	}
	if diff := cmp.Diff(want, d.lets(k.signs(t, c))); diff != "" {
		t.Error(diff)
	}
	want.Projects, want.Cell = map[compute.Project]auth.Role{"a": auth.RoleMember, "b": auth.RoleMember}, auth.RoleOperator
	all := d.lets(k.signs(t, c.with(claims{
		"groups": []string{"leads", "team-a", "team-b"}, "realm_access": map[string]any{"roles": []string{"ops"}},
		"aud": []string{"other", "berth"},
	})))
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	for _, groups := range []any{
		nil, "", "team-a2", "leads team-a", "LEADS", []any{"team-a ", "team-a2", 7, nil}, map[string]any{"team-a": true},
		[]any{[]string{"team-a"}},
	} {
		none := d.lets(k.signs(t, c.with(claims{"groups": groups, "realm_access": "roles", "roles": "ops"})))
		if len(none.Projects) != 0 || none.Cell != "" {
			t.Errorf("with groups %v: %+v", groups, none)
		}
	}
	for what, is := range map[string]struct {
		change claims
		say    string
	}{
		"no name":          {claims{"email": nil}, "no claim email"},
		"a name of spaces": {claims{"email": "  "}, "no claim email"},
		"a list of names":  {claims{"email": []string{"a"}}, "no claim email"},
		"a name of lines":  {claims{"email": "a\nb"}, "not printable"},
		"a long name":      {claims{"email": strings.Repeat("a", 257)}, "longer"},
		"not verified":     {claims{"email_verified": false}, "not verified"},
		"no subject":       {claims{"sub": nil}, "no claim sub"},
	} {
		d.refuses(what, k.signs(t, c.with(is.change)), is.say, compute.KindUnauthenticated)
	}
}

func TestWhatDoesNotCount(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	k, theirs := newKey(t, "k1"), newKey(t, "k1")
	s.tells(k)
	other.tells(theirs)
	d := newDoor(t, settings(s.URL))
	c := d.claims(s.URL)
	now := d.now
	secret := []byte(strings.Repeat("s", 32))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		data, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	good := strings.Split(k.signs(t, c), ".")
	unknown := compute.KindUnauthenticated
	for what, is := range map[string]struct{ token, say string }{
		"nobody's signature":       {part(claims{"alg": "none"}) + "." + part(c) + ".", "no token that an issuer has signed"},
		"a secret's signature":     {signed(t, jose.HS256, secret, c), "no token that an issuer has signed"},
		"another issuer":           {theirs.signs(t, c.with(claims{"iss": other.URL})), "do not count here"},
		"another issuer's key":     {theirs.signs(t, c), "not signed as its issuer signs"},
		"a key nobody knows":       {newKey(t, "k2").signs(t, c), `no key "k2"`},
		"another kind of key":      {signed(t, jose.RS256, jose.JSONWebKey{Key: rsaKey, KeyID: "k1"}, c), "not signed"},
		"another text":             {good[0] + "." + part(c.with(claims{"sub": "43"})) + "." + good[2], "not signed"},
		"no text":                  {good[0] + ".." + good[2], "cannot be read"},
		"rubbish":                  {"a.b.c", "no token that an issuer has signed"},
		"for another audience":     {k.signs(t, c.with(claims{"aud": "other"})), "sign in for berth"},
		"for no audience":          {k.signs(t, c.with(claims{"aud": nil})), "sign in for berth"},
		"expired a minute ago":     {k.signs(t, c.with(claims{"exp": now.Add(-skew).Unix()})), "has expired"},
		"never expires":            {k.signs(t, c.with(claims{"exp": nil})), "has expired"},
		"counts in two minutes":    {k.signs(t, c.with(claims{"nbf": now.Add(2 * skew).Unix()})), "not count yet"},
		"counts from a word":       {k.signs(t, c.with(claims{"nbf": "now"})), "sign"},
		"the issuer with a slash":  {k.signs(t, c.with(claims{"iss": s.URL + "/"})), "letter for letter"},
		"claims that are no claim": {k.signs(t, claims{"iss": 7}), "cannot be read"},
	} {
		d.refuses(what, is.token, is.say, unknown)
	}
	d.lets(k.signs(t, c.with(claims{"exp": now.Add(time.Second - skew).Unix()})))
	d.lets(k.signs(t, c.with(claims{"nbf": now.Add(skew).Unix()})))
	for what, header := range map[string]string{
		"nothing": "", "no JWT": "Bearer berth_1234",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		if _, ok, err := d.Authenticate(r.Context(), r); ok || err != nil {
			t.Errorf("%s is for others to judge: %t %v", what, ok, err)
		}
	}
}

// TestIssuerIsSilent: known keys go on counting, for however long; of others nothing is known, which is
// no fault of their tokens.
func TestIssuerIsSilent(t *testing.T) {
	s := newSigner(t)
	k, next := newKey(t, "k1"), newKey(t, "k2")
	s.tells(k)
	s.goes(true)
	d := newDoor(t, settings(s.URL))
	c := d.claims(s.URL).with(claims{"exp": d.now.Add(1000 * time.Hour).Unix()})
	d.refuses("before the keys are known", k.signs(t, c), "cannot be asked for its keys", compute.KindUnavailable)
	s.goes(false)
	d.refuses("right after", k.signs(t, c), "cannot be asked for its keys", compute.KindUnavailable)
	d.now = d.now.Add(askEvery)
	d.lets(k.signs(t, c))
	s.goes(true)
	d.now = d.now.Add(500 * time.Hour)
	d.lets(k.signs(t, c))
	d.refuses("a new key", next.signs(t, c), "cannot be asked for its keys", compute.KindUnavailable)
	s.goes(false)
	s.tells(next)
	d.now = d.now.Add(askEvery)
	d.lets(next.signs(t, c))
	d.refuses("a key that was withdrawn", k.signs(t, c), `no key "k1"`, compute.KindUnauthenticated)
}

// A key that the issuer has withdrawn stops to count after ten minutes, though no other has come.
func TestKeysAreAskedForAgain(t *testing.T) {
	s := newSigner(t)
	k, next := newKey(t, "k1"), newKey(t, "k2")
	s.tells(k)
	d := newDoor(t, settings(s.URL))
	token := k.signs(t, d.claims(s.URL))
	d.lets(token)
	s.tells(next)
	d.now = d.now.Add(fresh - time.Second)
	d.lets(token)
	d.now = d.now.Add(time.Second)
	d.refuses("withdrawn", token, `no key "k1"`, compute.KindUnauthenticated)
}

// However many invent keys, the issuer is asked once in ten seconds.
func TestRubbishIsNotPassedOn(t *testing.T) {
	s := newSigner(t)
	k := newKey(t, "k1")
	s.tells(k)
	d := newDoor(t, settings(s.URL))
	c := d.claims(s.URL)
	d.lets(k.signs(t, c))
	d.now = d.now.Add(askEvery)
	var all sync.WaitGroup
	for i := range 50 {
		invented := newKey(t, "x"+string(rune('a'+i%26))).signs(t, c)
		all.Go(func() {
			if _, ok, err := d.asks(invented); ok || compute.KindOf(err) != compute.KindUnauthenticated {
				t.Errorf("%t %v", ok, err)
			}
		})
	}
	all.Wait()
	if n := s.asked.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times, want once for the first token and once more", n)
	}
	d.lets(k.signs(t, c))
}

// While the issuer is slow, callers with known keys do not wait, and callers with a new key wait for
// one answer together.
func TestSlowIssuer(t *testing.T) {
	s := newSigner(t)
	k, next := newKey(t, "k1"), newKey(t, "k2")
	s.tells(k)
	d := newDoor(t, settings(s.URL))
	c := d.claims(s.URL)
	d.lets(k.signs(t, c))
	d.now = d.now.Add(askEvery)
	s.tells(k, next)
	held := make(chan struct{})
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
	token, results := next.signs(t, c), make(chan error, 5)
	for range cap(results) {
		go func() { _, _, err := d.asks(token); results <- err }()
	}
	for s.asked.Load() < 2 {
		d.lets(k.signs(t, c))
	}
	close(held)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := s.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// Of two issuers the same name may be two people.
func TestTwoIssuers(t *testing.T) {
	one, two := newSigner(t), newSigner(t)
	k := newKey(t, "k1")
	one.tells(k)
	two.tells(newKey(t, "k1"))
	again := settings(one.URL)
	again.Audience, again.UsernameClaim = "robots", ""
	d := newDoor(t, settings(one.URL), settings(two.URL), again)
	if p := d.lets(k.signs(t, d.claims(one.URL))); p.Name != "oidc:alice@example.org of "+one.URL {
		t.Error(p.Name)
	}
	if p := d.lets(k.signs(t, d.claims(one.URL).with(claims{"aud": "robots"}))); p.Name != "oidc:42 of "+one.URL {
		t.Error(p.Name)
	}
	d.refuses("one's key for the other", k.signs(t, d.claims(two.URL)), "not signed", compute.KindUnauthenticated)
}

// What an issuer tells that is no public key for signatures is left out.
func TestUsableKeys(t *testing.T) {
	k := newKey(t, "k1")
	set, err := usable([]jose.JSONWebKey{
		{Key: []byte("secret"), KeyID: "a"}, {Key: k.private, KeyID: "b"},
		{Key: &k.private.PublicKey, KeyID: "c", Use: "enc"}, {Key: &k.private.PublicKey, KeyID: "d"},
	})
	if err != nil || len(set) != 1 || set[0].KeyID != "d" {
		t.Errorf("%+v %v", set, err)
	}
	if _, err := usable(make([]jose.JSONWebKey, 3)); err == nil {
		t.Error("no key at all is taken")
	}
}

// Keys that cannot be read here cost the others nothing; an issuer that tells none but them says why.
func TestKeysOfUnknownKinds(t *testing.T) {
	const x25519 = `{"kty":"OKP","crv":"X25519","kid":"x","use":"enc","x":"` +
		`3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"}`
	s := newSigner(t)
	k := newKey(t, "k1")
	s.tells(k)
	for _, raw := range []string{
		x25519, `{"kty":"OKP","crv":"Ed448","x":"AA"}`, `{"kty":"EC","crv":"secp256k1","alg":"ES256K","x":"AA","y":"AA"}`,
		`{"kty":"RSA","n":"AQ","e":"AQAB","x5c":["AA=="]}`, `{"kty":"AKP"}`, `7`, `null`,
	} {
		s.tellsToo(raw)
	}
	d := newDoor(t, settings(s.URL))
	d.lets(k.signs(t, d.claims(s.URL)))

	s.tells()
	s.tellsToo(x25519)
	one := d.issuers[s.URL].keys
	if _, err := one.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "tells 0 keys") ||
		!strings.Contains(err.Error(), "key 1 cannot be read") {
		t.Errorf("no key that can be read: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	good := settings("https://login.example.org")
	for say, change := range map[string]func(*Settings){
		"":                                     func(*Settings) {},
		`issuer "" is not valid`:               func(s *Settings) { s.Issuer = "" },
		`use https`:                            func(s *Settings) { s.Issuer = "http://login.example.org" },
		`issuer "https://a?b" is not valid`:    func(s *Settings) { s.Issuer = "https://a?b" },
		`audience "" is not valid`:             func(s *Settings) { s.Audience = "" },
		`projects "" is not valid`:             func(s *Settings) { s.Projects, s.Cell = nil, nil },
		`oidc, entry 2: projects, entry 1: c`:  func(s *Settings) { s.Projects = []ProjectRule{{"", "x", "a", "reader"}} },
		`value "" is not valid`:                func(s *Settings) { s.Projects = []ProjectRule{{"x", "", "a", "reader"}} },
		`project "A b"`:                        func(s *Settings) { s.Projects = []ProjectRule{{"x", "x", "A b", "reader"}} },
		`role "operator" is not valid`:         func(s *Settings) { s.Projects = []ProjectRule{{"x", "x", "a", "operator"}} },
		`cell, entry 1: cell "reader" is not`:  func(s *Settings) { s.Cell = []CellRule{{"x", "x", "reader"}} },
		`name it once for each audience`:       func(s *Settings) { s.Issuer = "https://first.example.org" },
		`ca "/missing/ca.pem": cannot be read`: func(s *Settings) { s.CA = "/missing/ca.pem" },
	} {
		s := good
		change(&s)
		err := Check([]Settings{settings("https://first.example.org"), s})
		if (err == nil) != (say == "") || err != nil &&
			(!strings.Contains(err.Error(), say) || compute.KindOf(config.All(err)[0]) != compute.KindInvalid) {
			t.Errorf("%v, want %s", err, say)
		}
	}
}
