// SPDX-License-Identifier: Apache-2.0

// Package accel finds out what machines of a host run on.
package accel

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Probe is how a host is tried.
type Probe struct {
	Binary  string        // of QEMU
	Machine string        // "q35" or "pc"
	Disk    string        // a file that may be made, and is removed again
	Time    time.Duration // how long KVM may take

	As *syscall.Credential // the user that guests run as; nil: this process's
}

// Choose is what was asked for, or if that is "auto", KVM if it really boots a
// machine. That /dev/kvm is there and opens says nothing: on some hosts guests
// hang in it.
func (p Probe) Choose(ctx context.Context, want string) (string, error) {
	if want != "auto" {
		return want, nil
	}
	ok, err := p.Boots(ctx, "kvm")
	if err != nil || ok {
		return "kvm", err
	}
	return "tcg", nil
}

// bootCode writes 16 to QEMU's port of debug exits, which makes it end with 33.
// The firmware has to get as far as to load it, or nothing is shown.
const bootCode = "\xfa\xba\xf4\x00\xb0\x10\xee\xf4\xeb\xfd"

// bootDisk is a disk with that in its boot sector. SeaBIOS boots none that is
// smaller than a megabyte.
func bootDisk(code string) []byte {
	b := make([]byte, 1<<20)
	copy(b, code)
	b[510], b[511] = 0x55, 0xaa
	return b
}

// CPU is the processor that guests have, in QEMU's words.
func CPU(accel string) string {
	if accel == "kvm" {
		return "host"
	}
	return "max"
}

// Boots says whether a small machine, with the processor that guests have, gets to
// its boot sector in time. With another a KVM may boot that fails every guest.
func (p Probe) Boots(ctx context.Context, accel string) (bool, error) {
	if err := os.WriteFile(p.Disk, bootDisk(bootCode), 0o644); err != nil { // #nosec G306 -- bootCode is no secret
		return false, err
	}
	defer os.Remove(p.Disk)
	probing, cancel := context.WithTimeout(ctx, p.Time)
	defer cancel()
	cmd := exec.CommandContext(probing, p.Binary, "-nodefaults", "-no-user-config", "-display", "none", "-snapshot",
		"-machine", p.Machine+",accel="+accel, "-cpu", CPU(accel), "-m", "64", "-drive",
		"file="+strings.ReplaceAll(p.Disk, ",", ",,")+",format=raw,if=none,id=d",
		"-device", "virtio-blk-pci,drive=d,bootindex=0", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x01")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.As}
	err := cmd.Run()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 33, nil
}
