// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// A process that cannot sign in now, for a file is being renewed, does not end over it, and gives up nothing that is to
// be written. One that is refused does.
func TestCannotSignInNow(t *testing.T) {
	away := compute.Invalid("kafka.tls.key", "key.pem", "give a file")
	none := func() (string, error) { return "", away }
	for _, m := range Mechanisms() {
		s := SASL{Mechanism: m, User: "u", Password: none, Token: none}
		_, _, err := s.mechanism().Authenticate(t.Context(), "broker")
		if IsFatal(err) || compute.KindOf(err) != compute.KindUnavailable {
			t.Errorf("%s: %v", m, err)
		}
	}
	authority := tlstest.New(t, "authority")
	at, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{authority.Server().Pair(t)}, ClientAuth: tls.RequireAnyClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	go func() {
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake(); _ = conn.Close() }()
		}
	}()
	dial := DialTLS(nil, &tls.Config{
		RootCAs: authority.Pool(), ServerName: "localhost",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, away },
	})
	if _, err := dial(context.Background(), "tcp", at.Addr().String()); IsFatal(err) ||
		compute.KindOf(err) != compute.KindUnavailable {
		t.Errorf("TLS: %v", err)
	}
	forbidden := &compute.Error{Kind: compute.KindForbidden}
	if err := forNow(forbidden); !IsFatal(err) || err != forbidden {
		t.Errorf("a refusal: %v", err)
	}
}
