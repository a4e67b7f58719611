// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/auth/clientcert"
	"github.com/berth-project/berth/pkg/auth/oidc"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/loopback"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/tlsfiles"
)

// face is where and how a daemon answers over HTTP.
type face struct {
	listen string // empty: nowhere
	tls    tlsfiles.Paths
	bounds statusserver.Bounds
	signIn bool // callers sign in, also those who ask for the metrics

	stopDelay time.Duration // how long it answers as before after it is told to stop, but for /readyz
}

// options are the status server's. Bad certificate files end a daemon when it starts.
func (f face) options(o statusserver.Options) (statusserver.Options, error) {
	o.Address, o.Bounds, o.Guarded = f.listen, f.bounds, f.signIn
	if f.tls == (tlsfiles.Paths{}) {
		return o, nil
	}
	var err error
	o.TLS, err = tlsfiles.Open(f.tls, tlsfiles.Options{Log: o.Log})
	return o, err
}

// plainBounds are those of a daemon that says only how it is: many scrapers, and no more.
func plainBounds() statusserver.Bounds {
	return statusserver.Bounds{Connections: 1000, AddressConnections: 200, AddressRate: 100}
}

// authConfig is how callers of an API node sign in. With nothing of it, they do not.
type authConfig struct {
	Tokens       bool              `yaml:"tokens"` // those of berth token create count
	OIDC         []oidc.Settings   `yaml:"oidc"`
	Certificates []clientcert.Rule `yaml:"certificates"`
}

func (a authConfig) none() bool { return !a.Tokens && len(a.OIDC) == 0 && len(a.Certificates) == 0 }

func (c apiConfig) checkAuth() error {
	var unasked error
	if len(c.Auth.Certificates) > 0 && c.TLS.ClientCA == "" {
		unasked = compute.Invalid("auth.certificates", fmt.Sprint(len(c.Auth.Certificates))+" rules",
			"name the authorities of the certificates in tls.client_ca: without it none is asked for")
	}
	return errors.Join(
		unasked, within("auth.oidc", oidc.Check(c.Auth.OIDC)),
		within("auth.certificates", clientcert.Check(c.Auth.Certificates)),
	)
}

// auditSignedIn is what the setting audit says where it goes by whether callers sign in.
const auditSignedIn = "signed-in"

// keepsAudit says whether every change and every refusal is written down.
func (c apiConfig) keepsAudit() bool {
	return c.Audit == "true" || c.Audit == auditSignedIn && !c.Auth.none()
}

func (c apiConfig) checkAudit() error {
	switch c.Audit {
	case "true", "false", auditSignedIn:
		return nil
	}
	return compute.Invalid("audit", c.Audit, "give true, false, or "+auditSignedIn+" for true where callers sign in")
}

// within says of each problem to which setting it belongs.
func within(key string, err error) error {
	var all []error
	for _, one := range config.All(err) {
		all = append(all, config.At(key, one))
	}
	return errors.Join(all...)
}

// checkListen refuses an address that others reach where it is open to them, or passwords are sent
// in the clear.
func (c apiConfig) checkListen() error {
	if err := checkAddress("listen", c.Listen); err != nil || c.InsecureListen || onLoopback(c.Listen) {
		return err
	}
	var lacks string
	switch {
	case c.TLS.Cert == "" && c.Auth.none():
		lacks = "set tls.cert and tls.key, and a way to sign in (auth.tokens, auth.oidc or auth.certificates)"
	case c.TLS.Cert == "":
		lacks = "set tls.cert and tls.key: without TLS everyone in between can read tokens and take them"
	case c.Auth.none():
		lacks = "set a way to sign in: auth.tokens, auth.oidc or auth.certificates"
	default:
		return nil
	}
	return &compute.Error{
		Kind: compute.KindInvalid, Field: "listen", Value: c.Listen, Message: "others can reach this address",
		Remedy: lacks + "; or listen on 127.0.0.1, or say insecure_listen: true if everyone who can reach it " +
			"may do anything",
	}
}

func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopback.Host(host)
}

// warnOpen says at every start what is open.
func (c apiConfig) warnOpen(log *zap.Logger) {
	listen := zap.String("listen", c.Listen)
	switch {
	case !onLoopback(c.Listen) && c.Auth.none():
		log.Warn("anyone who can reach this address may do anything: nobody signs in; auth.tokens: true changes that",
			listen)
	case !onLoopback(c.Listen) && c.TLS.Cert == "":
		log.Warn("everyone between a caller and this node can read its tokens: there is no TLS; tls.cert and tls.key "+
			"change that", listen)
	case c.Auth.none():
		log.Info("anyone on this machine may do anything: nobody signs in; auth.tokens: true changes that", listen)
	}
}
