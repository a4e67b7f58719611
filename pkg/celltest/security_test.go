// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// authority signs certificates for one test, and writes them to files.
type authority struct {
	*tlstest.Authority
	t         *testing.T
	dir, file string
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{Authority: tlstest.New(t, name), t: t, dir: t.TempDir()}
	a.file = tlstest.Write(t, a.dir, name+".crt", a.PEM)
	return a
}

// pair are the files of a certificate.
type pair struct{ cert, key, both string }

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) keep(name string, c tlstest.Issued) pair {
	a.t.Helper()
	return pair{
		cert: tlstest.Write(a.t, a.dir, name+".crt", c.Cert),
		key:  tlstest.Write(a.t, a.dir, name+".key", c.Key),
		both: tlstest.Write(a.t, a.dir, name+".pem", slices.Concat(c.Key, c.Cert)),
	}
}

func (a *authority) client(name string) pair { return a.keep(name, a.Client(name, "")) }

// broker is a certificate that brokers show clients, and each other.
func (a *authority) broker() pair {
	return a.keep("broker", a.Server(func(c *x509.Certificate) {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}))
}

// guarded is a Kafka that talks to strangers on its first port only: the second wants
// a login over TLS, the third wants a certificate.
func guarded(t *testing.T, a *authority) (open, sasl, mutual string) {
	t.Helper()
	ports, err := localkafka.FreePorts(4)
	a.must(err)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	broker := a.broker()
	clients := "PLAINTEXT://" + at(0) + ",GUARDED://" + at(1) + ",MUTUAL://" + at(2)
	kafkatest.StartT(t, localkafka.Options{Properties: map[string]string{
		"listeners":            clients + ",CONTROLLER://" + at(3),
		"advertised.listeners": clients, "controller.quorum.voters": "1@" + at(3),
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,GUARDED:SASL_SSL,MUTUAL:SSL",
		"ssl.keystore.type":              "PEM", "ssl.keystore.location": broker.both,
		"ssl.truststore.type": "PEM", "ssl.truststore.location": a.file,
		"listener.name.mutual.ssl.client.auth": "required",
		"sasl.enabled.mechanisms":              "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		// Kafka's own check of tokens for tests: it looks at their time, and takes those that nobody has signed.
		"listener.name.guarded.oauthbearer.sasl.jaas.config": "" +
			"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required " +
			`unsecuredLoginStringClaim_sub="broker";`,
		"listener.name.guarded.plain.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule ` +
			`required user_berth="pw";`,
		"listener.name.guarded.scram-sha-256.sasl.jaas.config": "" +
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.guarded.scram-sha-512.sasl.jaas.config": "" +
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
	}})
	r := &rig{t: t, kafka: cell.KafkaSettings{Brokers: []string{at(0)}}}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} { // two at once Kafka refuses
		r.kafkaConfigs("--alter --entity-type users --entity-name berth --add-config " + mechanism + "=[password=pw]")
	}
	return at(0), at(1), at(2)
}

// Clients get in with what the settings say, and nobody else does; a client that is refused
// hears why.
func TestKafkaOverTLSAndSASL(t *testing.T) {
	t.Parallel()
	kafkatest.Need(t)
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	_, sasl, mutual := guarded(t, ours)
	mine, stranger := ours.client("agent"), theirs.client("agent")
	password := filepath.Join(t.TempDir(), "password")
	ours.must(os.WriteFile(password, []byte("pw\n"), 0o600))
	wrong := filepath.Join(t.TempDir(), "wrong")
	ours.must(os.WriteFile(wrong, []byte("wp"), 0o600))
	as := func(mechanism, file string) cell.SASLSettings {
		return cell.SASLSettings{Mechanism: mechanism, User: "berth", PasswordFile: file}
	}
	tokenOf := func(text string) cell.SASLSettings {
		return cell.SASLSettings{Mechanism: "OAUTHBEARER", TokenFile: keepSecret(t, text)}
	}
	endpoint := tokenEndpoint(t, ours)
	fresh, over := token(t, "berth", time.Now()), token(t, "berth", time.Now().Add(-2*time.Hour))
	fetched := func(secret string) cell.SASLSettings {
		return cell.SASLSettings{
			Mechanism: "OAUTHBEARER", TokenURL: endpoint, TokenCA: ours.file, ClientID: "cell",
			ClientSecretFile: keepSecret(t, secret), Scopes: []string{"kafka"},
		}
	}
	distrusts := fetched("planted-secret")
	distrusts.TokenCA = theirs.file
	for name, c := range map[string]struct {
		broker string
		tls    cell.TLSSettings
		sasl   cell.SASLSettings
		fails  string // in the error; empty: it gets in
	}{
		"PLAIN":         {sasl, cell.TLSSettings{CA: ours.file}, as("PLAIN", password), ""},
		"SCRAM-SHA-256": {sasl, cell.TLSSettings{CA: ours.file}, as("SCRAM-SHA-256", password), ""},
		"SCRAM-SHA-512": {sasl, cell.TLSSettings{CA: ours.file}, as("SCRAM-SHA-512", password), ""},
		"wrong password": {
			sasl, cell.TLSSettings{CA: ours.file}, as("SCRAM-SHA-512", wrong), "SASL_AUTHENTICATION_FAILED",
		},
		"wrong authority":    {sasl, cell.TLSSettings{CA: theirs.file}, as("PLAIN", password), "unknown authority"},
		"token of a file":    {sasl, cell.TLSSettings{CA: ours.file}, tokenOf(fresh), ""},
		"token that is over": {sasl, cell.TLSSettings{CA: ours.file}, tokenOf(over), "SASL_AUTHENTICATION_FAILED"},
		"no token": {
			sasl, cell.TLSSettings{CA: ours.file}, tokenOf("planted-token"), "SASL_AUTHENTICATION_FAILED",
		},
		"token of a client":   {sasl, cell.TLSSettings{CA: ours.file}, fetched("planted-secret"), ""},
		"token of no client":  {sasl, cell.TLSSettings{CA: ours.file}, fetched("planted-wrong"), "gives no token"},
		"endpoint of another": {sasl, cell.TLSSettings{CA: ours.file}, distrusts, "gives no token"},
		"certificate": {
			mutual, cell.TLSSettings{CA: ours.file, Cert: mine.cert, Key: mine.key}, cell.SASLSettings{}, "",
		},
		"no certificate": {mutual, cell.TLSSettings{CA: ours.file}, cell.SASLSettings{}, "certificate"},
		"another's": {
			mutual, cell.TLSSettings{CA: ours.file, Cert: stranger.cert, Key: stranger.key}, cell.SASLSettings{},
			"certificate",
		},
		"not at all encrypted": {mutual, cell.TLSSettings{}, cell.SASLSettings{}, "does this port want TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := cell.KafkaSettings{Brokers: []string{c.broker}, Prefix: "s.", Partitions: 1, TLS: c.tls, SASL: c.sasl}
			ours.must(k.Check())
			secured, err := cell.New(k, nil, zap.NewNop(), "test").Secured(k)
			ours.must(err)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			said := ""
			err = secured.Await(ctx, func(why string) { // on a busy machine it may first say that time was up
				said += why + "\n"
				if c.fails != "" && strings.Contains(why, c.fails) {
					stop()
				}
			})
			if strings.Contains(said, "planted") {
				t.Errorf("it tells a secret: %s", said)
			}
			if c.fails == "" {
				if err != nil {
					t.Error(err, said)
				}
				return
			}
			if err == nil || !strings.Contains(said, c.fails) {
				t.Errorf("%v, said %q", err, said)
			}
		})
	}
}

func TestSecuritySettings(t *testing.T) {
	a := newAuthority(t, "ca")
	own := a.client("own")
	password := filepath.Join(a.dir, "password")
	a.must(os.WriteFile(password, []byte("pw"), 0o600))
	missing, open, empty := filepath.Join(a.dir, "missing"), filepath.Join(a.dir, "open"), filepath.Join(a.dir, "empty")
	a.must(os.WriteFile(open, []byte("pw"), 0o644))
	a.must(os.WriteFile(empty, []byte("\n"), 0o600))
	const bearer = "tls.ca=system sasl.mechanism=OAUTHBEARER "
	const fetching = bearer + "sasl.token_url="
	client := " sasl.client_id=c sasl.client_secret_file=" + password
	for text, want := range map[string]string{
		"":                         "",
		"tls.ca=system":            "",
		"tls.ca=" + a.file:         "",
		"tls.ca=" + missing:        "kafka.tls.ca",
		"tls.ca=" + own.key:        "kafka.tls.ca",
		"tls.cert=" + own.cert:     "kafka.tls.cert",
		"tls.ca=system tls.cert=x": "kafka.tls.key",
		"tls.ca=system tls.key=x":  "kafka.tls.key",
		"sasl.user=u":              "kafka.sasl.mechanism",
		"sasl.mechanism=NONE":      "kafka.sasl.mechanism kafka.sasl.user kafka.sasl.password_file",
		"sasl.mechanism=PLAIN sasl.user=u sasl.password_file=" + password:               "kafka.sasl.mechanism",
		"tls.ca=system sasl.mechanism=PLAIN sasl.user=u sasl.password_file=" + password: "",
		"sasl.mechanism=SCRAM-SHA-512 sasl.user=u sasl.password_file=" + password:       "",
		"sasl.mechanism=SCRAM-SHA-512 sasl.user=u sasl.password_file=" + missing:        "kafka.sasl.password_file",

		bearer + "sasl.token_file=" + password:                         "",
		"sasl.mechanism=OAUTHBEARER sasl.token_file=" + password:       "kafka.sasl.mechanism",
		"tls.ca=system sasl.mechanism=OAUTHBEARER":                     "kafka.sasl.token_file",
		bearer + "sasl.token_file=" + missing:                          "kafka.sasl.token_file",
		bearer + "sasl.token_file=" + open:                             "kafka.sasl.token_file",
		bearer + "sasl.token_file=" + empty:                            "kafka.sasl.token_file",
		"sasl.token_file=x":                                            "kafka.sasl.mechanism",
		bearer + "sasl.user=u sasl.token_file=" + password:             "kafka.sasl.user",
		bearer + "sasl.client_id=c sasl.token_file=" + password:        "kafka.sasl.client_id",
		bearer + "sasl.extensions=x sasl.token_file=" + password:       "kafka.sasl.extensions",
		bearer + "sasl.extensions=x=y,a=b sasl.token_file=" + password: "",
		fetching + "https://id.example" + client:                       "",
		fetching + "http://localhost:1/t" + client:                     "",
		fetching + "https://id.example sasl.token_file=x" + client:     "kafka.sasl.token_file",
		fetching + "http://id.example" + client:                        "kafka.sasl.token_url",
		fetching + "https://u:planted@id.example" + client:             "kafka.sasl.token_url",
		fetching + "https://id.example":                                "kafka.sasl.client_id kafka.sasl.client_secret_file",

		"tls.ca=system sasl.mechanism=PLAIN sasl.user=u sasl.token_file=x sasl.password_file=" + password: "" +
			"kafka.sasl.mechanism",
		fetching + "https://id.example sasl.client_id=c sasl.token_ca=" + missing + " sasl.client_secret_file=" + open: "" +
			"kafka.sasl.client_secret_file kafka.sasl.token_ca",

		"tls.ca=system tls.cert=" + own.cert + " tls.key=" + own.key: "",
		"tls.ca=system tls.cert=" + own.cert + " tls.key=" + missing: "kafka.tls.cert",
	} {
		var from config.From
		for _, s := range strings.Fields(text) {
			from.Set = append(from.Set, "kafka."+s)
		}
		section := struct {
			Kafka cell.KafkaSettings `yaml:"kafka"`
		}{cell.DefaultKafka()}
		err := config.Load(&section, from).Err(section.Kafka.Check())
		var keys []string
		for _, problem := range config.All(err) {
			keys = append(keys, strings.Fields(problem.Error())[0])
			if compute.KindOf(problem) != compute.KindInvalid || strings.Contains(problem.Error(), "planted") {
				t.Errorf("%s: %v", text, problem)
			}
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s: complains of %q, should of %q: %v", text, got, want, err)
		}
	}
}

// token is a JWT that nobody has signed; id is that of the token.
func token(t *testing.T, subject string, begins time.Time, id ...string) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	claims := map[string]any{"sub": subject, "iat": begins.Unix(), "exp": begins.Add(time.Hour).Unix(), "jti": id}
	return part(map[string]string{"alg": "none"}) + "." + part(claims) + "."
}

// keepSecret writes a secret to a file of its own.
func keepSecret(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tokenEndpoint gives tokens to one client, with these ids.
func tokenEndpoint(t *testing.T, a *authority, id ...string) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, secret, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if client != "cell" || secret != "planted-secret" || r.FormValue("grant_type") != "client_credentials" ||
			r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(
				w, `{"error": "invalid_client", "error_description": "not %s"}`, secret+r.FormValue("client_secret"),
			)
			return
		}
		given := token(t, "berth", time.Now(), id...)
		_, _ = fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 3600}`, given)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.Server().Pair(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}
