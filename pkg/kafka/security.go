// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/berth-project/berth/pkg/compute"
)

// SASL is how a client proves its identity, on every connection.
type SASL struct {
	Mechanism string // one of Mechanisms
	User      string
	Password  func() (string, error) // asked for every connection, so that it may change

	Token      func() (string, error) // of OAUTHBEARER, instead of user and password; asked for as often
	Extensions map[string]string      // sent with the token; nil: none
}

// Mechanisms are those that SASL may name. PLAIN sends the password as it is, OAUTHBEARER the token:
// over TLS only.
func Mechanisms() []string { return []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} }

func (s *SASL) mechanism() sasl.Mechanism {
	auth := func(context.Context) (scram.Auth, error) {
		password, err := s.Password()
		return scram.Auth{User: s.User, Pass: password}, forNow(err)
	}
	switch s.Mechanism {
	case "OAUTHBEARER":
		return bearer{oauth.Oauth(func(context.Context) (a oauth.Auth, err error) {
			a.Extensions = s.Extensions
			a.Token, err = s.Token()
			return a, forNow(err)
		})}
	case "SCRAM-SHA-256":
		return scram.Sha256(auth)
	case "SCRAM-SHA-512":
		return scram.Sha512(auth)
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		password, err := s.Password()
		return plain.Auth{User: s.User, Pass: password}, forNow(err)
	})
}

// forNow is the error of a process that cannot sign in. What its settings name was looked at when it started; if it
// cannot be read now, it is being renewed: that is no reason to end, or to give up what is to be written.
func forNow(err error) error {
	var ours *compute.Error
	if errors.As(err, &ours) && ours.Kind == compute.KindInvalid {
		return compute.Unavailable("sign in to Kafka", err)
	}
	return err
}

// bearer is OAUTHBEARER with errors that say what a broker has against a token: it answers that in the exchange itself,
// and not by an error code.
type bearer struct{ sasl.Mechanism }

func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearing{s}, first, err
}

type bearing struct{ sasl.Session }

// mostTold bounds what of a broker's words about a token goes into an error.
const mostTold = 200

func (b bearing) Challenge(answer []byte) (done bool, next []byte, err error) {
	if len(answer) > 1 {
		return false, nil, fmt.Errorf("%w: the broker does not take the token: %q",
			kerr.SaslAuthenticationFailed, answer[:min(len(answer), mostTold)])
	}
	return b.Session.Challenge(answer)
}

// DialTLS makes a dialer that encrypts connections before it hands them out, within the time a connection may take. A
// nil dial is plain TCP; the name in the broker's certificate must be that of the address.
func DialTLS(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
	c *tls.Config,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		of := c.Clone()
		if of.ServerName == "" {
			of.ServerName, _, _ = net.SplitHostPort(address) // it was good enough to dial
		}
		safe := tls.Client(conn, of)
		if err := safe.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // what counts is the handshake
			return nil, forNow(err)
		}
		return safe, nil
	}
}
