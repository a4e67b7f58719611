// SPDX-License-Identifier: Apache-2.0

// Package accel finds out what machines of a host run on.
package accel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
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
// hang in it. Where it does not, it warns if the device is there.
func (p Probe) Choose(ctx context.Context, device, want string) (accel string, warnings []string, err error) {
	if want != "auto" {
		return want, nil, nil
	}
	why, err := p.Boots(ctx, "kvm")
	if err != nil || why == "" {
		return "kvm", nil, err
	}
	return "tcg", missed(device, why), nil
}

// Device is how a host shows that it has KVM.
const Device = "/dev/kvm"

// missed warns where the device is there and the probe did not boot.
func missed(device, why string) []string {
	if _, err := os.Stat(device); err != nil {
		return nil
	}
	remedy := "start the agent again once the host has less to do, or, where guests hang in KVM, set accel to tcg"
	if strings.Contains(why, "Permission denied") {
		remedy = fmt.Sprintf("let the user that QEMU runs as open it (usermod -aG kvm USER; with driver.qemu.users: "+
			"chgrp kvm %s and chmod g+rw %[1]s), and start the agent again", device)
	}
	return []string{fmt.Sprintf("%s is there, and no machine booted with KVM when the agent started (%s): machines are "+
		"emulated, and many times slower; %s", device, why, remedy)}
}

// bootCode writes 16 to QEMU's port of debug exits, which makes it end with booted.
// The firmware has to get as far as to load it, or nothing is shown.
const bootCode = "\xfa\xba\xf4\x00\xb0\x10\xee\xf4\xeb\xfd"

const booted = 33

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

// Boots says why a small machine, with the processor that guests have, does not get to
// its boot sector in time; empty: it does. With another a KVM may boot that fails every guest.
func (p Probe) Boots(ctx context.Context, accel string) (why string, err error) {
	disk, err := bootDisk(bootCode)
	if err != nil {
		return "", fmt.Errorf("a disk for the probe of %s: %w", accel, err)
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
	cmd.WaitDelay = time.Second // what a script has begun may hold the pipe
	var said hypervisor.Said
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() == booted:
		return "", nil
	case probing.Err() != nil:
		return fmt.Sprint("not within ", p.Time), nil
	case said.Lines() != "":
		return "QEMU says: " + said.Lines(), nil
	case err == nil:
		return "QEMU ended at once", nil
	}
	return "QEMU: " + err.Error(), nil
}
