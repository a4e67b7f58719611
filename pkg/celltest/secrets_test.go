// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// planted are secrets: what each is, and bytes that only it has.
type planted map[string][]byte

// text is a secret of letters.
func (p planted) text(what string) string {
	text := hex.EncodeToString(p.random(what, 16))
	p[what] = []byte(text)
	return text
}

func (p planted) random(what string, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	p[what] = b
	return b
}

// shapes are how bytes may be written. Each half of a long secret is looked for too: a message may have been cut, and a
// file in PEM form is broken into lines.
func shapes(secret []byte) map[string]string {
	out := map[string]string{}
	parts := map[string][]byte{"": secret}
	if n := len(secret); n >= 24 {
		parts["begin of "], parts["end of "] = secret[:n/2], secret[n/2:]
	}
	for half, b := range parts {
		numbers := strings.Trim(fmt.Sprint(b), "[]")
		for shape, text := range map[string]string{
			"raw": string(b), "hex": hex.EncodeToString(b), "HEX": strings.ToUpper(hex.EncodeToString(b)),
			"URL-escaped": url.QueryEscape(string(b)), "quoted": strings.Trim(strconv.Quote(string(b)), `"`),
			"numbers": numbers, "numbers with commas": strings.ReplaceAll(numbers, " ", ","),
		} {
			out[half+shape] = text
		}
		for name, enc := range map[string]*base64.Encoding{
			"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding,
		} {
			for before := range 3 { // bytes that are none of the secret's
				all := append(make([]byte, before), b...)
				text := enc.EncodeToString(all)
				out[fmt.Sprint(half, name, before)] = text[(before*8+5)/6 : len(all)*8/6]
			}
		}
	}
	return out
}

// in says which secrets are in a text.
func (p planted) in(text string) (found []string) {
	for what, secret := range p {
		for shape, needle := range shapes(secret) {
			if at := strings.Index(text, needle); at >= 0 {
				around := text[max(0, at-150):min(len(text), at+len(needle)+50)]
				found = append(found, fmt.Sprintf("%s (%s): %q", what, shape, around))
				break
			}
		}
	}
	return found
}

// secretCell is a cell with every kind of secret, and all that it says.
type secretCell struct {
	*rig
	planted planted
	ours    *authority
	broker  string // where they sign in
	mutual  string // where they show a certificate
	said    map[string]string
	daemons []*process
	faces   []string // base URLs
	http    *http.Client
	admin   string // a token
	issuer  *httptest.Server
	key     *ecdsa.PrivateKey // of the issuer
	refused *topicLog
}

func newSecretCell(t *testing.T) *secretCell {
	kafkatest.Need(t)
	var limit syscall.Rlimit
	c := &secretCell{planted: planted{}, ours: newAuthority(t, "ours"), said: map[string]string{}}
	c.ours.must(syscall.Getrlimit(syscall.RLIMIT_CORE, &limit))
	limit.Cur = 0 // as the units have it
	c.ours.must(syscall.Setrlimit(syscall.RLIMIT_CORE, &limit))
	open, broker, mutual := guarded(t, c.ours)
	c.broker, c.mutual = broker, mutual
	for _, u := range []string{"api", "stranger"} {
		password := c.planted.text("SASL password of " + u)
		c.keeps("password-of-"+u, password)
		if u == "api" {
			c.ours.must(kafkatest.AddUsers(t.Context(), []string{open}, kafkatest.User{Name: u, Password: password}))
		}
	}
	c.rig = newRig(t, kafkatest.Broker{Addrs: []string{open}, Prefix: "s.", Real: true})
	c.env = []string{"GOTRACEBACK=crash"}
	c.refused = c.topicLog(c.cell("").Topics().Rejected())
	c.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: c.ours.Pool()}, DisableKeepAlives: true,
	}}
	c.issuer = c.newIssuer()
	return c
}

// keeps writes a file of secrets.
func (c *secretCell) keeps(name, text string) string {
	file := filepath.Join(c.ours.dir, name)
	c.ours.must(os.WriteFile(file, []byte(text+"\n"), 0o600))
	return file
}

// plantKey makes a private key known as a secret.
func (c *secretCell) plantKey(what, file string) {
	text, err := os.ReadFile(file)
	c.must(err)
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	c.must(err)
	c.planted[what], err = key.(*ecdsa.PrivateKey).Bytes()
	c.must(err)
}

// newIssuer is an issuer of tokens for people.
func (c *secretCell) newIssuer() *httptest.Server {
	pair := c.ours.client("issuer")
	c.plantKey("key of the issuer", pair.key)
	text, err := os.ReadFile(pair.key)
	c.must(err)
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	c.must(err)
	c.key = key.(*ecdsa.PrivateKey)
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	c.t.Cleanup(s.Close)
	tells := func(path string, what any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(what) })
	}
	tells("/.well-known/openid-configuration", map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys"})
	tells("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &c.key.PublicKey, KeyID: "k", Use: "sig"}}})
	return s
}

// jwt is a token of the issuer.
func (c *secretCell) jwt(what string, expires time.Time) string {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: c.key, KeyID: "k"}}, nil,
	)
	c.must(err)
	data, err := json.Marshal(map[string]any{
		"iss": c.issuer.URL, "aud": "berth", "sub": "alice", "iat": time.Now().Add(-time.Hour).Unix(),
		"exp": expires.Unix(), "jti": c.planted.text(what + ", its id"),
	})
	c.must(err)
	signed, err := signer.Sign(data)
	c.must(err)
	text, err := signed.CompactSerialize()
	c.must(err)
	c.planted[what] = []byte(text[strings.LastIndex(text, ".")+1:])
	return text
}

// through is a section about Kafka.
func (c *secretCell) through(sasl map[string]any) map[string]any {
	return map[string]any{
		"brokers": []string{c.broker}, "prefix": c.kafka.Prefix, "partitions": c.kafka.Partitions,
		"tls": map[string]any{"ca": c.ours.file}, "sasl": sasl,
	}
}

func (c *secretCell) passwordOf(user string) map[string]any {
	return c.through(map[string]any{
		"mechanism": "SCRAM-SHA-256", "user": user, "password_file": filepath.Join(c.ours.dir, "password-of-"+user),
	})
}

func (c *secretCell) tokenIn(name, text string) map[string]any {
	return c.through(map[string]any{"mechanism": "OAUTHBEARER", "token_file": c.keeps(name, text)})
}

func (c *secretCell) clientWith(endpoint, name, secret string) map[string]any {
	return c.through(map[string]any{
		"mechanism": "OAUTHBEARER", "token_url": endpoint, "token_ca": c.ours.file, "client_id": "cell",
		"client_secret_file": c.keeps(name, secret), "scopes": []string{"kafka"},
	})
}

// daemon starts one that says all it can, and waits for its word.
func (c *secretCell) daemon(name, kind, word string, settings map[string]any) {
	address := freeAddress(c.t)
	settings["log"] = map[string]any{"level": "debug"}
	face := "http://" + address
	if kind == "api" {
		settings["listen"], face = address, "https://"+address
		c.api = face
	} else {
		settings["status"] = map[string]any{"listen": address}
	}
	p := c.begun(name, kind, settings)
	c.daemons, c.faces = append(c.daemons, p), append(c.faces, face)
	p.says(word)
}

// start starts a cell in which each daemon has another way to sign in, and daemons that are refused.
func (c *secretCell) start() {
	p := c.planted
	const endpointsSecret = "planted-secret"
	p["client secret"] = []byte(endpointsSecret)
	endpoint := tokenEndpoint(c.t, c.ours, p.text("token of the endpoint"))
	master := c.planted.random("master", 32)
	masters := c.keeps("masters", hex.EncodeToString(master))
	hosts := map[string]any{"trust": "keys", "masters": masters}
	line := hostkey.NewMaster([32]byte(master)).Derive("h1").Line()
	key, err := hex.DecodeString(strings.Fields(line)[2])
	c.must(err)
	p["host key"] = key
	seals := map[string]any{
		"keys": c.keeps("user-data-keys", hex.EncodeToString(c.planted.random("key of user data", 32))),
	}

	c.daemon("queues", "queues", "ready", map[string]any{
		"kafka": c.tokenIn("token", token(c.t, "berth", time.Now(), p.text("token in a file"))), "hosts": hosts,
	})
	c.daemon("conductor", "conductor", "ready", map[string]any{
		"kafka": c.clientWith(endpoint, "client-secret", endpointsSecret), "hosts": hosts,
	})
	node := c.ours.keep("server", c.ours.Server())
	c.plantKey("key of the API node", node.key)
	c.daemon("api", "api", "ready", map[string]any{
		"kafka": c.passwordOf("api"), "user_data": seals, "tls": map[string]any{"cert": node.cert, "key": node.key},
		"auth": map[string]any{"tokens": true, "oidc": []any{map[string]any{
			"issuer": c.issuer.URL, "audience": "berth",
			"projects": []any{map[string]any{"claim": "sub", "value": "alice", "project": "p", "role": "member"}},
		}}},
		"fence": map[string]any{"command": []string{"sh", "-c", "exit 1", "fence"}},
	})
	own := c.ours.client("agent")
	c.plantKey("key of the agent", own.key)
	c.daemon("agent", "agent", "ready", map[string]any{
		"kafka": map[string]any{
			"brokers": []string{c.mutual}, "prefix": c.kafka.Prefix, "partitions": c.kafka.Partitions,
			"tls": map[string]any{"ca": c.ours.file, "cert": own.cert, "key": own.key},
		},
		"host": "h1", "host_key_file": c.keeps("host.key", line), "user_data": seals, "state": filepath.Join(c.data, "agent"),
		"driver": map[string]any{"fake": map[string]any{"world": filepath.Join(c.data, "world")}},
	})

	const refused = "SASL_AUTHENTICATION_FAILED"
	c.daemon("wrong-password", "conductor", refused, map[string]any{"kafka": c.passwordOf("stranger")})
	over := token(c.t, "berth", time.Now().Add(-2*time.Hour), p.text("expired token in a file"))
	c.daemon("wrong-token", "conductor", refused, map[string]any{"kafka": c.tokenIn("expired", over)})
	c.daemon("wrong-secret", "queues", "gives no token", map[string]any{
		"kafka": c.clientWith(endpoint, "wrong-secret", p.text("wrong client secret")),
	})
}

// types runs a command, as somebody with this token, and keeps what it says.
func (c *secretCell) types(token string, args ...string) (stdout string) {
	_, stdout = c.runs(token, args...)
	return stdout
}

// does types a command again while a node with much to do answers that it cannot be done now, or not at all (1 and 7).
func (c *secretCell) does(token string, args ...string) {
	c.poll("berth "+strings.Join(args, " "), func() bool {
		code, _ := c.runs(token, args...)
		return code != 1 && code != 7
	})
}

func (c *secretCell) runs(token string, args ...string) (code int, stdout string) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(c.t.Context(), berth(c.t), args...)
	cmd.Env = append(append(os.Environ(), c.env...),
		"BERTH_API="+c.api, "BERTH_CA_FILE="+c.ours.file, "BERTH_TOKEN="+token, "BERTH_PROJECT=p",
	)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	c.said["berth "+strings.Join(args, " ")] += out.String() + errs.String()
	return cmd.ProcessState.ExitCode(), out.String()
}

// secretOf is what of an API token is secret.
func secretOf(token string) []byte { return []byte(token[strings.LastIndex(token, "_")+1:]) }

// use boots a machine with secrets and looks at it in all ways.
func (c *secretCell) use() {
	config := filepath.Join(c.data, "api.yaml")
	code, out, errs := reaches(c.t, "token", "bootstrap", "--config", config)
	if code != 0 {
		c.t.Fatalf("exit %d %s", code, errs)
	}
	c.admin = strings.TrimSpace(out)
	c.planted["first token"] = secretOf(c.admin)
	admin := c.client(client.Config{Token: c.admin, TLS: client.TLS{CA: c.ours.file}, Project: "p"})
	c.poll("the first token counts", func() bool { _, err := admin.Whoami(c.t.Context()); return err == nil })
	made := answered(c.rig, func() (client.NewToken, error) {
		return admin.CreateToken(c.t.Context(), client.TokenWish{Role: compute.RoleMember, Project: "p", Name: "ci"})
	})
	c.planted["token of a member"] = secretOf(made.Secret)
	c.poll("the host is there", func() bool { _, err := admin.Host(c.t.Context(), "h1"); return err == nil })
	c.offer(admin, nil, []compute.Flavor{small("m1.small")})

	data := c.keeps("user-data", "#cloud-config\npassword: "+c.planted.text("user data"))
	public := c.planted.random("SSH key", 32)
	blob := append([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"), public...)
	key := c.keeps("id.pub", "ssh-ed25519 "+base64.StdEncoding.EncodeToString(blob)+" me")
	c.does(made.Secret, "boot", "--flavor", "m1.small", "--name", "web", "--wait", "--user-data", data, "--ssh-key", key,
		"--key", "web")
	person := c.jwt("token of a person", time.Now().Add(time.Hour))
	for _, as := range []string{made.Secret, c.admin, person} {
		for _, line := range []string{
			"list -o json", "list -o wide", "list --all -o yaml", "whoami", "token list -o json", "host list -o json",
			"host show h1 -o json", "host instances h1 -o json", "queue list -o json", "quota show -o json",
			"flavor list -o json",
		} {
			if line == "list -o json" {
				c.does(as, strings.Fields(line)...)
				continue
			}
			c.types(as, strings.Fields(line)...)
		}
	}
	if listed := c.said["berth list -o json"]; strings.Count(listed, `"web"`) != 3 {
		c.t.Errorf("the machine is not in every list: %s", listed)
	}
}

// asks sends a request and keeps the answer.
func (c *secretCell) asks(what, method, token, path, body string) int {
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.api+path, strings.NewReader(body))
	c.must(err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	cookie := fmt.Sprintf("cookie %d", len(c.planted)) // of this very request
	req.Header.Set("Cookie", "session="+c.planted.text(cookie))
	resp, err := c.http.Do(req)
	c.must(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	c.must(err)
	c.said[method+" "+what] += fmt.Sprint(resp.Status, resp.Header, string(answer))
	return resp.StatusCode
}

// asksUntilRefused is asks, until the node can say why.
func (c *secretCell) asksUntilRefused(what, method, token, path, body string) (code int) {
	c.poll("a request is refused", func() bool {
		code = c.asks(what, method, token, path, body)
		return !comeAgain(code)
	})
	return code
}

// refusals are requests that are refused, each with a secret in it.
func (c *secretCell) refusals() {
	p := c.planted
	forged, _, _ := auth.NewToken()
	p["forged token"] = secretOf(forged)
	for what, token := range map[string]string{
		"forged token": forged, "cut token": forged[:len(forged)-3], "no token": "berth_" + p.text("no token"),
		"expired token of a person": c.jwt("expired token of a person", time.Now().Add(-10*time.Minute)),
		"token of nobody":           token(c.t, "alice", time.Now(), p.text("unsigned token")),
	} {
		c.types(token, "list")
		if code := c.asksUntilRefused(what, http.MethodGet, token, "/v1/instances", ""); code != http.StatusUnauthorized {
			c.t.Errorf("%s: %d", what, code)
		}
	}
	in64 := func(what string) string { return base64.StdEncoding.EncodeToString([]byte("pw: " + p.text(what))) }
	for what, body := range map[string]string{
		"a body that breaks off":  `{"flavor": "m1.small", "user_data": "` + in64("user data of half a body"),
		"user data in the clear":  `{"flavor": "m1.small", "user_data": "#cloud-config ` + p.text("user data in the clear") + `"}`,
		"a slip in a name":        `{"flavor": "m1.small", "userdata": "` + in64("user data under another name") + `"}`,
		"user data as a list":     `{"flavor": "m1.small", "user_data": ["` + in64("user data as a list") + `"]}`,
		"no such flavor":          `{"flavor": "m1.none", "user_data": "` + in64("user data of no flavor") + `"}`,
		"a private key":           `{"flavor": "m1.small", "ssh_keys": ["-----BEGIN OPENSSH PRIVATE KEY----- ` + p.text("private key") + `"]}`,
		"too much user data":      `{"flavor": "m1.small", "user_data": "` + strings.Repeat(in64("long user data"), 8_000) + `"}`,
		"a body that is no JSON":  `password=` + p.text("body that is no JSON"),
		"user data as the flavor": `{"flavor": {"user_data": "` + in64("user data in the flavor") + `"}}`,
	} {
		if code := c.asksUntilRefused(what, http.MethodPost, c.admin, "/v1/instances?project=p", body); code/100 != 4 {
			c.t.Errorf("%s: %d", what, code)
		}
	}
	c.asks("token in the query", http.MethodGet, "", "/v1/instances?access_token="+forged, "")
	c.asks("token in the query of one who may", http.MethodGet, c.admin, "/v1/instances?access_token="+forged, "")
	c.asks("password in a path", http.MethodGet, c.admin, "/v1/tokens/"+forged, "")
	c.asks("token revoked by itself", http.MethodDelete, c.admin, "/v1/tokens/"+forged, "")
	c.asks("fence that fails", http.MethodPost, c.admin, "/v1/hosts/h1/evacuate", `{}`)
}

// publishers write what makes no sense, with secrets in it, wherever user data goes.
func (c *secretCell) publishers() {
	topics := c.cell("").Topics()
	boot := compute.Request{
		Op: compute.OpBoot, Project: "p", Instance: wire.KeyedInstance("p", "planted"), At: time.Now().UTC(),
		Boot: &compute.Boot{Flavor: "m1.small", UserData: compute.UserData("pw: " + c.planted.text("user data of a publisher"))},
	}
	elsewhere := (wire.Partition("p", c.kafka.Partitions) + 1) % c.kafka.Partitions
	rubbish := func(what string) wire.Record {
		return wire.Record{Key: []byte("p"), Value: []byte("#cloud-config " + c.planted.text("rubbish on "+what))}
	}
	nameless := boot
	nameless.Boot = &compute.Boot{UserData: compute.UserData("pw: " + c.planted.text("user data without a flavor"))}
	thrown := []wire.Record{
		wire.EncodeRequest(boot).To(topics.Requests(), elsewhere),
		wire.EncodeRequest(nameless).To(topics.Requests(), wire.Partition("p", c.kafka.Partitions)),
		rubbish("requests").To(topics.Requests(), 0),
		rubbish("a host").To(topics.Host("h1"), 0),
		rubbish("a queue").To(topics.Build("m1.small"), 0),
	}
	c.send(thrown...)
	c.does(c.admin, "boot", "--flavor", "m1.small", "--wait") // the host looks into the queue
	c.poll("all is rejected", func() bool { return len(c.refused.all()) >= len(thrown) })
}

// commands are those of an operator, with settings as they are and with slips.
func (c *secretCell) commands() {
	for _, p := range c.daemons {
		config, kind := filepath.Join(c.data, p.name+".yaml"), p.cmd.Args[1]
		c.types("", "config", "show", kind, "--config", config)
		c.types("", "config", "show", kind, "--config", config, "-o", "json")
		c.types("", "config", "check", kind, "--config", config)
		if !strings.HasPrefix(p.name, "wrong-") || p.name == "wrong-password" { // the others wait as long, and say as much
			c.types("", "doctor", "--config", config)
		}
	}
	config := filepath.Join(c.data, "api.yaml")
	c.poll("the doctor gets in", func() bool { // a busy broker may let it wait for too long
		return strings.Contains(c.types("", "doctor", "--config", config), "brokers")
	})
	c.types("", "verify", "--config", config, "--timeout", "10s")
	slip := c.keeps("slip.yaml",
		`kafka: {brokers: [k:9092], sasl: {password: `+c.planted.text("password in the settings")+"}}\n"+
			"token: "+c.planted.text("token in the settings")+"\n")
	c.types("", "config", "check", "api", "--config", slip)
	c.types("", "config", "show", "api", "--config", slip)
	c.env = append(c.env, "BERTH_KAFKA_SASL_PASSWORD="+c.planted.text("password in the environment"))
	c.types("", "config", "show", "api", "--config", config)
	garbage := c.keeps("garbage", c.planted.text("file of rubbish"))
	for setting, kind := range map[string]string{
		"hosts.masters": "conductor", "publish.masters": "conductor", "publish_key_file": "api", "user_data.keys": "api",
		"host_key_file": "agent", "tls.key": "api", "kafka.tls.key": "api",
	} {
		file := filepath.Join(c.data, kind+".yaml")
		c.types("", "config", "check", kind, "--config", file, "--set", setting+"="+garbage)
	}
	for i, face := range c.faces {
		for _, path := range []string{"/metrics", "/readyz", "/healthz"} {
			req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, face+path, nil)
			c.must(err)
			req.Header.Set("Authorization", "Bearer "+c.admin)
			resp, err := c.http.Do(req)
			c.must(err)
			text, err := io.ReadAll(resp.Body)
			c.must(err)
			c.must(resp.Body.Close())
			c.said[path+" of "+c.daemons[i].name] = string(text)
		}
	}
}

// crash ends every daemon as a panic would, with the stacks of all goroutines.
func (c *secretCell) crash() {
	for _, p := range c.daemons {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
		c.must(err)
		c.said["command line of "+p.name] = string(line)
		c.must(p.cmd.Process.Signal(syscall.SIGABRT))
		p.says("SIGABRT")
		<-p.done
		text, _ := p.out.text()
		if !strings.Contains(text, "goroutine ") {
			c.t.Errorf("%s does not say where it was", p.name)
		}
		c.said["log of "+p.name] = text
	}
	for _, rec := range c.refused.all() {
		c.said["topic rejected"] += string(rec.Key) + "\n" + string(rec.Value) + "\n"
	}
}

// TestSecretsAreNeverSeen: whatever a cell with secrets in every place is asked, and however it ends, none of them is
// in what it logs, answers or shows, nor in the topic rejected, in any form.
func TestSecretsAreNeverSeen(t *testing.T) {
	t.Parallel()
	c := newSecretCell(t)
	c.start()
	c.use()
	c.refusals()
	c.publishers()
	c.commands()
	c.crash()
	for where, text := range c.said {
		for _, what := range c.planted.in(text) {
			t.Errorf("%s has the %s", where, what)
		}
	}
	if len(c.planted) < 40 || len(c.said) < 80 {
		t.Errorf("only %d secrets were looked for in %d texts", len(c.planted), len(c.said))
	}
}

// What the search is for is found in all its forms.
func TestPlantedIsFound(t *testing.T) {
	t.Parallel()
	secret := []byte("\x00\xffplanted secret/+'\"of some length")
	text, err := json.Marshal(map[string][]byte{"user_data": append([]byte("ab"), secret...)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"x" + string(secret) + "y", fmt.Sprintf("%q", secret), fmt.Sprint(secret), fmt.Sprintf("%x", secret), string(text),
		url.Values{"x": {string(secret)}}.Encode(), string(secret[:20]), string(secret[15:]),
		base64.URLEncoding.EncodeToString(secret),
	} {
		if len(planted{"it": secret}.in(text)) == 0 {
			t.Errorf("it is not found in %q", text)
		}
	}
	if found := (planted{"it": secret}).in("planted secrets are of some length"); found != nil {
		t.Error(found)
	}
}
