// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secure runs deploy/secure/make, and answers its code and what it says.
func secure(t *testing.T, env []string, args ...string) (int, string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("skipped: needs openssl")
	}
	cmd := exec.Command("secure/make", args...)
	cmd.Env = append(append(os.Environ(), "BERTH="+berth), env...)
	out, _ := cmd.CombinedOutput() // its code counts
	return cmd.ProcessState.ExitCode(), string(out)
}

// made is a cell that it made.
func made(t *testing.T, env ...string) string {
	t.Helper()
	cell := t.TempDir() + "/cell"
	if code, out := secure(t, env, cell, "kafka1:9092", "kafka2:9092", "kafka3:9092"); code != 0 {
		t.Fatalf("%d\n%s", code, out)
	}
	return cell
}

// files are all below a folder, by their names there.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[strings.TrimPrefix(path, dir+"/")] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// owner is whose a file is, and what others may do with it.
type owner struct {
	User, Group uint32
	Mode        os.FileMode
}

// owners are those of all files below a folder.
func owners(t *testing.T, dir string) map[string]owner {
	t.Helper()
	all := map[string]owner{}
	for name := range files(t, dir) {
		info, err := os.Stat(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sys := info.Sys().(*syscall.Stat_t)
		all[name] = owner{sys.Uid, sys.Gid, info.Mode()}
	}
	return all
}

// giveAway gives the certificates and brokers' settings to other users, as for containers, if this one may, and to
// readers of their group.
func giveAway(t *testing.T, cell string) {
	t.Helper()
	for name := range certificates(t, files(t, cell)) {
		if os.Geteuid() == 0 {
			if err := os.Chown(cell+"/"+name, 65532, 1000); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(cell+"/"+name, 0o440); err != nil {
			t.Fatal(err)
		}
	}
}

const chainKey = "ssl.keystore.certificate.chain="

// certificates are those in a cell's files, but for the authority's.
func certificates(t *testing.T, all map[string]string) map[string]*x509.Certificate {
	t.Helper()
	found := map[string]*x509.Certificate{}
	for name, text := range all {
		if _, chain, ok := strings.Cut(text, chainKey); ok {
			line, _, _ := strings.Cut(chain, "\n")
			text = strings.ReplaceAll(line, `\n`, "\n")
		} else if base := filepath.Base(name); base != "tls.pem" && base != "https.pem" {
			continue
		}
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			t.Fatalf("%s has no certificate:\n%s", name, text)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(name, err)
		}
		found[name] = c
	}
	return found
}

// Renewed certificates are those that were there, with another number and date, and nothing else is touched; who could
// read them can go on.
func TestSecureRenew(t *testing.T) {
	cell := made(t, "NAMES=api.example.org ::1", "HOSTS=rack1 broker.1 renewed host.key")
	giveAway(t, cell)
	before, whose := files(t, cell), owners(t, cell)
	if code, out := secure(t, nil, "--renew", cell+"/"); code != 0 || !strings.Contains(out, "restart one broker after the other") {
		t.Fatalf("%d\n%s", code, out)
	}
	if diff := cmp.Diff(whose, owners(t, cell)); diff != "" {
		t.Errorf("owners: %s", diff)
	}
	after := files(t, cell)
	was, is := certificates(t, before), certificates(t, after)
	if len(was) != 12 { // three brokers, admin, queues, conductor, api twice, four hosts
		t.Errorf("certificates: %v", slices.Sorted(maps.Keys(was)))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(after["authority/ca.pem"]))
	for name, old := range was {
		c := is[name]
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Error(name, err)
		}
		same := cmp.Equal(old.RawSubjectPublicKeyInfo, c.RawSubjectPublicKeyInfo) && cmp.Equal(old.RawSubject, c.RawSubject) &&
			slices.Equal(old.DNSNames, c.DNSNames) && slices.Equal(old.ExtKeyUsage, c.ExtKeyUsage) &&
			len(old.IPAddresses) == len(c.IPAddresses)
		if !same || old.SerialNumber.Cmp(c.SerialNumber) == 0 || c.NotBefore.Before(old.NotBefore) {
			t.Errorf("%s is another one: %+v", name, c)
		}
		pem := func(text string) string {
			begin, rest, _ := strings.Cut(text, "-----BEGIN CERTIFICATE-----")
			_, end, _ := strings.Cut(rest, "-----END CERTIFICATE-----")
			return begin + end
		}
		before[name], after[name] = pem(before[name]), pem(after[name])
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if ips := is["api/https.pem"].IPAddresses; len(ips) != 1 || ips[0].String() != "::1" {
		t.Errorf("the API's addresses are %v", ips)
	}
}

// One more host has what the others have, and what is there is not touched.
func TestSecureHost(t *testing.T) {
	cell := made(t)
	before := files(t, cell)
	if code, out := secure(t, nil, "--host", cell, "rack3"); code != 0 || !strings.Contains(out, "admin/rights") {
		t.Fatalf("%d\n%s", code, out)
	}
	checks(t, cell+"/rack3", "agent")
	rights := read(t, cell+"/admin/rights")
	if line := "--role agent --host rack3 --principal User:CN=rack3\n"; !strings.HasSuffix(rights, line) {
		t.Errorf("rights:\n%s", rights)
	}
	after := files(t, cell)
	for name := range after {
		if strings.HasPrefix(name, "rack3/") {
			if before["rack2/"+strings.TrimPrefix(name, "rack3/")] == "" {
				t.Errorf("rack2 has no %s", name)
			}
			delete(after, name)
		}
	}
	before["admin/rights"] = rights
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		code int
		say  string
		args []string
	}{
		{5, "is there already", []string{"--host", cell, "rack3"}},
		{2, "another folder", []string{"--host", cell, "admin"}},
		{2, "UPPER", []string{"--host", cell, "UPPER"}},
		{4, "only the authority", []string{"--host", cell + "/api", "rack4"}},
		{4, "only the authority", []string{"--renew", cell + "/api"}},
		{2, "--renew FOLDER", []string{"--renew"}},
		{2, "--renew FOLDER", []string{"--renw", cell}},
		{2, "would be two", []string{t.TempDir() + "/new", "kafka:9092", "kafka:9093", "other:9092"}},
		{2, "has no port", []string{t.TempDir() + "/new", "kafka1", "kafka2:9092", "kafka3:9092"}},
	} {
		if code, out := secure(t, nil, c.args...); code != c.code || !strings.Contains(out, c.say) {
			t.Errorf("%q: %d, want %d\n%s", c.args, code, c.code, out)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), notOf("rack3", files(t, cell))); diff != "" {
		t.Errorf("what is refused leaves something: %s", diff)
	}
}

// notOf are the names of files outside of a folder, in order.
func notOf(folder string, all map[string]string) []string {
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, folder+"/") })
	return slices.Sorted(maps.Keys(all))
}
