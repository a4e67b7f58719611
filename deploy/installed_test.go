// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
)

// needPackages skips where packages cannot be made and installed.
func needPackages(t *testing.T) {
	t.Helper()
	if testing.Short() && os.Getenv("BERTH_REQUIRE_PACKAGES") != "1" {
		t.Skip("skipped: it makes a Debian to install into; make test-all runs it")
	}
	for _, tool := range []string{"debootstrap", "systemd-nspawn", "rpm", "make", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			required(t, "BERTH_REQUIRE_PACKAGES", tool+" is not installed")
		}
	}
	if os.Getuid() != 0 {
		required(t, "BERTH_REQUIRE_PACKAGES", "only root can make a root folder")
	}
	if git, err := os.Stat("../.git"); err != nil || !git.IsDir() {
		required(t, "BERTH_REQUIRE_PACKAGES", "this is no clone: Go would not find the commit")
	}
}

// tool runs a program to its end.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// release is what make release writes of a tree.
func release(t *testing.T, tree, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	tool(t, tree, "make", "release", "RELEASE="+out, "ARCH="+runtime.GOARCH)
	return out
}

// only is the one file of a pattern.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v %v", pattern, found, err)
	}
	return found[0]
}

// TestRelease makes a release of the commit and does with it what its users will.
func TestRelease(t *testing.T) {
	needPackages(t)
	tree := clone(t, "tree")
	out := release(t, tree, "release")
	t.Run("the same bytes twice", func(t *testing.T) { sameTwice(t, out) })
	t.Run("packages agree", func(t *testing.T) { packagesAgree(t, out) })
	t.Run("installed", func(t *testing.T) { worksInstalled(t, out) })
}

// clone is the commit in a folder of its own, with the tools that are here: what is not committed is in no release.
func clone(t *testing.T, folder string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), folder)
	tool(t, ".", "git", "clone", "-q", "..", tree)
	if err := os.MkdirAll(filepath.Join(tree, ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	tool(t, "..", "make", toolPath("nfpm"), toolPath("cyclonedx-gomod"))
	if err := os.Symlink(filepath.Dir(toolPath("nfpm")), filepath.Join(tree, ".cache", "bin")); err != nil {
		t.Fatal(err)
	}
	return tree
}

// sameTwice holds that the commit in another folder, with another user's settings, is the same to the byte.
func sameTwice(t *testing.T, out string) {
	first := read(t, filepath.Join(out, "SHA256SUMS"))
	t.Setenv("BERTH_API", "http://192.0.2.1:1")
	t.Setenv("TZ", "Pacific/Auckland")
	t.Setenv("LANG", "C.UTF-8")
	if second := read(t, filepath.Join(release(t, clone(t, "in/another/folder"), "again"), "SHA256SUMS")); first != second {
		t.Errorf("two releases of one commit differ:\n%s\n%s", first, second)
	}
	if n := strings.Count(first, "\n"); n != 4 {
		t.Errorf("a binary, its parts, a deb and an rpm have sums, not %d files:\n%s", n, first)
	}
}

// toolPath is where the Makefile installs a tool.
func toolPath(name string) string {
	root, err := filepath.Abs("..")
	if err != nil {
		panic(err)
	}
	return filepath.Join(root, ".cache", "bin", name)
}

// packagesAgree holds that the rpm has the files of the deb, but for those that each world keeps in a place of its own.
func packagesAgree(t *testing.T, out string) {
	deb := strings.Fields(tool(t, ".", "sh", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -t`, only(t, out+"/*.deb")))
	var ours []string
	for _, f := range deb {
		if f = strings.TrimPrefix(f, "."); !strings.HasSuffix(f, "/") {
			ours = append(ours, f)
		}
	}
	rpm := tool(t, ".", "rpm", "-qlp", only(t, out+"/*.rpm"))
	for _, f := range ours {
		elsewhere := strings.Contains(f, "zsh") || strings.HasSuffix(f, "copyright")
		if !elsewhere && !strings.Contains(rpm, f+"\n") {
			t.Errorf("%s is in the deb and not in the rpm", f)
		}
	}
	if len(ours) < 40 {
		t.Errorf("the deb has %d files: the manual is missing\n%v", len(ours), ours)
	}
}

// worksInstalled gives the deb to a Debian that has never seen Berth, and boots it: systemd runs the units as they
// are packaged, against a real Kafka, and a machine boots.
func worksInstalled(t *testing.T, out string) {
	broker := kafkatest.Kafka(t)
	root := filepath.Join(t.TempDir(), "root")
	tool(t, ".", "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm", root)
	tool(t, ".", "cp", only(t, out+"/*.deb"), filepath.Join(root, "berth.deb"))
	tool(t, ".", "systemd-nspawn", "-q", "--register=no", "--keep-unit", "-D", root, "dpkg", "-i", "/berth.deb")
	checkFiles(t, root)

	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	api := fmt.Sprintf("127.0.0.1:%d", ports[0])
	kafka := fmt.Sprintf("kafka: {brokers: [%q], prefix: %q}\n", strings.Join(broker.Addrs, `", "`), broker.Prefix)
	loadKeys(t, root)
	trusting := "hosts: {trust: keys}\n"
	for daemon, more := range map[string]string{
		"queues": trusting, "conductor": trusting + "publish: {trust: keys}\n", "api": "listen: " + api + "\n",
		"agent": "host: installed\nstate: /var/lib/berth\n",
	} {
		file := filepath.Join(root, "etc/berth", daemon+".yaml")
		if err := os.WriteFile(file, []byte(kafka+more), 0o644); err != nil {
			t.Fatal(err)
		}
		tool(t, ".", "systemctl", "--root="+root, "enable", "berth-"+daemon+".service")
	}
	boot(t, root, "Started berth-queues.service", "Started berth-conductor.service", "Started berth-api.service",
		"Started berth-agent.service")

	berth := func(args ...string) string {
		return tool(t, ".", filepath.Join(root, "usr/bin/berth"), append([]string{"--api", "http://" + api}, args...)...)
	}
	berth("flavor", "add", "small", "--vcpus", "1", "--memory", "1GiB", "--disk", "1GiB")
	data := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(data, []byte("a secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := berth("boot", "--flavor", "small", "--name", "first", "--user-data", data, "--wait")
	if !strings.Contains(said, "active") {
		t.Errorf("no machine on the installed host:\n%s", said)
	}
	if said := berth("host", "list", "-o", "json"); !strings.Contains(said, `"signed": true`) {
		t.Errorf("the host does not sign:\n%s", said)
	}
	berth("delete", "first", "--wait")
}

// loadKeys makes the files of all keys, which only root may read, and puts the drop-ins that load them where the package's
// README says: without one of them no request counts, or no host, or no user data is opened.
func loadKeys(t *testing.T, root string) {
	t.Helper()
	etc := filepath.Join(root, "etc/berth")
	write := func(name, text string) string {
		file := filepath.Join(etc, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	master := func(digit string) string { return strings.Repeat(digit, 64) + "\n" }
	enrolled := func(args ...string) string { return tool(t, ".", filepath.Join(root, "usr/bin/berth"), args...) }
	hosts, publishers := write("masters", master("1")), write("publish-masters", master("2"))
	write("user-data-keys", master("3"))
	write("host.key", enrolled("host", "enroll", "installed", "--masters", hosts))
	write("publish.key", enrolled("publisher", "enroll", "api", "--projects", "*", "--masters", publishers))
	for daemon, all := range map[string][]string{
		"queues": {"hosts-masters"}, "conductor": {"hosts-masters", "publish-masters"},
		"api": {"publish-key", "user-data-keys"}, "agent": {"host-key", "user-data-keys"},
	} {
		dir := filepath.Join(root, "etc/systemd/system/berth-"+daemon+".service.d")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			tool(t, ".", "cp", filepath.Join(root, "usr/share/berth", name+".conf"), dir)
		}
	}
}

// checkFiles holds who owns what in a root folder where the package was installed.
func checkFiles(t *testing.T, root string) {
	t.Helper()
	var uid string
	for line := range strings.Lines(read(t, filepath.Join(root, "etc/passwd"))) {
		if f := strings.Split(line, ":"); f[0] == "berth" {
			uid = f[2]
		}
	}
	state, err := os.Stat(filepath.Join(root, "var/lib/berth"))
	if err != nil {
		t.Fatal(err)
	}
	owner := strconv.Itoa(int(state.Sys().(*syscall.Stat_t).Uid))
	if owner != uid || state.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the state's folder is %v and of user %s; the user berth is %q", state.Mode(), owner, uid)
	}
	for _, page := range []string{"berth.1.gz", "berth-boot.1.gz", "berth-agent.1.gz"} {
		if _, err := os.Stat(filepath.Join(root, "usr/share/man/man1", page)); err != nil {
			t.Error(err)
		}
	}
}

// boot boots a root folder as a container of its own and returns once systemd has said all of the lines.
func boot(t *testing.T, root string, lines ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lost := time.AfterFunc(5*time.Minute, cancel)
	cmd := exec.CommandContext(ctx, "systemd-nspawn", "--register=no", "--keep-unit", "--boot",
		"--setenv=SYSTEMD_COLORS=0", "-D", root)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it shuts the container down
	cmd.WaitDelay = time.Minute
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all, missing := &bytes.Buffer{}, slices.Clone(lines)
	console := bufio.NewScanner(said)
	for len(missing) > 0 && console.Scan() {
		line := console.Text()
		fmt.Fprintln(all, line)
		missing = slices.DeleteFunc(missing, func(want string) bool { return strings.Contains(line, want) })
	}
	lost.Stop()
	drained := make(chan struct{})
	go func() { // a console that nobody reads holds systemd up
		defer close(drained)
		for console.Scan() {
			continue
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-drained
		_ = cmd.Wait() // it was ended by a signal
	})
	if len(missing) > 0 {
		journal, _ := exec.Command("journalctl", "-u", "berth-*", "-n", "200",
			"-D", filepath.Join(root, "var/log/journal")).CombinedOutput()
		t.Fatalf("systemd did not say %v\n%s\n%s", missing, all, journal)
	}
}
