// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/loopback"
)

// tokens are where a process has the tokens from that it signs in with by OAUTHBEARER: a file that something else
// keeps fresh, or a token endpoint, as the client that the settings name (client credentials).
type tokens struct {
	file   func() (string, error)
	source oauth2.TokenSource     // of an endpoint; nil: the file
	last   atomic.Pointer[string] // the subject of the last one
}

// fetchTime is how long a token endpoint may take.
const fetchTime = 10 * time.Second

func newTokens(s SASLSettings) (*tokens, error) {
	t := &tokens{file: lastGood(func() (string, error) { return secret("kafka.sasl.token_file", s.TokenFile) })}
	if s.TokenURL == "" {
		return t, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if s.TokenCA != "" {
		config, err := trusted("kafka.sasl.token_ca", s.TokenCA)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	// Without pings a connection whose path has gone silent would be used again and again.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: fetchTime, PingTimeout: fetchTime}
	caller := &http.Client{Timeout: fetchTime, Transport: transport, CheckRedirect: noRedirect}
	t.source = oauth2.ReuseTokenSource(nil, &endpoint{
		s: s, caller: context.WithValue(context.Background(), oauth2.HTTPClient, caller),
		asks: clientcredentials.Config{ClientID: s.ClientID, TokenURL: s.TokenURL, Scopes: s.Scopes},
	})
	return t, nil
}

// noRedirect keeps a client's secret at the endpoint that the settings name.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// token is the one to sign in with now. It is asked for every connection; an endpoint is asked for a new one only
// shortly before the last one ends.
func (t *tokens) token() (text string, err error) {
	if t.source == nil {
		text, err = t.file()
	} else {
		var given *oauth2.Token
		if given, err = t.source.Token(); err == nil {
			text = given.AccessToken
		}
	}
	if err != nil {
		return "", err
	}
	subject := subjectOf(text)
	t.last.Store(&subject)
	return text, nil
}

// subject is the user that brokers take the last token for, empty if that is not known.
func (t *tokens) subject() string {
	if last := t.last.Load(); last != nil {
		return *last
	}
	return ""
}

// endpoint asks a token endpoint. One goroutine at a time uses it.
type endpoint struct {
	s      SASLSettings
	caller context.Context // has the HTTP client, as x/oauth2 wants it
	asks   clientcredentials.Config
}

// Token fetches one. The secret is read each time, so that it may be changed.
func (e *endpoint) Token() (token *oauth2.Token, err error) {
	if e.asks.ClientSecret, err = secret("kafka.sasl.client_secret_file", e.s.ClientSecretFile); err != nil {
		return nil, err
	}
	token, err = e.asks.Token(e.caller)
	if err == nil {
		return token, nil
	}
	refused := &compute.Error{
		Op: "fetch a token for Kafka", Kind: compute.KindUnavailable, Field: "kafka.sasl.token_url", Value: e.s.TokenURL,
		Message: "gives no token", Remedy: "check client_id, client_secret_file and scopes, and the endpoint's log",
	}
	var answer *oauth2.RetrieveError
	var unreachable *url.Error
	switch { // the body of an answer may hold anything, and is not for a log
	case errors.As(err, &answer):
		refused.Cause = fmt.Errorf("%s %.80s", answer.Response.Status, answer.ErrorCode)
		// Others have a code of OAuth, or it is not the endpoint that refuses: a proxy that does not know it now, say.
		code := answer.Response.StatusCode
		if code == http.StatusUnauthorized ||
			code/100 == 4 && code != http.StatusTooManyRequests && answer.ErrorCode != "" {
			refused.Kind = compute.KindForbidden
		}
	case errors.As(err, &unreachable):
		refused.Cause = unreachable.Err
	default:
		refused.Cause = errors.New("the answer is no token")
	}
	return nil, refused
}

// subjectOf is the claim "sub" of a JWT, which brokers make the principal of unless they are told otherwise. Nothing is
// checked: it is for messages alone. Empty: the token is none.
func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Subject string `json:"sub"`
	}
	if err != nil || json.Unmarshal(body, &claims) != nil {
		return ""
	}
	return claims.Subject
}

// checkTokens refuses settings for OAUTHBEARER that cannot be.
func (s SASLSettings) checkTokens(encrypted bool) error {
	var errs []error
	if s.User+s.PasswordFile != "" {
		const remedy = "leave user and password_file empty: the token names the user"
		errs = append(errs, compute.Invalid("kafka.sasl.user", s.User, remedy))
	}
	if !encrypted {
		const remedy = "it sends the token as it is: set kafka.tls.ca too"
		errs = append(errs, compute.Invalid("kafka.sasl.mechanism", s.Mechanism, remedy))
	}
	for _, e := range s.Extensions {
		if name, value, ok := strings.Cut(e, "="); !ok || name == "" || value == "" || strings.Contains(e, "\x01") {
			errs = append(errs, compute.Invalid("kafka.sasl.extensions", e, "give NAME=VALUE, as in logicalCluster=lkc-1"))
		}
	}
	switch {
	case (s.TokenFile == "") == (s.TokenURL == ""):
		errs = append(errs, compute.Invalid("kafka.sasl.token_file", s.TokenFile, "give either token_file or token_url"))
	case s.TokenFile != "":
		_, err := secret("kafka.sasl.token_file", s.TokenFile)
		errs = append(errs, err, s.checkNoEndpoint())
	default:
		errs = append(errs, s.checkEndpoint())
	}
	return errors.Join(errs...)
}

func (s SASLSettings) checkEndpoint() error {
	var errs []error
	at, err := url.Parse(s.TokenURL)
	if err != nil || at.Host == "" || at.User != nil || !loopback.OrHTTPS(at) {
		const remedy = "give an https URL without a user: a secret is sent there"
		errs = append(errs, compute.Invalid("kafka.sasl.token_url", redacted(s.TokenURL, at), remedy))
	}
	if s.ClientID == "" {
		errs = append(errs, compute.Invalid("kafka.sasl.client_id", "", "name the client that the token endpoint knows"))
	}
	_, err = secret("kafka.sasl.client_secret_file", s.ClientSecretFile)
	if errs = append(errs, err); s.TokenCA != "" {
		_, err := trusted("kafka.sasl.token_ca", s.TokenCA)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s SASLSettings) checkNoEndpoint() error {
	if s.ClientID+s.ClientSecretFile+s.TokenCA != "" || len(s.Scopes) > 0 {
		return compute.Invalid("kafka.sasl.client_id", s.ClientID,
			"with token_file leave client_id, client_secret_file, token_ca and scopes empty")
	}
	return nil
}

// redacted is a URL without a password in it.
func redacted(text string, at *url.URL) string {
	if at == nil {
		return "(not a URL)"
	}
	if at.User != nil {
		return at.Redacted()
	}
	return text
}
