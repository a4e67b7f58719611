// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/pkg/compute"
)

// BadImages are images with which a guest would read what is not its own, or that
// nobody vouches for, in a driver's folder of images. They need qemu-img.
func BadImages(t *testing.T, dir string) []Breakage {
	secret := filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(secret, make([]byte, 1<<20), 0o600))
	in := func(name string) string { return filepath.Join(dir, name) }
	bad := func(name string, class compute.FailureClass, make func(), sums ...string) Breakage {
		return Breakage{Name: "image " + name, Class: class, Image: class == compute.FailureHost,
			Break: func(s *hypervisor.Spec) func() {
				make()
				for _, file := range sums {
					ok(t, guesttest.Sum(in(file)))
				}
				s.Image = "bad"
				return func() {
					files, err := filepath.Glob(in("bad*"))
					for _, file := range files {
						err = errors.Join(err, os.RemoveAll(file))
					}
					ok(t, err)
				}
			}}
	}
	tool := func(args ...string) func() {
		return func() {
			ctx, cancel := Waiting(t)
			defer cancel()
			for {
				out, err := exec.CommandContext(ctx, "qemu-img", args...).CombinedOutput()
				if err == nil {
					return
				}
				// It measures how long a key takes, and gives up where the kernel counts no processor time for that.
				if !bytes.Contains(out, []byte("accurate CPU usage")) || ctx.Err() != nil {
					t.Fatalf("qemu-img %v: %v: %s", args, err, out)
				}
			}
		}
	}
	create := func(args ...string) func() { return tool(append([]string{"create", "-q"}, args...)...) }
	link := func(to, name string) func() { return func() { ok(t, os.Symlink(to, in(name))) } }
	kernel := func(and func()) func() {
		return func() {
			ok(t, os.Mkdir(in("bad"), 0o755))
			ok(t, os.WriteFile(in("bad/kernel"), []byte("\x7fELF"), 0o644))
			and()
		}
	}
	const request, host = compute.FailureRequest, compute.FailureHost
	return []Breakage{
		bad("has a backing file", request, create("-f", "qcow2", "-b", secret, "-F", "raw", in("bad.qcow2")),
			"bad.qcow2"),
		bad("of version 2 has a backing file", request, create("-f", "qcow2", "-o", "compat=0.10", "-b", secret, "-F",
			"raw", in("bad.qcow2")), "bad.qcow2"),
		bad("has an external data file", request, create("-f", "qcow2", "-o", "data_file="+secret+",data_file_raw=on",
			in("bad.qcow2"), "1M"), "bad.qcow2"),
		bad("is encrypted", request, create("--object", "secret,id=k,data=x", "-f", "qcow2", "-o",
			"encrypt.format=luks,encrypt.key-secret=k,encrypt.iter-time=10", in("bad.qcow2"), "1M"), "bad.qcow2"),
		bad("is qcow2 and says raw", request, create("-f", "qcow2", "-b", secret, "-F", "raw", in("bad.raw")),
			"bad.raw"),
		bad("is vmdk and says raw", request, create("-f", "vmdk", in("bad.raw"), "1M"), "bad.raw"),
		bad("is vdi and says qcow2", request, create("-f", "vdi", in("bad.qcow2"), "1M"), "bad.qcow2"),
		bad("is raw and says qcow2", host, create("-f", "raw", in("bad.qcow2"), "1M"), "bad.qcow2"),
		bad("is a link", host, link(secret, "bad.raw"), "bad.raw"),
		bad("is a link to a folder", host, link(filepath.Dir(secret), "bad")),
		bad("has a link for its initrd", host, kernel(link(secret, "bad/initrd")), "bad/kernel", "bad/initrd"),
		bad("has a link for its parameters", host, kernel(link(secret, "bad/cmdline")), "bad/kernel", "bad/cmdline"),
		bad("has a link for its sum", host, func() {
			ok(t, os.WriteFile(in("bad.raw"), make([]byte, 1<<20), 0o644))
			link(secret, "bad.raw.sha256")()
		}),
		bad("has no sum", host, create("-f", "raw", in("bad.raw"), "1M")),
		bad("is a pipe", host, func() { ok(t, syscall.Mkfifo(in("bad.raw"), 0o600)) }),
	}
}
