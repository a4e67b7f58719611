// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// watched is Files whose clock the test turns.
type watched struct {
	*Files
	t    *testing.T
	now  time.Time
	said *observer.ObservedLogs
}

func watching(t *testing.T, p Paths) *watched {
	t.Helper()
	core, said := observer.New(zap.InfoLevel)
	w := &watched{t: t, now: time.Now(), said: said}
	var err error
	if w.Files, err = Open(p, Options{Log: zap.New(core), Now: func() time.Time { return w.now }}); err != nil {
		t.Fatal(err)
	}
	return w
}

// serial is that of the certificate which a connection gets after a second.
func (w *watched) serial() string {
	w.t.Helper()
	w.now = w.now.Add(lookEvery)
	c, err := w.Config().GetConfigForClient(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Certificates[0].Leaf.SerialNumber.String()
}

func serialOf(i tlstest.Issued) string { return i.Leaf.SerialNumber.String() }

// Renewed files count without a restart; what cannot be used leaves the old ones in use, and is said
// once for each change, however many connections come.
func TestFilesAreReadAgain(t *testing.T) {
	dir, authority := t.TempDir(), tlstest.New(t, "ours")
	first, second := authority.Server(), authority.Server()
	cert, key := first.Files(t, dir)
	w := watching(t, Paths{Cert: cert, Key: key})
	if got := w.serial(); got != serialOf(first) || w.Changes() != 0 {
		t.Fatalf("%s after %d changes", got, w.Changes())
	}
	tlstest.Write(t, dir, "cert.pem", second.Cert) // and not yet its key
	for range 3 {
		if got := w.serial(); got != serialOf(first) {
			t.Fatalf("a certificate with another's key is used: %s", got)
		}
	}
	if _, unusable := w.Expires(); !unusable || w.said.FilterMessageSnippet("cannot be used").Len() != 1 {
		t.Errorf("unusable: %t, said: %v", unusable, w.said.All())
	}
	tlstest.Write(t, dir, "key.pem", second.Key)
	if got := w.serial(); got != serialOf(second) || w.Changes() != 1 {
		t.Errorf("%s after %d changes, want the second", got, w.Changes())
	}
	for name, break_ := range map[string]func(){
		"removed": func() { _ = os.Remove(cert) },
		"cut off": func() { tlstest.Write(t, dir, "cert.pem", first.Cert[:100]) },
		"no text": func() { tlstest.Write(t, dir, "key.pem", []byte{0, 1, 2}) },
		"has expired": func() {
			old := authority.Server(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
			old.Files(t, dir)
		},
	} {
		break_()
		if got := w.serial(); got != serialOf(second) {
			t.Errorf("%s: %s is used", name, got)
		}
		if at, unusable := w.Expires(); !unusable || !at.Equal(second.Leaf.NotAfter) {
			t.Errorf("%s: expires %v, unusable: %t", name, at, unusable)
		}
	}
	first.Files(t, dir)
	if got := w.serial(); got != serialOf(first) {
		t.Errorf("%s, want the first again", got)
	}
	if _, unusable := w.Expires(); unusable {
		t.Error("still unusable")
	}
}

// A renewed certificate that is not valid yet is used from when it is, though the files have not changed since.
func TestACertificateOfLater(t *testing.T) {
	dir, authority := t.TempDir(), tlstest.New(t, "ours")
	first := authority.Server()
	cert, key := first.Files(t, dir)
	w := watching(t, Paths{Cert: cert, Key: key})
	later := authority.Server(func(c *x509.Certificate) { c.NotBefore = w.now.Add(time.Minute) })
	later.Files(t, dir)
	for range 2 {
		if got := w.serial(); got != serialOf(first) {
			t.Fatalf("%s is used before it is valid", got)
		}
	}
	if _, unusable := w.Expires(); unusable || w.said.FilterMessageSnippet("cannot be used").Len() != 1 {
		t.Errorf("unusable: %t, said: %v", unusable, w.said.All())
	}
	w.now = later.Leaf.NotBefore
	if got := w.serial(); got != serialOf(later) || w.Changes() != 1 {
		t.Errorf("%s after %d changes, want the later one", got, w.Changes())
	}
	if _, unusable := w.Expires(); unusable {
		t.Error("still unusable")
	}
}

// The files are not read for each of many connections, and a clock that is set back does not keep
// them from being read.
func TestFilesAreReadOnceASecond(t *testing.T) {
	dir, authority := t.TempDir(), tlstest.New(t, "ours")
	first, second, third := authority.Server(), authority.Server(), authority.Server()
	cert, key := first.Files(t, dir)
	w := watching(t, Paths{Cert: cert, Key: key})
	second.Files(t, dir)
	if w.Changes() != 0 {
		t.Error("read again in the same second")
	}
	if got := w.serial(); got != serialOf(second) {
		t.Errorf("%s after a second", got)
	}
	third.Files(t, dir)
	w.now = w.now.Add(-time.Hour)
	if w.Changes() != 2 {
		t.Error("not read again after the clock was set back")
	}
}

func TestAuthoritiesAreReadAgain(t *testing.T) {
	dir, ours, theirs := t.TempDir(), tlstest.New(t, "ours"), tlstest.New(t, "theirs")
	cert, key := ours.Server().Files(t, dir)
	w := watching(t, Paths{Cert: cert, Key: key, ClientCA: tlstest.Write(t, dir, "ca.pem", ours.PEM)})
	pool := func() *x509.CertPool {
		w.serial()
		c, _ := w.Config().GetConfigForClient(nil)
		if c.ClientAuth != tls.VerifyClientCertIfGiven || !c.SessionTicketsDisabled || c.MinVersion != tls.VersionTLS12 {
			t.Errorf("%+v", c)
		}
		return c.ClientCAs
	}
	if !pool().Equal(ours.Pool()) {
		t.Error("not our authority")
	}
	tlstest.Write(t, dir, "ca.pem", theirs.PEM)
	if !pool().Equal(theirs.Pool()) {
		t.Error("not the new authority")
	}
	tlstest.Write(t, dir, "ca.pem", nil)
	if !pool().Equal(theirs.Pool()) {
		t.Error("no authority at all is taken for one")
	}
}

// An authority that was taken out is not trusted any more, whatever becomes of a certificate that came before or with
// it.
func TestAuthoritiesCountWithoutTheCertificate(t *testing.T) {
	ours, theirs := tlstest.New(t, "ours"), tlstest.New(t, "theirs")
	for name, spoil := range map[string]func(dir string){
		"later": func(dir string) {
			ours.Server(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }).Files(t, dir)
		},
		"expired": func(dir string) {
			ours.Server(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }).Files(t, dir)
		},
		"without its key": func(dir string) { tlstest.Write(t, dir, "cert.pem", ours.Server().Cert) },
		"removed":         func(dir string) { _ = os.Remove(filepath.Join(dir, "cert.pem")) },
	} {
		dir, first := t.TempDir(), ours.Server()
		cert, key := first.Files(t, dir)
		w := watching(t, Paths{Cert: cert, Key: key, ClientCA: tlstest.Write(t, dir, "ca.pem", ours.PEM)})
		trusts := func(a *tlstest.Authority, changes int, when string) {
			t.Helper()
			if got := w.serial(); got != serialOf(first) {
				t.Errorf("%s, %s: %s is used", name, when, got)
			}
			c, err := w.Config().GetConfigForClient(nil)
			if err != nil || !c.ClientCAs.Equal(a.Pool()) || c.ClientAuth != tls.VerifyClientCertIfGiven ||
				!c.SessionTicketsDisabled || w.Changes() != changes {
				t.Errorf("%s, %s: other authorities are trusted, after %d changes: %v", name, when, w.Changes(), err)
			}
		}
		spoil(dir)
		trusts(ours, 0, "at first")
		tlstest.Write(t, dir, "ca.pem", theirs.PEM)
		trusts(theirs, 1, "with another authority")
		tlstest.Write(t, dir, "ca.pem", nil)
		trusts(theirs, 1, "with none")
	}
}

func TestPathsAreChecked(t *testing.T) {
	dir, authority := t.TempDir(), tlstest.New(t, "ours")
	cert, key := authority.Server().Files(t, dir)
	_, other := authority.Server().Files(t, t.TempDir())
	missing := filepath.Join(dir, "missing.pem")
	for _, c := range []struct {
		paths      Paths
		field, say string
	}{
		{Paths{}, "", ""},
		{Paths{Cert: cert, Key: key}, "", ""},
		{Paths{Cert: cert, Key: key, ClientCA: cert}, "", ""},
		{Paths{Cert: cert}, "tls.key", "certificate's key"},
		{Paths{Key: key}, "tls.cert", "name the file"},
		{Paths{ClientCA: cert}, "tls.cert", "name the file"},
		{Paths{Cert: missing, Key: key}, "tls.cert", "no such file"},
		{Paths{Cert: cert, Key: missing}, "tls.key", "no such file"},
		{Paths{Cert: cert, Key: other}, "tls.cert", "is not of use with"},
		{Paths{Cert: key, Key: key}, "tls.cert", "PEM form"},
		{Paths{Cert: cert, Key: key, ClientCA: missing}, "tls.client_ca", "no such file"},
		{Paths{Cert: cert, Key: key, ClientCA: key}, "tls.client_ca", "certificates in PEM form"},
	} {
		err := c.paths.Check()
		e, _ := err.(*compute.Error)
		if (err == nil) != (c.field == "") ||
			err != nil && (e == nil || e.Field != c.field || e.Remedy == "" || !strings.Contains(err.Error(), c.say)) {
			t.Errorf("%+v: %v, want %s", c.paths, err, c.field)
		}
	}
}
