// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Options: host.Options{Dir: "/var/lib/berth/qemu", Images: "/var/lib/berth/images"}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	elsewhere := good
	elsewhere.Binary = "/usr/libexec/qemu-kvm"
	if err := elsewhere.Check(); err != nil {
		t.Error(err)
	}
	for field, spoil := range map[string]func(*Options){
		"dir":           func(o *Options) { o.Dir = "relative" },
		"images":        func(o *Options) { o.Images = "" },
		"binary":        func(o *Options) { o.Binary = "/usr/libexec/emulator" },
		"machine":       func(o *Options) { o.Machine = "microvm" },
		"accel":         func(o *Options) { o.Accel = "hvf" },
		"network":       func(o *Options) { o.Network = "bridge:a,script=/bin/sh" },
		"console_bytes": func(o *Options) { o.ConsoleBytes = 1 },
		"users":         func(o *Options) { o.Users = "900-1000" },
		"min_free":      func(o *Options) { o.MinFree = -1 },
	} {
		o := good
		spoil(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	long := good
	long.Dir = "/" + strings.Repeat("x", 61)
	if err := long.Check(); err == nil || !strings.Contains(err.Error(), "shorter by 1 letters") {
		t.Errorf("a folder that is too long: %v", err)
	}
	long.Dir = long.Dir[:61]
	if err := long.Check(); err != nil {
		t.Errorf("a folder as long as may be: %v", err)
	}
}

// A range that somebody else has ids of is refused: what runs as a machine's user ends with the machine.
func TestRangeOfUsersIsNobodysElse(t *testing.T) {
	passwd, subuid := filepath.Join(t.TempDir(), "passwd"), filepath.Join(t.TempDir(), "subuid")
	for file, text := range map[string]string{
		passwd: "root:x:0:0:root:/root:/bin/sh\n\nbroken\na:x:y:1::/:\nalice:x:1000:1000::/home/alice:/bin/sh\n",
		subuid: "alice:100000:65536\nbob:165536:65536\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for u, want := range map[users]string{
		{1000, 1999}: "alice has some of them by " + passwd, {999, 1000}: "alice", {1001, 99999}: "",
		{90000, 100000}: "alice has some of them by " + subuid, {165536, 165536}: "bob", {231071, 231071}: "bob",
		{231072, 900000}: "", {150000, 150000}: "alice",
	} {
		if got := u.shared(passwd, subuid); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q, want %q", u, got, want)
		}
	}
	if got := (users{1000, 1999}).shared("/nowhere", "/nowhere"); got != "" {
		t.Errorf("nothing can be read, and it says %q", got)
	}
}

// What an operator is warned of is what a guest that breaks out of QEMU would reach.
func TestWarnings(t *testing.T) {
	some := users{900000, 900001}
	for _, c := range []struct {
		users users
		agent int
		says  string // empty: nothing
	}{
		{users{}, 0, "as root"},
		{users{}, 990, "as the agent's user"},
		{some, 0, ""},
	} {
		got := strings.Join(c.users.warnings(c.agent), "\n")
		if !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("users %v, agent %d: %q, wanted something of %q", c.users, c.agent, got, c.says)
		}
		if got != "" && !strings.Contains(got, "; ") {
			t.Errorf("%q does not say what to do", got)
		}
	}
	if got := strings.Join(some.before(3, 0), "\n"); !strings.Contains(got, "as root: 3 of them; ") {
		t.Errorf("of three machines of before it says %q", got)
	}
	if some.before(0, 0) != nil || (users{}).before(3, 0) != nil {
		t.Error("it warns of machines of before, and there are none, or all are")
	}
	if got := strings.Join(unlimited(0), "\n"); !strings.Contains(got, "; ") || unlimited(1024) != nil {
		t.Errorf("without limits %q, with some %q", got, unlimited(1024))
	}
}
