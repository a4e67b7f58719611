// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// securedCell is what deploy/secure/make made, on this machine.
type securedCell struct {
	t    *testing.T
	self string // the berth command
	dir  string
	at   string   // where commands are given
	env  []string // of commands that call the API
}

// make runs the script as SECURITY-SETUP says, with brokers at free ports.
func (c *securedCell) make(env []string, brokers ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), "../../deploy/secure/make", append([]string{c.dir}, brokers...)...)
	cmd.Env = append(append(os.Environ(), asBerth+"=1", "BERTH="+c.self), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// edit changes a file as an operator does.
func (c *securedCell) edit(file string, oldnew ...string) {
	c.t.Helper()
	file = filepath.Join(c.dir, file)
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(string(text), oldnew[i]) {
			c.t.Fatalf("%s has no %q", file, oldnew[i])
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(oldnew...).Replace(string(text))), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// properties are the settings of a broker that the script made, but for the folder of its data.
func (c *securedCell) properties(node int) map[string]string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("kafka%d/server.properties", node)))
	if err != nil {
		c.t.Fatal(err)
	}
	all := kafkatest.Properties(string(text))
	delete(all, "log.dirs")
	return all
}

// starts runs a daemon as a process in the folder that was made for it.
func (c *securedCell) starts(folder string, args ...string) {
	c.t.Helper()
	c.edit(folder+"/berth.yaml", "/etc/berth", filepath.Join(c.dir, folder))
	cmd := exec.Command(c.self, append(args, "--config", filepath.Join(c.dir, folder, "berth.yaml"))...)
	cmd.Env = append(os.Environ(), asBerth+"=1")
	log, err := os.Create(filepath.Join(c.t.TempDir(), "log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && c.t.Failed() {
			c.t.Logf("%s:\n%s", folder, text[max(0, len(text)-4000):])
		}
	})
}

// ran runs a command, and answers its exit code and what it prints.
func (c *securedCell) ran(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), c.self, args...)
	cmd.Dir = c.at
	cmd.Env = append(append(os.Environ(), asBerth+"=1"), c.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its code counts
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// ends runs a command that should end with a code, and answers what it prints. It is run again where brokers that have
// much to do let it wait: it tries for 3 s only to reach them, and exits with 7 where an answer did not come in time.
func (c *securedCell) ends(want int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	for lost := time.Now().Add(soonEnough); ; {
		code, out, errs := c.ran(args...)
		if code == want {
			return out, errs
		}
		if code != 7 && !unreached(errs) && !comesBack(code, errs) || time.Now().After(lost) {
			c.t.Fatalf("berth %s: %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
		}
	}
}

// comesBack says that a node refused for now.
func comesBack(code int, errs string) bool {
	return code == 1 && strings.Contains(errs, "try again in a moment")
}

// comes runs a command until it ends well and says something.
func (c *securedCell) comes(say string, args ...string) {
	c.t.Helper()
	becomes(c.t, func() string {
		code, out, errs := c.ran(args...)
		if code != 0 { // what it says then is not what is waited for
			return fmt.Sprintf("exit code %d", code) + strings.ReplaceAll("\n"+out+errs, say, "…")
		}
		return out + errs
	}, say)
}

// unreached says that a command did not reach Kafka in time, by what it printed.
func unreached(said string) bool { return strings.Contains(said, "reach Kafka at ") }

// givesRights runs the script that gives each part its rights, as often as it takes to reach the brokers.
func (c *securedCell) givesRights() {
	c.t.Helper()
	for lost := time.Now().Add(soonEnough); ; {
		rights := exec.CommandContext(c.t.Context(), filepath.Join(c.dir, "admin/rights"))
		rights.Env = append(os.Environ(), asBerth+"=1", "BERTH="+c.self)
		out, err := rights.CombinedOutput()
		if err == nil {
			return
		}
		if !unreached(string(out)) || time.Now().After(lost) {
			c.t.Fatalf("%v\n%s", err, out)
		}
	}
}

// does runs a command that should end with a code and say something.
func (c *securedCell) does(want int, say string, args ...string) string {
	c.t.Helper()
	out, errs := c.ends(want, args...)
	if !strings.Contains(out+errs, say) {
		c.t.Fatalf("berth %s does not say %q\n%s%s", strings.Join(args, " "), say, out, errs)
	}
	return out
}

// as gives commands a token.
func (c *securedCell) as(token string) *securedCell {
	c.t.Helper()
	file := tlstest.Write(c.t, c.t.TempDir(), "token", []byte(token))
	if err := os.Chmod(file, 0o600); err != nil {
		c.t.Fatal(err)
	}
	other := *c
	other.env = append(append([]string{}, c.env...), "BERTH_TOKEN_FILE="+file)
	return &other
}

// TestSecuredCell is SECURITY-SETUP from nothing: an authority, three brokers that let nobody do what no rule allows,
// a process for each daemon with a certificate and rights of its own, hosts and API nodes with keys, two projects and an
// issuer.
func TestSecuredCell(t *testing.T) {
	kafkatest.Need(t)
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("skipped: needs openssl")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	authority := tlstest.New(t, "of the issuer")
	i := newIssuer(t, authority)
	i.life.Store(3600)
	c := &securedCell{t: t, self: self, dir: filepath.Join(t.TempDir(), "cell")}
	if out, err := c.make([]string{"HOSTS=rack1 UPPER"}, "a:1", "b:1", "c:1"); err == nil ||
		!strings.Contains(out, "UPPER") {
		t.Errorf("a host that cannot be: %v\n%s", err, out)
	}
	ports, err := localkafka.FreePairs(3)
	if err != nil {
		t.Fatal(err)
	}
	var brokers []string
	for _, p := range ports {
		brokers = append(brokers, fmt.Sprintf("127.0.0.1:%d", p))
	}
	if out, err := c.make([]string{"ISSUER=" + i.URL}, brokers...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := c.make(nil, brokers...); err == nil || !strings.Contains(out, "is there already") {
		t.Errorf("made twice: %v\n%s", err, out)
	}
	kafkatest.StartT(t, localkafka.Options{
		Nodes: 3, Each: []map[string]string{c.properties(1), c.properties(2), c.properties(3)},
	})

	issuerCA, listen := tlstest.Write(t, t.TempDir(), "ca.pem", authority.PEM), freeAddress(t)
	c.edit("api/berth.yaml", "0.0.0.0:7070", listen, "audience: berth\n", "audience: berth\n      ca: "+issuerCA+"\n",
		"claim: groups, value: team-web", "claim: email, value: alice@example.org")
	c.starts("queues", "queues")
	c.starts("conductor", "conductor")
	c.starts("api", "api")
	for _, host := range []string{"rack1", "rack2"} {
		state := t.TempDir()
		c.starts(host, "agent", "--set", "state="+state, "--set", "driver.fake.world="+state)
	}
	becomes(t, func() string { // a broker may hang up later than the doctor waits to reach it
		_, errs := c.ends(1, "doctor", "--kafka", brokers[0], "--timeout", "5s")
		return errs
	}, "does this port want TLS")
	c.givesRights()
	ca := filepath.Join(c.dir, "authority/ca.pem")
	c.env = []string{"BERTH_API=https://" + listen, "BERTH_CA_FILE=" + ca, "XDG_CONFIG_HOME=" + t.TempDir()}

	// The first token makes the others; the command that makes it has the certificate of the API nodes.
	apiFile := filepath.Join(c.dir, "api/berth.yaml")
	admin := c.as(c.does(0, "", "token", "bootstrap", "--config", apiFile, "--timeout", soonEnough.String()))
	authorities, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authorities)
	awaitReady(t, trusted, listen, nil)
	admin.comes("admin of the cell", "whoami") // once the node has read of the token
	admin.does(0, "", "flavor", "add", "m1.small", "--vcpus", "1", "--memory", "2GiB", "--disk", "20GiB")
	member := []string{"token", "create", "--role", "member", "--name", "ci", "--expires", "30d", "--project"}
	web := c.as(admin.does(0, "", append(slices.Clone(member), "web")...))
	db := c.as(admin.does(0, "", append(slices.Clone(member), "db")...))
	web.does(0, "active",
		"boot", "--project", "web", "--flavor", "m1.small", "--name", "front", "--key", "front", "--wait", "--user-data", ca)
	db.does(0, "active", "boot", "--project", "db", "--flavor", "m1.small", "--name", "rows", "--key", "rows", "--wait")
	db.does(3, "does not exist", "show", "front", "--project", "db")
	db.does(6, "", "list", "--project", "web")

	c.does(0, "oidc:alice@example.org, member of web",
		"login", "--issuer", i.URL, "--client-id", "berth", "--issuer-ca", issuerCA)
	c.does(0, "front", "list", "--project", "web")
	c.does(6, "", "list", "--project", "db")
	c.does(6, "", "host", "list")
	hosts := func() string { return admin.does(0, "", "host", "list", "-o", "wide") }
	becomes(t, hosts, "rack1") // an agent asks for its rights again after up to 16 s
	becomes(t, hosts, "rack2")
	if all := hosts(); strings.Count(all, "yes") < 2 {
		t.Errorf("not all hosts sign:\n%s", all)
	}
	c.at = filepath.Join(c.dir, "admin")
	c.comes("2 of 2 hosts sign", "doctor", "--config", "berth.yaml") // a slow broker's answer is a finding
	web.does(0, "", "delete", "front", "--project", "web", "--wait")
}
