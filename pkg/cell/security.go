// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/berth-project/berth/pkg/clienttls"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/secretfile"
)

// TLSSettings is how connections to brokers are encrypted, and which certificates they trust.
type TLSSettings struct {
	CA   string `yaml:"ca"`   // PEM file; systemCA: what this machine trusts; empty: no TLS
	Cert string `yaml:"cert"` // PEM file of this process's own certificate; empty: none
	Key  string `yaml:"key"`  // PEM file of its key
}

// systemCA stands for the authorities that this machine trusts.
const systemCA = "system"

// certSetting names the file of this process's own certificate.
const certSetting = "kafka.tls.cert"

// SASLSettings is how this process logs in to the brokers.
type SASLSettings struct {
	Mechanism    string `yaml:"mechanism"`     // of kafka.Mechanisms; empty: none
	User         string `yaml:"user"`          //
	PasswordFile string `yaml:"password_file"` // read for every connection, so that it may change

	// Of OAUTHBEARER: a file with the token, which may change too, or where tokens are fetched.
	TokenFile        string   `yaml:"token_file"`
	TokenURL         string   `yaml:"token_url"`
	TokenCA          string   `yaml:"token_ca"` // PEM file: authorities of the endpoint; empty: this machine's
	ClientID         string   `yaml:"client_id"`
	ClientSecretFile string   `yaml:"client_secret_file"`
	Scopes           []string `yaml:"scopes"`
	Extensions       []string `yaml:"extensions"` // name=value, sent along with the token
}

// oauth is the one mechanism without a password.
const oauth = "OAUTHBEARER"

// Secured is the cell with its connections as the settings say.
func (c Cell) Secured(k KafkaSettings) (Cell, error) {
	config, err := k.TLS.load()
	if err != nil {
		return c, err
	}
	newCertificateMetrics(c.metrics).show(k.TLS)
	if config != nil {
		c.Kafka.Dial = kafka.DialTLS(c.Kafka.Dial, config)
	}
	c.Kafka.As.Principal = k.principal
	switch k.SASL.Mechanism {
	case "":
	case oauth:
		from, err := newTokens(k.SASL)
		if err != nil {
			return c, err
		}
		c.Kafka.SASL = &kafka.SASL{Mechanism: oauth, Token: from.token, Extensions: k.SASL.extensions()}
		c.Kafka.As.Principal = func() string { return userNamed(from.subject()) }
	default:
		c.Kafka.SASL = &kafka.SASL{
			Mechanism: k.SASL.Mechanism, User: k.SASL.User, Password: lastGood(k.SASL.password),
		}
	}
	return c, nil
}

// userNamed is a principal; empty if the name is.
func userNamed(name string) string {
	if name == "" {
		return ""
	}
	return "User:" + name
}

// extensions are those of the settings by name.
func (s SASLSettings) extensions() map[string]string {
	all := map[string]string{}
	for _, e := range s.Extensions {
		name, value, _ := strings.Cut(e, "=") // checked
		all[name] = value
	}
	return all
}

// secret reads a file that nobody else may read, without the line break that editors put behind it.
func secret(key, file string) (string, error) {
	text, err := secretfile.Read(key, file)
	if err != nil {
		return "", err
	}
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return "", compute.Invalid(key, file, "give a file with the secret in it: it is empty")
	}
	return trimmed, nil
}

// principal is the name that brokers without rules of their own for it (ssl.principal.mapping.rules) know this process
// by.
func (k KafkaSettings) principal() string {
	switch {
	case k.SASL.Mechanism != "":
		return userNamed(k.SASL.User)
	case k.TLS.Cert != "":
		return k.TLS.principal()
	}
	return "User:ANONYMOUS"
}

// principal is the subject of this process's certificate as Java writes it; empty if it cannot be read.
func (t TLSSettings) principal() string {
	c, err := t.Certificate()
	if err != nil {
		return ""
	}
	var subject pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &subject); err != nil {
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
	c, err := trusted("kafka.tls.ca", t.CA)
	if err != nil || t.Cert == "" {
		return c, err
	}
	if err := clienttls.Show(c, certSetting, t.Cert, t.Key, compute.Unreadable); err != nil {
		return nil, err
	}
	return c, nil
}

// trusted is TLS with the authorities that a setting names.
func trusted(key, authorities string) (*tls.Config, error) {
	if authorities == systemCA {
		authorities = ""
	}
	return clienttls.Config(key, authorities, compute.Unreadable)
}

// lastGood reads a secret, and gives the last one that could be read where it cannot be now: whatever renews a file may
// take it away, or empty it, for a moment.
func lastGood(read func() (string, error)) func() (string, error) {
	var last atomic.Pointer[string]
	return func() (string, error) {
		text, err := read()
		if err == nil {
			last.Store(&text)
			return text, nil
		}
		if known := last.Load(); known != nil {
			return *known, nil
		}
		return "", err
	}
}

// password is without the line break that editors put behind it. The mode of the file is looked at when a process
// starts (check): a running one that could not sign in any more would do more harm.
func (s SASLSettings) password() (string, error) {
	text, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", compute.Unreadable("kafka.sasl.password_file", s.PasswordFile, err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", compute.Invalid("kafka.sasl.password_file", s.PasswordFile, "give a file with the password in it: "+
			"it is empty")
	}
	return password, nil
}

func (t TLSSettings) check() error {
	if t.CA == "" && t.Cert != "" {
		return compute.Invalid(
			certSetting,
			t.Cert,
			fmt.Sprintf("set kafka.tls.ca too, to a PEM file or %q: without it there is no TLS", systemCA),
		)
	}
	if (t.Cert == "") != (t.Key == "") {
		return compute.Invalid("kafka.tls.key", t.Key, "give cert and key, or neither")
	}
	if _, err := t.load(); err != nil || t.Key == "" {
		return err
	}
	return secretfile.Check("kafka.tls.key", t.Key)
}

// given says whether anything but the mechanism is set.
func (s SASLSettings) given() bool {
	return s.User+s.PasswordFile != "" || s.tokensGiven()
}

func (s SASLSettings) tokensGiven() bool {
	return s.TokenFile+s.TokenURL+s.TokenCA+s.ClientID+s.ClientSecretFile != "" || len(s.Scopes)+len(s.Extensions) > 0
}

func (s SASLSettings) check(encrypted bool) error {
	if s.Mechanism == oauth {
		return s.checkTokens(encrypted)
	}
	if s.Mechanism == "" {
		if s.given() {
			return compute.Invalid(
				"kafka.sasl.mechanism",
				"",
				"give one of "+strings.Join(kafka.Mechanisms(), ", ")+", or set nothing else of sasl either",
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
	if s.tokensGiven() {
		errs = append(errs, compute.Invalid("kafka.sasl.mechanism", s.Mechanism, "use OAUTHBEARER with tokens, or set none"))
	}
	if s.User == "" {
		errs = append(errs, compute.Invalid("kafka.sasl.user", "", "name the Kafka user"))
	}
	err := secretfile.Check("kafka.sasl.password_file", s.PasswordFile)
	if err == nil {
		_, err = s.password()
	}
	errs = append(errs, err)
	return errors.Join(errs...)
}
