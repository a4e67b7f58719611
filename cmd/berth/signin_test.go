// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	zitadel "github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// issuer is a real OpenID provider, with a person who confirms or refuses at once.
type issuer struct {
	*storage.Storage
	*httptest.Server
	refuses atomic.Bool
	life    atomic.Int64 // of a token, in seconds
}

func newIssuer(t *testing.T, authority *tlstest.Authority) *issuer {
	t.Helper()
	i := &issuer{Storage: storage.NewStorageWithClients(onlyAlice{}, map[string]*storage.Client{
		"berth": storage.DeviceClient("berth", ""),
	})}
	i.Server = httptest.NewUnstartedServer(nil)
	provider, err := op.NewProvider(&op.Config{
		CryptoKey: sha256.Sum256([]byte("test")), GrantTypeRefreshToken: true,
		DeviceAuthorization: op.DeviceAuthorizationConfig{
			Lifetime: time.Minute, PollInterval: time.Second, UserFormPath: "/device", UserCode: op.UserCodeBase20,
		},
	}, i, op.StaticIssuer("https://"+i.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	i.Config.Handler = provider
	i.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server().Pair(t)}}
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

// StoreDeviceAuthorization is where a person hears of the code.
func (i *issuer) StoreDeviceAuthorization(
	ctx context.Context, client, device, code string, expires time.Time, scopes []string,
) error {
	if err := i.Storage.StoreDeviceAuthorization(ctx, client, device, code, expires, scopes); err != nil {
		return err
	}
	if i.refuses.Load() {
		return i.DenyDeviceAuthorization(ctx, code)
	}
	return i.CompleteDeviceAuthorization(ctx, code, "alice")
}

// GetClientByClientID makes the client one without a secret, as a command line is.
func (i *issuer) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := i.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return publicClient{c, time.Duration(i.life.Load()) * time.Second}, nil
}

// TokenRequestByRefreshToken says for which client a refresh token is: the example storage forgets it
// in the device flow.
func (i *issuer) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := i.Storage.TokenRequestByRefreshToken(ctx, token)
	return ofBerth{r}, err
}

type ofBerth struct{ op.RefreshTokenRequest }

func (ofBerth) GetClientID() string   { return "berth" }
func (ofBerth) GetAudience() []string { return []string{"berth"} }

type publicClient struct {
	op.Client
	life time.Duration
}

func (publicClient) AuthMethod() zitadel.AuthMethod       { return zitadel.AuthMethodNone }
func (publicClient) IDTokenUserinfoClaimsAssertion() bool { return true }
func (c publicClient) IDTokenLifetime() time.Duration     { return c.life }
func (publicClient) GrantTypes() []zitadel.GrantType {
	return []zitadel.GrantType{zitadel.GrantTypeDeviceCode, zitadel.GrantTypeRefreshToken}
}

type onlyAlice struct{}

func (onlyAlice) GetUserByID(string) *storage.User       { return alice() }
func (onlyAlice) GetUserByUsername(string) *storage.User { return alice() }
func (onlyAlice) ExampleClientID() string                { return "berth" }

func alice() *storage.User {
	return &storage.User{ID: "alice", Username: "alice", Email: "alice@example.org", EmailVerified: true}
}

// settingsOf is the file of an API node with TLS, certificates and an issuer.
const settingsOf = `
kafka: {brokers: [%q]}
listen: %q
tls: {cert: %q, key: %q, client_ca: %q}
auth:
  oidc:
    - issuer: %q
      audience: berth
      username_claim: email
      ca: %[5]q
      projects:
        - {claim: email, value: alice@example.org, project: a, role: member}
        - {claim: email, value: bob@example.org, project: b, role: member}
  certificates:
    - {common_name: ops, cell: operator}
`

// TestSignIn is a cell in which people sign in at a real issuer, in a browser, and machines by their
// certificates; all over TLS.
func TestSignIn(t *testing.T) {
	authority, dir, home := tlstest.New(t, "ours"), t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	i := newIssuer(t, authority)
	i.life.Store(3600)
	ca := tlstest.Write(t, dir, "ca.pem", authority.PEM)
	cert, key := authority.Server().Files(t, dir)
	ops, opsKey := authority.Client("ops", "").Files(t, t.TempDir())
	listen := freeAddress(t)
	config := tlstest.Write(t, dir, "api.yaml", fmt.Appendf(nil, settingsOf,
		kafkatest.Embedded(t).Addrs[0], listen, cert, key, ca, i.URL))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		defer close(ended) // it is awaited below, too
		code, _, errs := typed(ctx, []string{"api", "--config", config}, newAPIDaemon())
		ended <- fmt.Sprint(code, errs)
	}()
	defer func() { cancel(); <-ended }()
	awaitReady(t, authority.Pool(), listen, ended)

	api := []string{"--api", "https://" + listen, "--ca", ca}
	does := func(want int, say string, args ...string) {
		t.Helper()
		code, out, errs := typed(ctx, append(args, api...))
		for lost := time.Now().Add(soonEnough); comesBack(code, errs) && time.Now().Before(lost); {
			code, out, errs = typed(ctx, append(args, api...)) // an issuer that was slow is not asked again at once
		}
		if code != want || !strings.Contains(out+errs, say) {
			t.Errorf("berth %s: %d, want %d and %q\n%s%s", strings.Join(args, " "), code, want, say, out, errs)
		}
	}
	login := []string{"login", "--issuer", i.URL, "--client-id", "berth", "--issuer-ca", ca}
	does(6, "does not say who calls", "list")
	does(0, "operator of the cell", "whoami", "--cert", ops, "--cert-key", opsKey)
	does(0, "oidc:alice@example.org, member of a", login...)
	does(0, "oidc:alice@example.org", "whoami")
	does(0, "", "list", "--project", "a")
	does(6, "", "list", "--project", "b")
	does(6, "", "host", "list")
	for _, file := range []string{"token", "session.json"} {
		if info, err := os.Stat(filepath.Join(home, "berth", file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info, err)
		}
	}

	t.Chdir(dir)
	i.life.Store(30) // it is renewed with the next command
	does(0, "member of a", "login", "--issuer", i.URL, "--client-id", "berth", "--issuer-ca", "ca.pem")
	short := kept(t, home)
	i.life.Store(3600)
	t.Chdir(t.TempDir()) // the file of authorities was named from another folder, and is found all the same
	does(0, "oidc:alice@example.org", "whoami")
	if renewed := kept(t, home); renewed == short {
		t.Error("a token that expires in half a minute was not renewed")
	}
	i.refuses.Store(true)
	does(6, "was told no in the browser", login...)

	i.Close() // what counts goes on counting
	does(0, "oidc:alice@example.org", "whoami")
	does(0, "is gone", "logout")
	does(6, "does not say who calls", "whoami")
	if left, _ := filepath.Glob(filepath.Join(home, "berth", "*")); len(left) > 0 {
		t.Errorf("left after logout: %v", left)
	}
}

func kept(t *testing.T, home string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "berth", "token"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ports, err := localkafka.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}

// awaitReady waits until a node is ready, or has ended.
func awaitReady(t *testing.T, trusted *x509.CertPool, address string, ended <-chan string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted}, DisableKeepAlives: true,
	}}
	lost, again := time.After(soonEnough), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		resp, err := client.Get("https://" + address + "/readyz")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.Body.Close(); resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case why := <-ended:
			t.Fatal(why)
		case <-lost:
			t.Fatalf("%s is not ready: %v", address, err)
		case <-again.C:
		}
	}
}
