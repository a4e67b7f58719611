// SPDX-License-Identifier: Apache-2.0

// Package accel finds out what machines of a host run on.
package accel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Probe is how a host is tried.
type Probe struct {
	Binary  string        // of QEMU
	Machine string        // "q35" or "pc"
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

// Device is how a host shows that it has KVM.
const Device = "/dev/kvm"

// Missed warns where the device is there and TCG was chosen all the same, because the probe did not boot.
func (p Probe) Missed(device, want, got string) []string {
	if _, err := os.Stat(device); want != "auto" || got != "tcg" || err != nil {
		return nil
	}
	return []string{fmt.Sprintf("%s is there, and no machine booted with KVM within %s when the agent started: machines "+
		"are emulated, and many times slower; start the agent again once the host has less to do, or, where guests hang "+
		"in KVM, set accel to tcg", device, p.Time)}
}

// bootCode writes 16 to QEMU's port of debug exits, which makes it end with 33.
// The firmware has to get as far as to load it, or nothing is shown.
const bootCode = "\xfa\xba\xf4\x00\xb0\x10\xee\xf4\xeb\xfd"

// bootDisk is a disk with that in its boot sector. SeaBIOS boots none that is
// smaller than a megabyte. It is in memory: a disk of the host that is full says nothing
// about KVM, and the user that guests run as may read it whatever this process's umask is.
func bootDisk(code string) (*os.File, error) {
	fd, err := unix.MemfdCreate("berth-probe", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3 know no such seal
		fd, err = unix.MemfdCreate("berth-probe", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "berth-probe")
	b := make([]byte, 1<<20)
	copy(b, code)
	b[510], b[511] = 0x55, 0xaa
	if _, err := f.Write(b); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// diskFD is the probe's descriptor of its disk.
const diskFD = 3

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
	disk, err := bootDisk(bootCode)
	if err != nil {
		return false, fmt.Errorf("a disk for the probe of %s: %w", accel, err)
	}
	defer disk.Close()
	probing, cancel := context.WithTimeout(ctx, p.Time)
	defer cancel()
	cmd := exec.CommandContext(probing, p.Binary, "-nodefaults", "-no-user-config", "-display", "none",
		"-machine", p.Machine+",accel="+accel, "-cpu", CPU(accel), "-m", "64", "-drive",
		fmt.Sprintf("file=/proc/self/fd/%d,format=raw,if=none,id=d,readonly=on", diskFD),
		"-device", "virtio-blk-pci,drive=d,bootindex=0", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x01")
	cmd.ExtraFiles = []*os.File{diskFD - 3: disk}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.As}
	err = cmd.Run()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 33, nil
}
