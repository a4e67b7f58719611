// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/kafka"
)

// TLSSettings is how connections to brokers are encrypted, and which certificates they trust.
type TLSSettings struct {
	CA   string `yaml:"ca"`   // PEM file; systemCA: what this machine trusts; empty: no TLS
	Cert string `yaml:"cert"` // PEM file of this process's own certificate; empty: none
	Key  string `yaml:"key"`  // PEM file of its key
}

// systemCA stands for the authorities that this machine trusts.
const systemCA = "system"

// SASLSettings is how this process logs in to the brokers.
type SASLSettings struct {
	Mechanism    string `yaml:"mechanism"`     // of kafka.Mechanisms; empty: none
	User         string `yaml:"user"`          //
	PasswordFile string `yaml:"password_file"` // read for every connection, so that it may change
}

// Secured is the cell with its connections as the settings say.
func (c Cell) Secured(k KafkaSettings) (Cell, error) {
	config, err := k.TLS.load()
	if err != nil {
		return c, err
	}
	if config != nil {
		c.Kafka.Dial = kafka.DialTLS(c.Kafka.Dial, config)
	}
	if k.SASL.Mechanism != "" {
		c.Kafka.SASL = &kafka.SASL{Mechanism: k.SASL.Mechanism, User: k.SASL.User, Password: k.SASL.password}
	}
	c.Kafka.As.Principal = k.principal
	return c, nil
}

// principal is the name that brokers without rules of their own for it (ssl.principal.mapping.rules) know this process
// by.
func (k KafkaSettings) principal() string {
	switch {
	case k.SASL.Mechanism != "":
		return "User:" + k.SASL.User
	case k.TLS.Cert != "":
		return k.TLS.principal()
	}
	return "User:ANONYMOUS"
}

// principal is the subject of this process's certificate as Java writes it; empty if it cannot be read.
func (t TLSSettings) principal() string {
	pair, err := t.own()
	if err != nil {
		return ""
	}
	var subject pkix.RDNSequence
	if _, err := asn1.Unmarshal(pair.Leaf.RawSubject, &subject); err != nil {
		return ""
	}
	return "User:" + subject.String()
}

// load reads the files; nil: no TLS. The certificate is read again for every
// connection, so that it may be renewed.
func (t TLSSettings) load() (*tls.Config, error) {
	if t.CA == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != systemCA {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, unreadable("kafka.tls.ca", t.CA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, compute.Invalid("kafka.tls.ca", t.CA, "give a file with certificates in PEM form")
		}
	}
	if t.Cert == "" {
		return c, nil
	}
	if _, err := t.own(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.own() }
	return c, nil
}

// own is this process's certificate as it is on the disk now.
func (t TLSSettings) own() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, unreadable("kafka.tls.cert", t.Cert+", "+t.Key, err)
	}
	return &pair, nil
}

// password is without the line break that editors put behind it.
func (s SASLSettings) password() (string, error) {
	text, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", unreadable("kafka.sasl.password_file", s.PasswordFile, err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func unreadable(key, file string, err error) error {
	return &compute.Error{
		Kind:    compute.KindInvalid,
		Field:   key,
		Value:   file,
		Message: "cannot be used",
		Remedy:  "give a file that this process may read",
		Cause:   err,
	}
}

func (t TLSSettings) check() error {
	if t.CA == "" && t.Cert != "" {
		return compute.Invalid(
			"kafka.tls.cert",
			t.Cert,
			fmt.Sprintf("set kafka.tls.ca too, to a PEM file or %q: without it there is no TLS", systemCA),
		)
	}
	if (t.Cert == "") != (t.Key == "") {
		return compute.Invalid("kafka.tls.key", t.Key, "give cert and key, or neither")
	}
	_, err := t.load()
	return err
}

func (s SASLSettings) check(encrypted bool) error {
	if s.Mechanism == "" {
		if s.User+s.PasswordFile != "" {
			return compute.Invalid(
				"kafka.sasl.mechanism",
				"",
				"give one of "+strings.Join(kafka.Mechanisms(), ", ")+", or no user and password_file either",
			)
		}
		return nil
	}
	errs := []error{config.OneOf("kafka.sasl.mechanism", s.Mechanism, kafka.Mechanisms()...)}
	if s.Mechanism == "PLAIN" && !encrypted {
		errs = append(
			errs,
			compute.Invalid(
				"kafka.sasl.mechanism",
				s.Mechanism,
				"it sends the password as it is: set kafka.tls.ca too, or use SCRAM-SHA-512",
			),
		)
	}
	if s.User == "" {
		errs = append(errs, compute.Invalid("kafka.sasl.user", "", "name the Kafka user"))
	}
	if _, err := s.password(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
