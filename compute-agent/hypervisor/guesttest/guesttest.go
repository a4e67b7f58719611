// SPDX-License-Identifier: Apache-2.0

// Package guesttest has real guests for tests: a kernel as the distribution
// ships it and an initramfs made here. Tests that need them are skipped where they
// cannot be had, and fail there if BERTH_REQUIRE_QEMU is 1.
package guesttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Guest is what boots: about five seconds without KVM.
type Guest struct {
	Kernel string // file
	Initrd string // file; lasts as long as the test
}

// What a guest prints.
const (
	Up      = "BERTH up"      // behind its instance id and its metadata
	Goodbye = "BERTH goodbye" // shuts down because it was asked to
	Listen  = "berth.listen"  // parameter: it hears when it is asked
	Panics  = "berth.panic"   // parameter: its kernel panics once it is up
	Calls   = "berth.call="   // parameter, a port behind it: it calls the host there by QEMU's user networking
	Writes  = "berth.writes"  // parameter: it writes 16 MiB to its disk before it is up
	Heard   = "BERTH heard: " // before Up: and what the host said
	Cmdline = "console=ttyS0 quiet panic=-1 " + soon
)

// soon spares a guest without KVM a third of its processor time up to Up: what a kernel does for each PCI interrupt in
// ACPI's tables, memory that is cleared twice, its tests of itself, and signatures of modules.
const soon = "acpi=noirq init_on_alloc=0 cryptomgr.notests ipv6.disable=1 " +
	"initcall_blacklist=init_blk_tracer,load_system_certificate_list"

// Need gives the guest, or ends the test.
func Need(t testing.TB) Guest {
	t.Helper()
	required := os.Getenv("BERTH_REQUIRE_QEMU") == "1"
	if testing.Short() && !required {
		t.Skip("skipped: boots real guests, which takes long; make test-all runs it")
	}
	dir, err := find()
	if err != nil {
		if required {
			t.Fatalf("BERTH_REQUIRE_QEMU=1 and there is no guest: %v", err)
		}
		t.Skipf("skipped: needs QEMU and a guest: %v", err)
	}
	initrd := filepath.Join(t.TempDir(), "initrd")
	if err := writeInitrd(initrd, dir); err != nil {
		t.Fatal(err)
	}
	return Guest{Kernel: filepath.Join(dir, "vmlinuz"), Initrd: initrd}
}

// Image makes a folder an image that boots the guest, with these parameters behind
// Cmdline. Without any the image says nothing of parameters: it boots with the
// drivers' own.
func (g Guest) Image(dir string, parameters ...string) error {
	err := errors.Join(Put(g.Kernel, filepath.Join(dir, "kernel")), Put(g.Initrd, filepath.Join(dir, "initrd")))
	if err != nil || len(parameters) == 0 {
		return err
	}
	line, file := Cmdline+" "+strings.Join(parameters, " "), filepath.Join(dir, "cmdline")
	return errors.Join(os.WriteFile(file, []byte(line), 0o644), Sum(file))
}

// Missing ends a test for want of something besides a guest.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("BERTH_REQUIRE_QEMU") == "1" {
		t.Fatalf("BERTH_REQUIRE_QEMU=1 and there is no %s", what)
	}
	t.Skipf("skipped: needs %s", what)
}

// modules are what the guest loads, in this order: disks, ISO 9660, the power
// button, the network, and what tells the hypervisor of a panic. All else that it needs is in the
// kernel.
func modules() []string {
	return strings.Fields("virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk " +
		"cdrom isofs button evdev failover net_failover virtio_net pvpanic pvpanic-mmio")
}

// find gives the folder with kernel, busybox and modules, and fills it first if
// it is not there: BERTH_GUEST, or one among the user's caches.
func find() (string, error) {
	for _, program := range []string{"qemu-system-x86_64", "qemu-img"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", err
		}
	}
	dir := os.Getenv("BERTH_GUEST")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "berth-guest-3") // another number for other modules
	}
	if _, err := os.Stat(filepath.Join(dir, "vmlinuz")); err == nil {
		return dir, nil
	}
	return dir, download(dir)
}

// download unpacks two packages without installing them.
func download(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "berth-guest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	out, err := exec.Command("apt-cache", "depends", "linux-image-cloud-amd64").Output()
	if err != nil {
		return fmt.Errorf("apt-cache depends linux-image-cloud-amd64: %w", err)
	}
	_, kernel, ok := strings.Cut(string(out), "Depends: ")
	if !ok {
		return errors.New("apt knows no linux-image-cloud-amd64")
	}
	kernel, _, _ = strings.Cut(kernel, "\n")
	script := `set -e; cd "$1"; apt-get download -q "$2" busybox-static; for p in *.deb; do dpkg-deb -x "$p" root; done
mkdir guest; cp root/boot/vmlinuz-* guest/vmlinuz; cp root/bin/busybox guest/ || cp root/usr/bin/busybox guest/
chmod 0644 guest/vmlinuz
shift 2; for m; do cp $(find root -name "$m.ko") guest/; done`
	cmd := exec.Command("sh", append([]string{"-c", script, "sh", work, strings.TrimSpace(kernel)}, modules()...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("download of %s and busybox-static: %w: %s", kernel, err, out)
	}
	if err := os.Rename(filepath.Join(work, "guest"), dir); err != nil {
		if _, there := os.Stat(filepath.Join(dir, "vmlinuz")); there != nil {
			return err // and not: somebody else was quicker
		}
	}
	return nil
}
