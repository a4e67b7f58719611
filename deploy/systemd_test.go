// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
	if err != nil || len(units) != 4 {
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

// Every drop-in is read by systemd as it stands, beside the agent's unit.
func TestDropInsAreValid(t *testing.T) {
	needSystemd(t)
	for _, name := range []string{"qemu.conf", "libvirt.conf"} {
		for _, wrong := range []bool{false, true} {
			unit := installed(t, "systemd/berth-agent.service", func(s string) string { return s })
			text := read(t, "systemd/"+name)
			if wrong {
				text = strings.Replace(text, "PrivateUsers=", "PrivatUsers=", 1)
			}
			if err := os.Mkdir(unit+".d", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(unit+".d", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := analyze(t, "verify", unit)
			if refused := err != nil || out != ""; refused != wrong {
				t.Errorf("%s, misspelt %v: %v\n%s", name, wrong, err, out)
			}
		}
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
			for _, line := range []string{"KillMode=process", "StateDirectory=berth", "User=berth"} {
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
