// SPDX-License-Identifier: Apache-2.0

// Package oidc knows callers by tokens that an OpenID Connect issuer has signed (JWT).
package oidc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/auth"
)

// skew is how far the clocks of the issuer and of this node may be apart.
const skew = time.Minute

// algorithms are how a token may be signed: by what only the issuer has. "none" is signed by nobody,
// and HS256 and its like by a secret that this node would have to know.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
		jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// Authenticator knows the callers whose tokens are from one of some issuers. It may be used by many
// goroutines at once.
type Authenticator struct {
	issuers map[string]*issuer
	now     func() time.Time
}

// issuer is one with all of its audiences.
type issuer struct {
	keys      *keys
	audiences []Settings
	many      bool // there are other issuers: names of callers say whose they are
}

// Options of an Authenticator.
type Options struct {
	Log *zap.Logger      // nil: none
	Now func() time.Time // nil: time.Now
}

// New makes an Authenticator of settings that Check lets pass. It asks no issuer yet, so that a node
// starts without them.
func New(all []Settings, o Options) (*Authenticator, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Authenticator{issuers: map[string]*issuer{}, now: o.Now}
	for _, s := range all {
		of := a.issuers[s.Issuer]
		if of == nil {
			trusted, err := s.trusted()
			if err != nil {
				return nil, err
			}
			transport := &http.Transport{
				Proxy:             http.ProxyFromEnvironment,
				TLSClientConfig:   trusted,
				DisableKeepAlives: true, // it is asked every ten minutes
			}
			of = &issuer{keys: &keys{issuer: s.Issuer, client: newClient(transport), log: o.Log, now: o.Now}}
			a.issuers[s.Issuer] = of
		}
		of.audiences = append(of.audiences, s)
	}
	for _, of := range a.issuers {
		of.many = len(a.issuers) > 1
	}
	return a, nil
}

// Authenticate looks for "Authorization: Bearer" with a JWT. A token of another form is for others.
func (a *Authenticator) Authenticate(ctx context.Context, r *http.Request) (auth.Principal, bool, error) {
	text, ok, err := auth.Bearer(r)
	if err != nil || !ok || strings.Count(text, ".") != 2 {
		return auth.Principal{}, false, err
	}
	p, err := a.principal(ctx, text)
	return p, err == nil, err
}

// principal is the caller that a token names, once it is sure that the token counts.
func (a *Authenticator) principal(ctx context.Context, text string) (auth.Principal, error) {
	signed, err := jose.ParseSignedCompact(text, algorithms())
	if err != nil || len(signed.Signatures) != 1 {
		return auth.Principal{}, refused("it is no token that an issuer has signed with RSA, ECDSA or Ed25519",
			"sign in anew; berth login does")
	}
	var claimed struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &claimed); err != nil {
		return auth.Principal{}, refused("the token's claims cannot be read", "sign in anew")
	}
	of := a.issuers[claimed.Issuer]
	if of == nil {
		return auth.Principal{}, refused(fmt.Sprintf("tokens of the issuer %.200q do not count here", claimed.Issuer),
			"sign in at another one, or name it in auth.oidc, letter for letter")
	}
	header := signed.Signatures[0].Header
	public, err := of.keys.find(ctx, header.Algorithm, header.KeyID)
	if err != nil {
		return auth.Principal{}, err
	}
	token, err := gooidc.NewVerifier(claimed.Issuer, &gooidc.StaticKeySet{PublicKeys: public}, &gooidc.Config{
		SupportedSigningAlgs: []string{header.Algorithm},
		SkipClientIDCheck:    true, SkipExpiryCheck: true, // both are done below
	}).Verify(ctx, text)
	if err != nil {
		return auth.Principal{}, refused("the token is not signed as its issuer signs", "sign in anew")
	}
	return of.caller(token, a.now())
}

// caller is the caller that a token with a right signature names. It refuses a token that is for none of our
// audiences, or out of its time.
func (i *issuer) caller(token *gooidc.IDToken, now time.Time) (auth.Principal, error) {
	at := slices.IndexFunc(i.audiences, func(s Settings) bool { return slices.Contains(token.Audience, s.Audience) })
	if at < 0 {
		return auth.Principal{}, refused(fmt.Sprintf("the token is for %.200q", token.Audience),
			"sign in for "+i.audiences[0].Audience)
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return auth.Principal{}, refused("the token's claims cannot be read", "sign in anew")
	}
	if err := inTime(token.Expiry, claims["nbf"], now); err != nil {
		return auth.Principal{}, err
	}
	if token.Subject == "" {
		return auth.Principal{}, refused("the token has no claim sub", "let the issuer say whom it speaks of")
	}
	p, err := i.audiences[at].principal(claims)
	if err != nil {
		return auth.Principal{}, err
	}
	if i.many {
		p.Name += " of " + token.Issuer
	}
	p.ID, p.Expires = "oidc:"+token.Issuer+"#"+token.Subject, token.Expiry.Add(skew)
	return p, nil
}

// inTime refuses what has expired, does not count yet, or never expires.
func inTime(expires time.Time, from any, now time.Time) error {
	if !now.Before(expires.Add(skew)) {
		return refused("the token has expired", "sign in anew; compare the clocks if it is a new one")
	}
	if from == nil {
		return nil
	}
	seconds, ok := from.(float64)
	if !ok || now.Add(skew).Before(time.Unix(int64(seconds), 0)) {
		return refused("the token does not count yet", "compare the clocks of the issuer and of this node")
	}
	return nil
}
