// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// analyze is systemd-analyze.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", append([]string{"--no-pager"}, args...)...).CombinedOutput()
	return string(out), err
}

// needSystemd skips where there is no systemd-analyze.
func needSystemd(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		required(t, "BERTH_REQUIRE_SYSTEMD", "systemd-analyze is not installed (package systemd)")
	}
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 5 {
		t.Fatal(err, units)
	}
	return units
}

// installed is a copy of a unit whose binary exists, changed.
func installed(t *testing.T, unit string, change func(string) string) string {
	t.Helper()
	text := change(strings.ReplaceAll(read(t, unit), "/usr/bin/berth", berth))
	copied := filepath.Join(t.TempDir(), filepath.Base(unit))
	if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestUnitsAreValid(t *testing.T) {
	for _, unit := range needSystemd(t) {
		same := installed(t, unit, func(s string) string { return s })
		if out, err := analyze(t, "verify", same); err != nil || out != "" {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
		wrong := installed(t, unit, func(s string) string { return strings.Replace(s, "Restart=", "Restrat=", 1) })
		if out, _ := analyze(t, "verify", wrong); !strings.Contains(out, "Restrat") {
			t.Errorf("a misspelt key is not noticed: this test proves nothing:\n%s", out)
		}
	}
}

// oldestSystemd is the first version on which secrets are loaded. Packages leave alone one that is older.
const oldestSystemd = "247"

// What units and drop-ins ask for is there in the oldest version: an unknown key or specifier is passed over there with
// a line in the journal, and a daemon without its keys goes on without them. A part of /proc and read-only tunables
// together end in a unit that never starts before 250.
func TestUnitsOfOlderSystemd(t *testing.T) {
	files := needSystemd(t)
	for _, names := range dropIns() {
		for _, name := range names {
			files = append(files, "systemd/"+name)
		}
	}
	for _, file := range files {
		for line := range strings.Lines(read(t, file)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			if strings.Contains(line, "%d") || strings.HasPrefix(line, "ProcSubset=") {
				t.Errorf("%s: not in systemd %s: %s", file, oldestSystemd, line)
			}
		}
	}
	for _, kept := range []string{`["systemd (<< ` + oldestSystemd + `)"]`, `["systemd < ` + oldestSystemd + `"]`} {
		if !strings.Contains(read(t, "release/nfpm.yaml"), kept) {
			t.Errorf("packages do not conflict with %s", kept)
		}
	}
}

// dropIns are all drop-ins, by the daemons whose units they are for.
func dropIns() map[string][]string {
	all := map[string][]string{
		"agent":     {"qemu.conf", "libvirt.conf", "host-key.conf", "user-data-keys.conf"},
		"api":       {"https-key.conf", "publish-key.conf", "user-data-keys.conf"},
		"conductor": {"hosts-masters.conf", "publish-masters.conf"}, "queues": {"hosts-masters.conf"},
	}
	for daemon := range all {
		all[daemon] = append(all[daemon], "kafka-tls-key.conf", "kafka-password.conf")
	}
	return all
}

// Every drop-in is read by systemd as it stands, beside the unit that it is for.
func TestDropInsAreValid(t *testing.T) {
	needSystemd(t)
	verify := func(daemon string, change func(string) string) string {
		unit := installed(t, "systemd/berth-"+daemon+".service", func(s string) string { return s })
		if err := os.Mkdir(unit+".d", 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range dropIns()[daemon] {
			text := change(read(t, "systemd/"+name))
			if err := os.WriteFile(filepath.Join(unit+".d", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := analyze(t, "verify", unit)
		if err != nil && out == "" {
			t.Error(err)
		}
		return out
	}
	for daemon := range dropIns() {
		if out := verify(daemon, func(s string) string { return s }); out != "" {
			t.Errorf("%s: %s", daemon, out)
		}
	}
	misspelt := strings.NewReplacer("PrivateUsers=", "PrivatUsers=", "LoadCredential=", "LoadCredentail=")
	wrong := verify("agent", misspelt.Replace)
	for _, word := range []string{"qemu.conf", "libvirt.conf", "PrivatUsers", "LoadCredentail"} {
		if !strings.Contains(wrong, word) {
			t.Errorf("misspelt keys are not noticed: this test proves nothing:\n%s", wrong)
		}
	}
}

var (
	credential = regexp.MustCompile(`(?m)^LoadCredential=([a-z.-]+):/etc/berth/[a-z.-]+$`)
	variable   = regexp.MustCompile(`(?m)^Environment=(BERTH_[A-Z_]+)=/run/credentials/%n/([a-z.-]+)$`)
)

// A drop-in says in which units' folders it goes; one with a secret has it where a setting of those daemons looks.
func TestDropInsNameSettings(t *testing.T) {
	tried := map[string]bool{}
	for daemon, names := range dropIns() {
		for _, name := range names {
			tried[name] = true
			text := read(t, "systemd/"+name)
			loads, sets := credential.FindStringSubmatch(text), variable.FindStringSubmatch(text)
			switch {
			case !strings.Contains(text, "berth-"+daemon+".service.d"):
				t.Errorf("%s does not say that it is for %s", name, daemon)
			case !strings.Contains(text, "LoadCredential="):
				continue
			case loads == nil || sets == nil || sets[2] != loads[1]:
				t.Errorf("%s loads %v and sets %v", name, loads, sets)
				continue
			}
			cmd := exec.Command(berth, "config", "show", daemon)
			cmd.Env = append(os.Environ(), sets[1]+"=/run/credentials/x")
			out, _ := cmd.CombinedOutput() // it says that the file is not there, too
			if !strings.Contains(string(out), "env "+sets[1]+"\n") {
				t.Errorf("%s: %s is no setting of %s:\n%s", name, sets[1], daemon, out)
			}
		}
	}
	files, err := filepath.Glob("systemd/*.conf")
	if err != nil || len(files) != len(tried) {
		t.Error(err, files)
	}
}

// The forwarder's unit gives its receiver's address and secret as files, and keeps the position in the folder that is
// its own: what it runs is refused for what the position file holds, which is looked at last.
func TestForwarderUnit(t *testing.T) {
	text := read(t, "systemd/berth-forward@.service")
	for _, line := range []string{
		"StateDirectory=berth-forward/%i", "DynamicUser=yes", "Restart=always", "RestartPreventExitStatus=2 3 8",
		"EnvironmentFile=/etc/berth/forward-%i.env", "Environment=GOTRACEBACK=crash", "LimitCORE=0",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%q is not there", line)
		}
	}
	credentials, state := t.TempDir(), t.TempDir()
	kept := filepath.Join(state, "berth-forward", "cmdb", "position")
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"to": "http://127.0.0.1:9/in\n", "secret": "thirty-two letters that nobody guesses\n",
	} {
		if !strings.Contains(text, "\nLoadCredential="+name+":/etc/berth/forward-%i."+name+"\n") {
			t.Errorf("%s is no credential", name)
		}
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(kept, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(text, "\nExecStart=/usr/bin/berth ")
	line, _, _ = strings.Cut(line, "\n")
	line = strings.NewReplacer("/run/credentials/%n", credentials, "%S", state, "%i", "cmdb", "$FORWARD_FLAGS", "-A --state active").Replace(line)
	out, err := exec.Command(berth, strings.Fields(line)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), kept) || !strings.Contains(string(out), "no forwarder has written it") {
		t.Errorf("berth %s: %v: %s", line, err, out)
	}
}

// exposed is the most that systemd's own score of 0.0 to 10.0 may be, times ten.
const exposed = "15"

func TestUnitsAreHardened(t *testing.T) {
	for _, unit := range needSystemd(t) {
		if out, err := analyze(t, "security", "--offline=true", "--threshold="+exposed, unit); err != nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
		soft := installed(t, unit, func(s string) string { return strings.Replace(s, "CapabilityBoundingSet=", "#", 1) })
		if out, err := analyze(t, "security", "--offline=true", "--threshold="+exposed, soft); err == nil {
			t.Errorf("%s with all capabilities passes: this test proves nothing:\n%s", unit, out)
		}
	}
}

// What the units say about Berth is so: the daemon and its sample exist, an
// agent's state is where its sample has it, and no restart touches a machine.
func TestUnitsFitTheDaemons(t *testing.T) {
	for _, name := range []string{"api", "queues", "conductor", "agent"} {
		text := read(t, "systemd/berth-"+name+".service")
		for _, line := range []string{
			"ExecStart=/usr/bin/berth " + name + " --config /etc/berth/" + name + ".yaml", "Type=notify",
			"TimeoutStartSec=infinity", "RestartPreventExitStatus=2 3", "Environment=GOTRACEBACK=crash", "LimitCORE=0", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
		} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%s: %q is not there", name, line)
			}
		}
		sample, err := exec.Command(berth, "config", "sample", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		if name == "agent" {
			for _, line := range []string{
				"KillMode=process", "OOMPolicy=continue", "StateDirectory=berth", "User=berth",
			} {
				if !strings.Contains(text, "\n"+line+"\n") {
					t.Errorf("%s: %q is not there", name, line)
				}
			}
			if !strings.Contains(string(sample), "\nstate: /var/lib/berth\n") {
				t.Error("the agent's state is not where the unit keeps it")
			}
			continue
		}
		if !strings.Contains(text, "\nDynamicUser=yes\n") {
			t.Errorf("%s: it needs no user of its own", name)
		}
	}
}
