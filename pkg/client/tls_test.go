// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// whoami is a node that answers as whom it knows its caller.
func whoami(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		name = r.TLS.VerifiedChains[0][0].Subject.CommonName
	}
	fmt.Fprintf(w, `{"name":%q,"id":%q}`, name, r.Proto)
}

// TestOverTLS: what a client trusts and shows, and what it says to do where TLS does not come about.
func TestOverTLS(t *testing.T) {
	ours, theirs := tlstest.New(t, "ours"), tlstest.New(t, "theirs")
	dir := t.TempDir()
	ca := tlstest.Write(t, dir, "ca.pem", ours.PEM)
	other := tlstest.Write(t, dir, "other.pem", theirs.PEM)
	cert, key := ours.Client("alice", "").Files(t, dir)
	foreign, foreignKey := theirs.Client("alice", "").Files(t, t.TempDir())
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	elsewhere := func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"api.example.org"} }
	at := func(change ...func(*x509.Certificate)) string {
		node := httptest.NewUnstartedServer(http.HandlerFunc(whoami))
		node.EnableHTTP2 = true
		node.TLS = &tls.Config{
			Certificates: []tls.Certificate{ours.Server(change...).Pair(t)}, ClientCAs: ours.Pool(),
			ClientAuth: tls.VerifyClientCertIfGiven,
		}
		node.StartTLS()
		t.Cleanup(node.Close)
		return node.URL
	}
	good, plain := at(), httptest.NewServer(http.HandlerFunc(whoami))
	defer plain.Close()
	noTLS, overTLS := strings.Replace(good, "https", "http", 1), strings.Replace(plain.URL, "http", "https", 1)
	for name, c := range map[string]struct {
		address string
		tls     TLS
		who     string
		say     string
		kind    compute.Kind
	}{
		"trusted":            {good, TLS{CA: ca}, "nobody", "", 0},
		"with a certificate": {good, TLS{CA: ca, Cert: cert, Key: key}, "alice", "", 0},
		"another authority":  {good, TLS{CA: other}, "", "set --ca or BERTH_CA_FILE", compute.KindUnavailable},
		"this machine's":     {good, TLS{}, "", "set --ca or BERTH_CA_FILE", compute.KindUnavailable},
		"expired":            {at(expired), TLS{CA: ca}, "", "renew it there", compute.KindUnavailable},
		"another name":       {at(elsewhere), TLS{CA: ca}, "", "ask for it by one of them", compute.KindUnavailable},
		"TLS to one without": {overTLS, TLS{CA: ca}, "", "use http://", compute.KindUnavailable},
		"without TLS to one": {noTLS, TLS{}, "", "use https://", compute.KindInvalid},
		"a certificate":      {good, TLS{CA: ca, Cert: cert}, "", "and its key, or neither", compute.KindInvalid},
		"a key":              {good, TLS{CA: ca, Key: key}, "", "and its key, or neither", compute.KindInvalid},
		"no file":            {good, TLS{CA: filepath.Join(dir, "no")}, "", "that you may read", compute.KindInvalid},
		"no certificate":     {good, TLS{CA: key}, "", "certificates in PEM form", compute.KindInvalid},
		"not its key": {
			good, TLS{CA: ca, Cert: cert, Key: foreignKey}, "", "that you may read", compute.KindInvalid,
		},
		"not trusted by it": {
			good, TLS{CA: ca, Cert: foreign, Key: foreignKey}, "", "does it trust the certificate",
			compute.KindUnavailable,
		},
		"a scheme of no use":    {"ftp://127.0.0.1", TLS{}, "", "give an address", compute.KindInvalid},
		"TLS files, and no TLS": {plain.URL, TLS{CA: ca}, "nobody", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(Config{Address: c.address, TLS: c.tls, Patience: -1})
			var caller Caller
			if err == nil {
				defer client.Close()
				caller, err = client.Whoami(t.Context())
			}
			if c.say == "" {
				if err != nil || caller.Name != c.who {
					t.Errorf("%+v %v, want %s", caller, err, c.who)
				}
				if strings.HasPrefix(c.address, "https") && caller.ID != "HTTP/2.0" {
					t.Errorf("over %s", caller.ID)
				}
				return
			}
			if err == nil || compute.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v (%s), want %s with %q", err, compute.KindOf(err), c.kind, c.say)
			}
		})
	}
}
