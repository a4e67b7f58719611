// SPDX-License-Identifier: Apache-2.0

package accel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
)

// A machine that boots is seen, and one that hangs is given up.
func TestProbe(t *testing.T) {
	t.Parallel()
	guesttest.Need(t)
	dir := t.TempDir()
	p := Probe{Binary: "qemu-system-x86_64", Machine: "pc", Disk: filepath.Join(dir, "a,probe"), Time: time.Minute}
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
	if _, err := os.Stat(p.Disk); err == nil {
		t.Error("the probe's disk is left behind")
	}
}
