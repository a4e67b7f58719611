// SPDX-License-Identifier: Apache-2.0

// Package tlstest makes authorities and certificates for tests.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // its certificate
}

// New makes an authority.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.key = newKey(t)
	der := sign(t, template, template, &a.key.PublicKey, a.key)
	a.cert, a.PEM = parsed(t, der), encoded("CERTIFICATE", der)
	return a
}

// Pool is the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Issued is a certificate with its key.
type Issued struct {
	Cert, Key []byte // PEM
	Leaf      *x509.Certificate
}

// Server is a certificate of 127.0.0.1, ::1 and localhost.
func (a *Authority) Server(change ...func(*x509.Certificate)) Issued {
	a.t.Helper()
	return a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, change)
}

// Client is a certificate of a caller; without uri it has only a common name.
func (a *Authority) Client(name, uri string, change ...func(*x509.Certificate)) Issued {
	a.t.Helper()
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			a.t.Fatal(err)
		}
		c.URIs = []*url.URL{u}
	}
	return a.issue(c, change)
}

func (a *Authority) issue(c *x509.Certificate, change []func(*x509.Certificate)) Issued {
	a.t.Helper()
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, f := range change {
		f(c)
	}
	key := newKey(a.t)
	der := sign(a.t, c, a.cert, &key.PublicKey, a.key)
	text, err := x509.MarshalPKCS8PrivateKey(key) // Kafka reads no other form
	if err != nil {
		a.t.Fatal(err)
	}
	return Issued{encoded("CERTIFICATE", der), encoded("PRIVATE KEY", text), parsed(a.t, der)}
}

// Pair is the certificate for a connection.
func (i Issued) Pair(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Files writes the certificate and its key into a folder.
func (i Issued) Files(t testing.TB, dir string) (cert, key string) {
	t.Helper()
	return Write(t, dir, "cert.pem", i.Cert), Write(t, dir, "key.pem", i.Key)
}

// Write puts a file in the place of another at once, as a tool that renews certificates does.
func Write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, c, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	var err error
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func parsed(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
