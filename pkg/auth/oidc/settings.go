// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"crypto/tls"
	"errors"
	"net/url"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/auth/grant"
	"github.com/berth-project/berth/pkg/clienttls"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/loopback"
)

// Settings are one issuer whose tokens count, for one audience.
type Settings struct {
	Issuer        string        `yaml:"issuer"`         // its URL, letter for letter as in its tokens
	Audience      string        `yaml:"audience"`       // what the tokens have to be for: the client id of berth login
	UsernameClaim string        `yaml:"username_claim"` // what callers are called; empty: sub
	CA            string        `yaml:"ca"`             // PEM file of the issuer's authorities; empty: the machine's
	Projects      []ProjectRule `yaml:"projects"`
	Cell          []CellRule    `yaml:"cell"`
}

// ProjectRule gives a role on a project to callers whose claim has the value.
type ProjectRule struct {
	Claim   string          `yaml:"claim"`
	Value   string          `yaml:"value"`
	Project compute.Project `yaml:"project"`
	Role    auth.Role       `yaml:"role"`
}

// CellRule gives a role of the cell to callers whose claim has the value.
type CellRule struct {
	Claim string    `yaml:"claim"`
	Value string    `yaml:"value"`
	Role  auth.Role `yaml:"role"`
}

// Check says all that is wrong with the settings. It asks no issuer.
func Check(all []Settings) error {
	type who struct{ issuer, audience string }
	seen := map[who]bool{}
	var errs []error
	for i, s := range all {
		err := s.check()
		if seen[who{s.Issuer, s.Audience}] {
			err = errors.Join(err, compute.Invalid("issuer", s.Issuer, "name it once for each audience"))
		}
		seen[who{s.Issuer, s.Audience}] = true
		errs = append(errs, grant.In("oidc", i, err))
	}
	return errors.Join(errs...)
}

func (s Settings) check() error {
	errs := []error{checkIssuer(s.Issuer)}
	if s.Audience == "" {
		errs = append(errs, compute.Invalid("audience", "",
			"name what its tokens are for: without it one that was made for another service would count"))
	}
	if _, err := s.trusted(); err != nil {
		errs = append(errs, err)
	}
	if len(s.Projects)+len(s.Cell) == 0 {
		errs = append(errs, compute.Invalid("projects", "", "give projects or cell: else its tokens may do nothing"))
	}
	for i, r := range s.Projects {
		err := errors.Join(checkClaim(r.Claim, r.Value), grant.Project{Project: r.Project, Role: r.Role}.Check())
		errs = append(errs, grant.In("projects", i, err))
	}
	for i, r := range s.Cell {
		errs = append(errs, grant.In("cell", i, errors.Join(checkClaim(r.Claim, r.Value), grant.CheckCell(r.Role))))
	}
	return errors.Join(errs...)
}

// checkIssuer refuses one whose keys anybody in between could replace.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return compute.Invalid("issuer", issuer, "give its URL, as in https://login.example.org")
	}
	if loopback.OrHTTPS(u) {
		return nil
	}
	return compute.Invalid("issuer", issuer, "use https: its keys are asked for there")
}

func checkClaim(claim, value string) error {
	if claim == "" {
		return compute.Invalid("claim", "", "name a claim of the token, as in groups")
	}
	if value == "" {
		return compute.Invalid("value", "", "give the value of the claim "+claim+" that has the role")
	}
	return nil
}

// trusted is TLS by the authorities that the issuer's connection is checked against.
func (s Settings) trusted() (*tls.Config, error) {
	return clienttls.Config("ca", s.CA, func(field, file string, cause error) *compute.Error {
		e := compute.Unreadable(field, file, cause)
		e.Message = "cannot be read"
		return e
	})
}
