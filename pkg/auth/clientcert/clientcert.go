// SPDX-License-Identifier: Apache-2.0

// Package clientcert knows callers by the certificate of their connection.
package clientcert

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/auth/grant"
	"github.com/berth-project/berth/pkg/compute"
)

// Rule says what a caller may do whose certificate has this name. It has a common name or a URI.
type Rule struct {
	CommonName string          `yaml:"common_name"` // of the subject
	URI        string          `yaml:"uri"`         // one of the alternative names, as in spiffe://example.org/ci
	Projects   []grant.Project `yaml:"projects"`
	Cell       auth.Role       `yaml:"cell"` // operator or admin; empty: none
}

// Check says all that is wrong with the rules.
func Check(rules []Rule) error {
	var errs []error
	for i, r := range rules {
		errs = append(errs, grant.In("certificates", i, r.check()))
	}
	return errors.Join(errs...)
}

func (r Rule) check() error {
	if (r.CommonName == "") == (r.URI == "") {
		return compute.Invalid("common_name", r.CommonName, "give a common_name or a uri, and not both")
	}
	if u, err := url.Parse(r.URI); r.URI != "" && (err != nil || u.Scheme == "" || u.String() != r.URI) {
		return compute.Invalid("uri", r.URI, "give a whole one, as in spiffe://example.org/ci")
	}
	if len(r.Projects) == 0 && r.Cell == "" {
		return compute.Invalid("projects", "", "give projects with roles, or a role in cell")
	}
	var cell error
	if r.Cell != "" {
		cell = grant.CheckCell(r.Cell)
	}
	return errors.Join(grant.CheckAll(r.Projects), cell)
}

// Authenticator knows the callers whose certificates the rules name. The connection has to have
// verified the certificate.
type Authenticator struct {
	rules []Rule
	now   func() time.Time
}

// New makes an Authenticator of rules that Check lets pass. now is the clock; nil: the machine's.
func New(rules []Rule, now func() time.Time) *Authenticator {
	if now == nil {
		now = time.Now
	}
	return &Authenticator{rules: rules, now: now}
}

// Authenticate looks at the certificate of the connection. One that no rule names is as good as
// none: its caller may sign in by something else. Connections last longer than their handshake, so
// a certificate may have expired since.
func (a *Authenticator) Authenticate(_ context.Context, r *http.Request) (auth.Principal, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return auth.Principal{}, false, nil
	}
	leaf := r.TLS.VerifiedChains[0][0] // all chains begin with the caller's own
	p, ok := a.principal(leaf)
	if !ok {
		return auth.Principal{}, false, nil
	}
	now := a.now()
	if !slices.ContainsFunc(r.TLS.VerifiedChains, func(chain []*x509.Certificate) bool { return counts(chain, now) }) {
		return auth.Principal{}, false, &compute.Error{
			Kind: compute.KindUnauthenticated, Field: "certificate", Value: p.Name,
			Message: "it, or one of its authorities, counts only until " + p.Expires.UTC().Format(time.RFC3339),
			Remedy:  "renew it and connect again; compare the clocks",
		}
	}
	return p, true, nil
}

// principal adds up all rules that name the certificate.
func (a *Authenticator) principal(leaf *x509.Certificate) (p auth.Principal, known bool) {
	for _, r := range a.rules {
		name, ok := r.names(leaf)
		if !ok {
			continue
		}
		if !known {
			p = auth.Principal{Name: name, ID: name, Expires: leaf.NotAfter}
		}
		known = true
		for _, g := range r.Projects {
			grant.ToProject(&p, g)
		}
		if r.Cell != "" {
			grant.ToCell(&p, r.Cell)
		}
	}
	return p, known
}

// names says whether the rule is about the certificate, and what its caller is called.
func (r Rule) names(leaf *x509.Certificate) (name string, ok bool) {
	if r.CommonName != "" {
		return "cert:CN=" + r.CommonName, leaf.Subject.CommonName == r.CommonName
	}
	return "cert:" + r.URI, slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return u.String() == r.URI })
}

func counts(chain []*x509.Certificate, now time.Time) bool {
	return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
		return now.Before(c.NotBefore) || now.After(c.NotAfter)
	})
}
