// SPDX-License-Identifier: Apache-2.0

// Package signin signs a person in at an OpenID Connect issuer from a terminal, by the device flow
// (RFC 8628): the person confirms in a browser, on whatever machine.
package signin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/berth-project/berth/pkg/clienttls"
	"github.com/berth-project/berth/pkg/compute"
)

// Session is what a person has signed in with, and what it takes to renew it.
type Session struct {
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"client_id"`
	CA       string    `json:"ca,omitempty"` // file of the issuer's authorities; empty: the machine's
	Token    string    `json:"token"`        // what the API is shown
	Refresh  string    `json:"refresh,omitempty"`
	Expires  time.Time `json:"expires"` // of the token; zero: not known
}

// Options say where to sign in.
type Options struct {
	Issuer   string
	ClientID string
	CA       string
	Scopes   []string // besides openid
	// Ask tells the person which page to open and which code to give there; direct has the code in it
	// and may be empty.
	Ask func(page, code, direct string)
}

// askTimeout is how long the issuer may take for one answer.
const askTimeout = 30 * time.Second

// Device signs in. It waits until the person has confirmed, has refused, or the code has expired.
func Device(ctx context.Context, o Options) (Session, error) {
	s := Session{Issuer: o.Issuer, ClientID: o.ClientID, CA: o.CA}
	ctx, client, err := s.client(ctx)
	if err != nil {
		return Session{}, err
	}
	if client.Endpoint.DeviceAuthURL == "" {
		return Session{}, compute.Invalid("issuer", o.Issuer,
			"it lets nobody sign in from a terminal (no device_authorization_endpoint): "+
				"give a token to berth login on standard input")
	}
	client.Scopes = append([]string{gooidc.ScopeOpenID}, o.Scopes...)
	asked, err := client.DeviceAuth(ctx)
	if err != nil {
		return Session{}, failed(o.Issuer, err)
	}
	o.Ask(asked.VerificationURI, asked.UserCode, asked.VerificationURIComplete)
	token, err := await(ctx, client, asked)
	if err != nil {
		return Session{}, failed(o.Issuer, err)
	}
	return s.with(token)
}

// slowest is how long, in seconds, an issuer that was away is left alone at most.
const slowest = 30

// await asks until the person has answered or the code has expired. An issuer that is away, or for which a proxy says
// so, is asked again, and less often, as RFC 8628 (3.5) has it: the person may be in the browser meanwhile.
func await(ctx context.Context, client *oauth2.Config, asked *oauth2.DeviceAuthResponse) (*oauth2.Token, error) {
	asked.Interval = cmp.Or(asked.Interval, 5) // as RFC 8628 (3.2) has it
	for {
		token, err := client.DeviceAccessToken(ctx, asked)
		expired := !asked.Expiry.IsZero() && !time.Now().Before(asked.Expiry)
		switch {
		case err == nil || ctx.Err() != nil:
			return token, err
		case expired && (away(err) || errors.Is(err, context.DeadlineExceeded)):
			return nil, &oauth2.RetrieveError{ErrorCode: "expired_token"}
		case !away(err):
			return nil, err
		case asked.Interval < slowest:
			asked.Interval *= 2
		}
	}
}

// away says whether an issuer may answer if it is asked again.
func away(err error) bool {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return refused.Response.StatusCode >= http.StatusInternalServerError
	}
	var broke *net.OpError
	var slow net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broke) ||
		errors.As(err, &slow) && slow.Timeout()
}

// Ahead is how long before it expires a token is due.
const Ahead = time.Minute

// Due says whether the token should be renewed now. One that cannot be renewed never is.
func (s Session) Due(now time.Time) bool {
	return s.Refresh != "" && !s.Expires.IsZero() && now.Add(Ahead).After(s.Expires)
}

// Renew is the session with a new token. The issuer may take the old session for ended from then on. Where it gives a
// new refresh token and no other that counts, as OpenID Connect Core (12.2) lets it, the old token stays.
func (s Session) Renew(ctx context.Context) (Session, error) {
	ctx, client, err := s.client(ctx)
	if err != nil {
		return s, err
	}
	token, err := client.TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if err != nil {
		return s, failed(s.Issuer, err)
	}
	fresh, err := s.with(token)
	if err != nil && token.RefreshToken != s.Refresh {
		s.Refresh = token.RefreshToken
		return s, nil
	}
	return fresh, err
}

// client is what asks the issuer; the context has its connections.
func (s Session) client(ctx context.Context) (context.Context, *oauth2.Config, error) {
	secure, err := clienttls.Config("issuer-ca", s.CA, compute.Unreadable)
	if err != nil {
		return ctx, nil, &compute.Error{
			Kind: compute.KindInvalid, Field: "issuer-ca", Value: s.CA, Message: "cannot be used",
			Remedy: "give a file with certificates in PEM form that you may read", Cause: errors.Unwrap(err),
		}
	}
	ctx = gooidc.ClientContext(ctx, &http.Client{Timeout: askTimeout, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, DisableKeepAlives: true,
	}})
	provider, err := gooidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		return ctx, nil, &compute.Error{
			Kind: compute.KindUnavailable, Field: "issuer", Value: s.Issuer,
			Message: "cannot be asked how to sign in there",
			Remedy:  "give its URL, as in https://login.example.org", Cause: err,
		}
	}
	return ctx, &oauth2.Config{ClientID: s.ClientID, Endpoint: provider.Endpoint()}, nil
}

// with is the session with what the issuer has given: its token about the person if there is one,
// otherwise the one for access if that can be read.
func (s Session) with(token *oauth2.Token) (Session, error) {
	s.Token, s.Expires = token.AccessToken, token.Expiry
	if id, ok := token.Extra("id_token").(string); ok && id != "" {
		s.Token = id
	}
	if strings.Count(s.Token, ".") != 2 {
		return Session{}, compute.Invalid("issuer", s.Issuer, "it gives no token that can be checked without it (JWT)")
	}
	if expires, ok := expiry(s.Token); ok {
		s.Expires = expires
	}
	if token.RefreshToken != "" {
		s.Refresh = token.RefreshToken
	}
	return s, nil
}

// failed says why an issuer signs nobody in.
func failed(issuer string, err error) error {
	e := &compute.Error{
		Kind: compute.KindUnauthenticated, Field: "issuer", Value: issuer, Message: "did not sign you in",
		Remedy: "run berth login again",
	}
	var refused *oauth2.RetrieveError
	switch {
	case !errors.As(err, &refused):
		e.Kind, e.Message, e.Remedy, e.Cause = compute.KindUnavailable, "cannot be asked", "try again", err
	case refused.ErrorCode == "access_denied":
		e.Message = "was told no in the browser"
	case refused.ErrorCode == "expired_token":
		e.Message = "was not told yes in the browser in time"
	case refused.ErrorCode == "invalid_client", refused.ErrorCode == "unauthorized_client":
		e.Message = "does not know the client id, or lets it not sign in from a terminal: " + refused.ErrorCode
		e.Remedy = "give another one to --client-id, or allow the device flow for it there"
	case refused.ErrorCode == "" || away(err): // a proxy, or an issuer in trouble: it has judged nothing
		e.Kind, e.Remedy = compute.KindUnavailable, "try again"
		e.Message = "cannot be asked: it answers " + refused.Response.Status
	default:
		e.Message += ": " + refused.ErrorCode
	}
	return e
}
