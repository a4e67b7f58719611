// SPDX-License-Identifier: Apache-2.0

// Package clienttls has what a client uses of TLS, as PEM files: the authorities that it trusts servers by, and its own
// certificate. Errors are KindInvalid.
package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync/atomic"

	"github.com/berth-project/berth/pkg/compute"
)

// Refusal is the error of a field that names a file which cannot be used: compute.Unreadable, or a caller's own words.
type Refusal func(field, file string, cause error) *compute.Error

// Config trusts servers by the authorities in a file; empty: by those of this machine. field is the setting that names
// the file.
func Config(field, authorities string, refuse Refusal) (*tls.Config, error) {
	// Connections that are for a question now and then are resumed: a thousand hosts open some each minute.
	c := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if authorities == "" {
		return c, nil
	}
	pem, err := os.ReadFile(authorities)
	if err != nil {
		return nil, refuse(field, authorities, err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, compute.Invalid(field, authorities, "give a file with certificates in PEM form")
	}
	return c, nil
}

// Show has the client show the certificate in the file cert, whose key is in the file key. Both are read now, and again
// for every connection, so that the certificate may be renewed. While that is done they may not belong together, or one
// of them be away: then the last that could be read is shown. field is the setting that names cert.
func Show(c *tls.Config, field, cert, key string, refuse Refusal) error {
	first, err := Own(field, cert, key, refuse)
	if err != nil {
		return err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(first)
	c.ClientSessionCache = nil // a connection that is resumed goes by the certificate of the one before
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if now, err := Own(field, cert, key, refuse); err == nil {
			last.Store(now)
		}
		return last.Load(), nil
	}
	return nil
}

// Own is the client's certificate as it is on the disk now, with Show's arguments.
func Own(field, cert, key string, refuse Refusal) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, refuse(field, cert+", "+key, err)
	}
	return &pair, nil
}
