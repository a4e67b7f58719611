package qemu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// accelerator is what machines run on: what was asked for, or KVM if it really
// boots a machine. That /dev/kvm is there and opens says nothing: on some hosts
// guests hang in it.
func (d *Driver) accelerator(ctx context.Context) (string, error) {
	if d.o.Accel != "auto" {
		return d.o.Accel, nil
	}
	ok, err := d.boots(ctx, "kvm")
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

// boots says whether a small machine gets to its boot sector in time.
func (d *Driver) boots(ctx context.Context, accel string) (bool, error) {
	disk := filepath.Join(d.o.Dir, unborn+"probe")
	if err := os.WriteFile(disk, bootDisk(bootCode), 0o600); err != nil {
		return false, err
	}
	defer os.Remove(disk)
	probing, cancel := context.WithTimeout(ctx, d.o.ProbeTime)
	defer cancel()
	err := exec.CommandContext(probing, d.o.Binary, "-nodefaults", "-no-user-config", "-display", "none", "-snapshot",
		"-machine", d.o.Machine+",accel="+accel, "-m", "64", "-drive", "file="+comma(disk)+",format=raw,if=none,id=d",
		"-device", "virtio-blk-pci,drive=d,bootindex=0", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x01").Run()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 33, nil
}
