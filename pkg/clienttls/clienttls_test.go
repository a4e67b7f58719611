// SPDX-License-Identifier: Apache-2.0

package clienttls

import (
	"crypto/tls"
	"os"
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// While a certificate is renewed its key is another one's for a moment, and a file may be away: the last that could be
// read is shown.
func TestShowWhileItIsRenewed(t *testing.T) {
	authority, dir := tlstest.New(t, "authority"), t.TempDir()
	cert, key := authority.Client("one", "").Files(t, dir)
	var c tls.Config
	if err := Show(&c, "cert", cert, key, compute.Unreadable); err != nil {
		t.Fatal(err)
	}
	shows := func() []byte {
		t.Helper()
		shown, err := c.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return shown.Certificate[0]
	}
	first := shows()
	next, nextKey := authority.Client("two", "").Files(t, t.TempDir())
	for _, step := range []struct {
		do   func() error
		last bool
	}{
		{func() error { return os.Rename(next, cert) }, true},
		{func() error { return os.Remove(key) }, true},
		{func() error { return os.Rename(nextKey, key) }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := slices.Equal(shows(), first); got != step.last {
			t.Errorf("it shows the first one: %t, want %t", got, step.last)
		}
	}
	if err := Show(&c, "cert", cert, cert, compute.Unreadable); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("a process that starts without: %v", err)
	}
}
