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
	if ok, err := p.Boots(t.Context(), "tcg"); !ok || err != nil {
		t.Errorf("TCG boots: %t, %v", ok, err)
	}
	told := filepath.Join(dir, "told")
	p.Binary = filepath.Join(dir, "tells")
	if err := os.WriteFile(p.Binary, []byte("#!/bin/sh\necho \"$@\" >"+told+"\nexit 33\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// what boots with another processor may fail every guest
	for accel, want := range map[string]string{"kvm": "-cpu host ", "tcg": "-cpu max "} {
		if ok, err := p.Boots(t.Context(), accel); !ok || err != nil {
			t.Errorf("%s: %t, %v", accel, ok, err)
		}
		if line, err := os.ReadFile(told); err != nil || !strings.Contains(string(line), want) {
			t.Errorf("the probe of %s is %s (%v), without %q", accel, line, err, want)
		}
	}
	p.Binary, p.Time = filepath.Join(dir, "hangs"), 1
	if err := os.WriteFile(p.Binary, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if ok, err := p.Boots(t.Context(), "kvm"); ok || err != nil {
		t.Errorf("what hangs boots: %t, %v", ok, err)
	}
	if got, err := p.Choose(t.Context(), "auto"); got != "tcg" || err != nil {
		t.Errorf("where KVM hangs auto is %q, %v", got, err)
	}
	if got, err := p.Choose(t.Context(), "kvm"); got != "kvm" || err != nil {
		t.Errorf("asked for KVM it is %q, %v", got, err)
	}
}

// A host is warned of where the probe failed and KVM is there, and nowhere else.
func TestMissed(t *testing.T) {
	here, nowhere := t.TempDir(), filepath.Join(t.TempDir(), "kvm")
	for _, c := range []struct {
		device, want, got string
		warned            bool
	}{
		{here, "auto", "tcg", true},
		{here, "auto", "kvm", false},
		{here, "tcg", "tcg", false},
		{nowhere, "auto", "tcg", false},
	} {
		got := strings.Join(Probe{Time: time.Second}.Missed(c.device, c.want, c.got), "\n")
		if (got != "") != c.warned || c.warned && !strings.Contains(got, "; start the agent again") {
			t.Errorf("%+v: %q", c, got)
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
	p.As = &syscall.Credential{Uid: 900000, Gid: 900000}
	if ok, err := p.Boots(t.Context(), "tcg"); !ok || err != nil {
		t.Errorf("as another user TCG boots: %t, %v", ok, err)
	}
}
