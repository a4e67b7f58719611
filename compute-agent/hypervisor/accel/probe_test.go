// SPDX-License-Identifier: Apache-2.0

package accel

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
)

// A machine that boots is seen, and one that hangs is given up.
func TestProbe(t *testing.T) {
	t.Parallel()
	guesttest.Need(t)
	dir := t.TempDir()
	p := Probe{Binary: "qemu-system-x86_64", Machine: "pc", Time: time.Minute}
	if why, err := p.Boots(t.Context(), "tcg"); why != "" || err != nil {
		t.Errorf("TCG does not boot: %q, %v", why, err)
	}
	told := filepath.Join(dir, "told")
	p.Binary = filepath.Join(dir, "tells")
	if err := os.WriteFile(p.Binary, []byte("#!/bin/sh\necho \"$@\" >"+told+"\nexit 33\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// what boots with another processor may fail every guest
	for accel, want := range map[string]string{"kvm": "-cpu host ", "tcg": "-cpu max "} {
		if why, err := p.Boots(t.Context(), accel); why != "" || err != nil {
			t.Errorf("%s: %q, %v", accel, why, err)
		}
		if line, err := os.ReadFile(told); err != nil || !strings.Contains(string(line), want) {
			t.Errorf("the probe of %s is %s (%v), without %q", accel, line, err, want)
		}
	}
	p.Binary, p.Time = filepath.Join(dir, "hangs"), 1
	if err := os.WriteFile(p.Binary, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if why, err := p.Boots(t.Context(), "kvm"); why != "not within 1ns" || err != nil {
		t.Errorf("what hangs boots: %q, %v", why, err)
	}
}

// A host is warned of where the probe failed and KVM is there, and nowhere else. The warning says why, and what to do.
func TestChoose(t *testing.T) {
	here, nowhere := t.TempDir(), filepath.Join(t.TempDir(), "kvm")
	const denied = "echo 'Could not access KVM kernel module: Permission denied' >&2; exit 1"
	for _, c := range []struct {
		does, device, want string
		got, warned        string
	}{
		{"exit 33", here, "auto", "kvm", ""},
		{"exit 33", here, "tcg", "tcg", ""},
		{"exit 1", here, "kvm", "kvm", ""},
		{"exit 1", nowhere, "auto", "tcg", ""},
		{"exit 1", here, "auto", "tcg", "(QEMU: exit status 1): machines are emulated, and many times slower; start the"},
		{"exit 0", here, "auto", "tcg", "(QEMU ended at once)"},
		{denied, here, "auto", "tcg", "Permission denied): machines are emulated, and many times slower; let the user that"},
	} {
		p := Probe{Binary: filepath.Join(t.TempDir(), "qemu"), Time: time.Hour}
		syscall.ForkLock.Lock() // what is open for writing in a process that is being begun cannot be run
		err := os.WriteFile(p.Binary, []byte("#!/bin/sh\n"+c.does+"\n"), 0o755)
		syscall.ForkLock.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		got, all, err := p.Choose(t.Context(), c.device, c.want)
		warned := strings.Join(all, "\n")
		if got != c.got || err != nil || !strings.Contains(warned, c.warned) || (warned == "") != (c.warned == "") {
			t.Errorf("%+v: %s, %q, %v", c, got, warned, err)
		}
	}
}

// The probe runs as the user that guests run as, whatever the umask of this process is.
func TestProbeAsAnother(t *testing.T) {
	guesttest.Need(t)
	if os.Geteuid() != 0 {
		guesttest.Missing(t, "root, which starts programs as others")
	}
	defer syscall.Umask(syscall.Umask(0o077))
	p := Probe{Binary: "qemu-system-x86_64", Machine: "q35", Time: time.Minute}
	p.As = &syscall.Credential{Uid: 900030, Gid: 900030} // of no test that ends what its user runs
	if why, err := p.Boots(t.Context(), "tcg"); why != "" || err != nil {
		t.Errorf("as another user TCG does not boot: %q, %v", why, err)
	}
}
