// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"

	"github.com/berth-project/berth/pkg/clienttls"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/secretfile"
)

// TLS says which authorities a client trusts, and what it shows of itself, as PEM files.
type TLS struct {
	CA   string // whose nodes are trusted; empty: those that this machine trusts
	Cert string // the caller's own certificate; empty: it shows none
	Key  string // its key
}

// load reads the files. The caller's certificate is read again for every connection, so that it may
// be renewed.
func (t TLS) load() (*tls.Config, error) {
	c, err := clienttls.Config("ca", t.CA, unusable)
	if err != nil {
		return nil, err
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, compute.Invalid("cert", t.Cert, "give the certificate and its key, or neither")
	}
	if t.Cert == "" {
		return c, nil
	}
	if err := clienttls.Show(c, "cert", t.Cert, t.Key, unusable); err != nil {
		return nil, err
	}
	if err := secretfile.Check("cert-key", t.Key); err != nil {
		return nil, err
	}
	return c, nil
}

// unusable says to a person which file is of no use.
func unusable(field, file string, cause error) *compute.Error {
	return &compute.Error{
		Kind: compute.KindInvalid, Field: field, Value: file, Message: "cannot be used",
		Remedy: "give a PEM file that you may read", Cause: cause,
	}
}

// distrust says what to do where a connection was made and TLS did not come about; empty if that is
// not it.
func distrust(err error) (remedy string) {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var expired x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate is of an authority that is not trusted here: " +
			"set --ca or BERTH_CA_FILE to the authority's file"
	case errors.As(err, &name):
		return "its certificate is for other names: ask for it by one of them"
	case errors.As(err, &expired):
		return "its certificate does not count: renew it there, and compare the clocks"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks no TLS: use http:// in --api or BERTH_API, if nobody in between can read what you send"
	}
	return ""
}

// speaksTLS says of an answer to a request without TLS that TLS is what the server wants.
func speaksTLS(resp *http.Response, data []byte) bool {
	const said = "Client sent an HTTP request to an HTTPS" // by net/http
	return resp.StatusCode == http.StatusBadRequest && strings.HasPrefix(string(data), said)
}
