// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
)

// notRun are the commands of README and REAL-HOST that the tests do not run, and why.
// Those of ours among them are parsed: the command and its flags are there.
var notRun = map[string]string{
	"make demo":                               "needs a build of Berth; no test plays the tour",
	"make test":                               "this is a part of it",
	"make build && bin/berth dev":             "the tests run it from their own binary",
	"export PATH=$PWD/bin:$PATH":              "changes nothing but the shell",
	"export PATH=~/berth/bin:$PATH":           "changes nothing but the shell",
	"berth api       --config api.yaml":       "needs a Kafka; pkg/celltest runs it",
	"berth queues    --config queues.yaml":    "needs a Kafka; pkg/celltest runs it",
	"berth conductor --config conductor.yaml": "needs a Kafka; pkg/celltest runs it",
	"berth agent     --config agent.yaml":     "needs a Kafka; pkg/celltest runs it",
	"berth bench --kafka local --hosts 100 --rate 100 --count 2000 --floor": "" +
		"needs a Kafka's jars and a minute; bench_test.go runs less of it",

	"sudo apt install --no-install-recommends qemu-system-x86 qemu-utils":                  "installs packages",
	"sudo usermod -aG kvm $USER":                                                           "changes this machine",
	"git clone https://github.com/berth-project/berth ~/berth && cd ~/berth && make build": "needs a network",
	"mkdir -p ~/images": "is for the image below",
	"(cd ~/images && curl -LO https://cloud.debian.org/images/cloud/bookworm/latest/" +
		"debian-12-genericcloud-amd64.qcow2 &&": "needs a network",

	"sha256sum debian-12-genericcloud-amd64.qcow2 > debian-12-genericcloud-amd64.qcow2.sha256)": "needs the image",

	"~/berth/bin/berth dev --driver qemu --data ~/berth-data --images ~/images": "TestDevOnQEMU is it, with QEMU",
	"sudo mkdir -p /etc/systemd/system/libvirtd.service.d":                      "changes this machine",

	"printf '[Service]\\nInaccessiblePaths=/dev/kvm\\n' | sudo tee /etc/systemd/system/libvirtd.service.d/no-kvm.conf": "changes this machine",

	"sudo rm -rf /var/cache/libvirt/qemu/capabilities":                "changes this machine",
	"sudo systemctl daemon-reload && sudo systemctl restart libvirtd": "changes this machine",
	"berth console web --follow":                                      "has no end, and simulated hosts keep no consoles",
}

// TestCommandsOfTheDocs runs every command of README and REAL-HOST as it stands there,
// in the order in which they stand there, on simulated hosts. A line that ends in
// "echo $?" says behind the last colon of its comment what it prints.
func TestCommandsOfTheDocs(t *testing.T) {
	readme := commandsOf(t, "../../README.md", "```")
	realHost := commandsOf(t, "../../docs/REAL-HOST.md", "```sh")
	if len(readme) < 20 || len(realHost) < 10 {
		t.Fatalf("%d commands in README and %d in REAL-HOST: they are not found any more", len(readme), len(realHost))
	}
	for line := range notRun {
		is := func(c typedLine) bool { return c.command == line }
		if !slices.ContainsFunc(readme, is) && !slices.ContainsFunc(realHost, is) {
			t.Errorf("notRun has %q, which stands nowhere", line)
		}
	}
	home := aHome(t)
	o := cell.EverythingOptions{Hosts: cell.SimulatedHosts(20), Listen: "127.0.0.1:0"}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		for project, lines := range map[string][]typedLine{"default": readme, "real": realHost} {
			for _, c := range lines {
				if _, listed := notRun[c.command]; listed {
					parsed(t, c.command)
					continue
				}
				if strings.Contains(c.command, "sudo ") {
					t.Errorf("%s: would change this machine; say in notRun why it is not run", c.command)
					continue
				}
				var out []byte
				typing := func() bool {
					run := exec.CommandContext(ctx, "sh", "-c", c.command)
					run.Env = append(os.Environ(), "HOME="+home, "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"),
						asBerth+"=1", cli.EnvAPI+"=http://"+address, cli.EnvProject+"="+project)
					var err error
					if out, err = run.CombinedOutput(); err != nil {
						t.Errorf("%s: %v\n%s", c.command, err, out)
					}
					want := c.prints()
					return want == "" || strings.HasSuffix(string(out), "\n"+want+"\n")
				}
				done := typing()
				// Conductors read a quota from another topic than boots: the first that come after it may be let in.
				for lost := time.Now().Add(soonEnough); !done && overQuota(c) && time.Now().Before(lost); {
					done = typing()
				}
				if !done {
					t.Errorf("%s: does not print %s in the end:\n%s", c.command, c.prints(), out)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// typedLine is a line of the docs that a person may type.
type typedLine struct{ command, comment string }

var printsCode = regexp.MustCompile(`: (\d+)\b`)

// prints is what the line says that it prints; empty if it does not say.
func (c typedLine) prints() string {
	if codes := printsCode.FindAllStringSubmatch(c.comment, 1); strings.HasSuffix(c.command, "echo $?") &&
		codes != nil {
		return codes[0][1]
	}
	return ""
}

// overQuota says of a line that a quota is there to refuse it.
func overQuota(c typedLine) bool { return strings.Contains(c.comment, "over quota") }

// commandsOf are the lines of a document between a fence of this kind and the next,
// and, written like `berth …` in its text, those of a sentence that begins with one.
func commandsOf(t *testing.T, file, fence string) (out []typedLine) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inside, ours := false, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside, ours = !inside, !inside && line == fence
		case inside && ours && line != "":
			command, comment, _ := strings.Cut(line, " # ")
			out = append(out, typedLine{strings.TrimSpace(command), comment})
		case !inside:
			for _, quoted := range inText.FindAllStringSubmatch(line, -1) {
				out = append(out, typedLine{command: quoted[1]})
			}
		}
	}
	return out
}

// inText is a step of REAL-HOST that is a command: "**8. Away with it.** `berth delete web --wait` leaves…".
var inText = regexp.MustCompile(`^\*\*\d+\. [^*]*\*\* ` + "`(berth [^`]*)`")

// aHome is a home with what the commands take for granted: berth, and a public key.
func aHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", ".ssh"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(home, "bin/berth")); err != nil {
		t.Fatal(err)
	}
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@home\n"
	if err := os.WriteFile(filepath.Join(home, ".ssh/id_ed25519.pub"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

var quotes = regexp.MustCompile(`"([^"]*)"|'([^']*)'|\S+`)

// parsed wants each command of ours in a line to be there, with its flags and as many
// arguments as it takes.
func parsed(t *testing.T, line string) {
	t.Helper()
	for _, one := range regexp.MustCompile(`&&|;|\|`).Split(line, -1) {
		words := quotes.FindAllString(one, -1)
		if len(words) == 0 || filepath.Base(words[0]) != "berth" {
			continue
		}
		cmd, rest, err := whole().Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !cmd.Runnable() {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestCommandsOfTheRunbooks: what OPERATIONS says to type at an alert is a command.
func TestCommandsOfTheRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, alerts, _ := strings.Cut(string(page), "\n## Alerts\n")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	commands := regexp.MustCompile("`(berth\\s[^`]*)`").FindAllStringSubmatch(alerts, -1)
	for _, m := range commands {
		parsed(t, strings.Join(strings.Fields(m[1]), " "))
	}
	if len(commands) < 20 {
		t.Errorf("only %d commands found", len(commands))
	}
}

// TestCommandsOfNewcomers: what the pages that people read first, and the one of reasons, call a command is one.
func TestCommandsOfNewcomers(t *testing.T) {
	n := 0
	for _, name := range []string{"index", "concepts", "run", "coming-from", "troubleshoot"} {
		page, err := os.ReadFile("../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(berth\\s[^`]*)`").FindAllStringSubmatch(string(page), -1) {
			n++
			parsed(t, strings.Join(strings.Fields(m[1]), " "))
		}
	}
	if n < 60 {
		t.Errorf("only %d commands found", n)
	}
}

// TestExamplesOfTheHelp: what the help of a command shows as an example is a command.
func TestExamplesOfTheHelp(t *testing.T) {
	n := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			if at := strings.Index(line, "berth "); at >= 0 { // BERTH_LISTEN=… berth …
				n++
				parsed(t, line[at:])
			}
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(whole())
	if n < 10 {
		t.Errorf("only %d examples", n)
	}
}

// TestDevWithTokens: what `berth dev --tokens` says to type works with the token that it says, and not without.
func TestDevWithTokens(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv(cli.EnvToken, "")
	d := devDriver{kind: "fake"}
	o := cell.EverythingOptions{
		Hosts: cell.SimulatedHosts(1), Listen: "127.0.0.1:0", FirstToken: func(text string) { d.token = text },
		Brokers: func(addrs []string) { d.kafka = strings.Join(addrs, ",") },
	}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		lines := d.banner(address, 1)
		if !strings.Contains(lines, "\n  export BERTH_TOKEN="+d.token+"\n  berth flavor add ") ||
			strings.Contains(lines, "Nobody signs in") {
			t.Errorf("%s", lines)
		}
		_, text, _ := strings.Cut(lines, ", Kafka on ")
		kafka, _, _ := strings.Cut(text, "\n")
		if conn, err := net.Dial("tcp", kafka); err != nil {
			t.Errorf("where it says that Kafka is, nothing listens: %v\n%s", err, lines)
		} else {
			_ = conn.Close()
		}
		who := []string{"whoami", "-o", "name", "--api", "http://" + address}
		if code, _, errs := typed(ctx, who); code != 6 {
			t.Errorf("without a token: exit code %d: %s", code, errs)
		}
		t.Setenv(cli.EnvToken, d.token)
		if code, out, errs := typed(ctx, who); code != 0 || out != "token:dev\n" {
			t.Errorf("with it: exit code %d: %s%s", code, out, errs)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestBannerOfDev: what `berth dev` says to type can be typed, and on QEMU it names an
// image: there is no default one.
func TestBannerOfDev(t *testing.T) {
	images := t.TempDir()
	typedBy := func(d devDriver) (commands []string) {
		t.Helper()
		for line := range strings.Lines(d.banner("127.0.0.1:7070", 20)) {
			if command, ok := strings.CutPrefix(line, "  berth "); ok {
				commands = append(commands, "berth "+strings.TrimSpace(command))
				parsed(t, commands[len(commands)-1])
			}
		}
		return commands
	}
	simulated := typedBy(devDriver{kind: "fake"})
	o := cell.EverythingOptions{Hosts: cell.SimulatedHosts(1), Listen: "127.0.0.1:0"}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		for _, line := range simulated {
			if code, out, errs := typed(ctx, append(strings.Fields(line)[1:], "--api", "http://"+address)); code != 0 {
				t.Errorf("%s: exit code %d: %s%s", line, code, out, errs)
			}
		}
		return nil
	}); err != nil || len(simulated) != 2 {
		t.Errorf("%q: %v", simulated, err)
	}
	for _, c := range []struct{ put, image string }{
		{"", "IMAGE"}, {"linux/kernel", "linux"}, {"debian-12.qcow2", "debian-12"},
	} {
		if c.put != "" {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(images, c.put)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(images, c.put), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := devDriver{kind: "qemu", images: images}
		if lines := typedBy(d); len(lines) != 2 || !strings.Contains(lines[1], " --image "+c.image+" ") {
			t.Errorf("with %q in the folder: %q", c.put, lines)
		}
		if said := strings.Contains(d.banner("a:1", 0), "put into "+images); said != (c.put == "") {
			t.Errorf("with %q in the folder: %s", c.put, d.banner("a:1", 0))
		}
	}
}
