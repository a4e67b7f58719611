// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
)

// Swap is a way in which somebody exchanges a machine's image for what its guest must not read.
type Swap struct {
	Name  string
	Image string
	Do    func()
	Was   string // a guest of the image prints it once at each boot
	Is    string // a guest of what is there then would print it; empty: it would not boot
}

const stolen = "host file" // as long as guesttest.TinyUp

// Swaps make images in a driver's folder of them, for machines of QEMU's. They need qemu-img.
func Swaps(t *testing.T, g guesttest.Guest, dir string) []Swap {
	in := func(name string) string { return filepath.Join(dir, name) }
	tiny, secret := guesttest.BootDisk(guesttest.Tiny),
		guesttest.BootDisk(strings.Replace(guesttest.Tiny, guesttest.TinyUp, stolen, 1))
	secrets := t.TempDir()
	file := filepath.Join(secrets, "file")
	ok(t, os.WriteFile(file, secret, 0o600))
	tool := func(args ...string) {
		t.Helper()
		ctx, cancel := Waiting(t)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "qemu-img", args...).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img %v: %v: %s", args, err, out)
		}
	}
	put := func(name string, content []byte) {
		t.Helper()
		ok(t, os.WriteFile(in(name), content, 0o644))
		ok(t, guesttest.Sum(in(name)))
	}
	replaced := func(name string, to func(next string)) func() { // as a program does that never leaves half a file
		return func() {
			to(in(name + ".next"))
			ok(t, os.Rename(in(name+".next"), in(name)))
			ok(t, guesttest.Sum(in(name)))
		}
	}
	for _, name := range []string{"linked.raw", "replaced.raw", "written.raw", "gone.raw"} {
		put(name, tiny)
	}
	tool("convert", "-f", "raw", "-O", "qcow2", in("gone.raw"), in("backed.qcow2"))
	ok(t, guesttest.Sum(in("backed.qcow2")))
	ok(t, g.Image(in("folder"), guesttest.Listen))
	ok(t, os.Mkdir(filepath.Join(secrets, "folder"), 0o700))
	for _, name := range []string{"kernel", "initrd"} {
		ok(t, os.WriteFile(filepath.Join(secrets, "folder", name), []byte("garbage"), 0o600))
	}
	link := func(name, to string) func() {
		return replaced(name, func(next string) { ok(t, os.Symlink(to, next)) })
	}
	disk := func(name string, do func()) Swap {
		return Swap{Name: "image is " + name, Image: name, Do: do, Was: guesttest.TinyUp, Is: stolen}
	}
	return []Swap{
		disk("linked", link("linked.raw", file)),
		disk("replaced", replaced("replaced.raw", func(next string) { ok(t, os.WriteFile(next, secret, 0o644)) })),
		disk("written", func() { put("written.raw", secret) }),
		disk("gone", func() { ok(t, os.Remove(in("gone.raw"))) }),
		disk("backed", replaced("backed.qcow2", func(next string) {
			tool("create", "-q", "-f", "qcow2", "-b", file, "-F", "raw", next)
		})),
		{Name: "image's folder is linked", Image: "folder", Was: guesttest.Up, Do: func() {
			ok(t, os.Rename(in("folder"), in("folder.was")))
			ok(t, os.Symlink(filepath.Join(secrets, "folder"), in("folder")))
		}},
	}
}

// swapped: what a machine was prepared with is what its guest reads at each start, whatever has become of the image.
func swapped(t *testing.T, s Subject) {
	if s.Swaps == nil {
		return
	}
	for _, swap := range s.Swaps() {
		boots := 0
		booted := func() {
			t.Helper()
			boots++
			Await(t, swap.Name+": a guest is up", func() bool {
				printed := s.printed(t, first)
				if swap.Is != "" && strings.Contains(printed, swap.Is) {
					t.Fatalf("%s: the guest reads what is there now: %q", swap.Name, printed)
				}
				return strings.Count(printed, swap.Was) >= boots
			})
		}
		image := func(s *hypervisor.Spec) { s.Image = swap.Image }
		ok(t, s.Driver.Prepare(t.Context(), s.spec(first, 1, "c1", image)))
		s.Kill(first) // its process, which has the image open, as a host's restart does
		swap.Do()
		ok(t, s.Driver.Launch(t.Context(), first, 1, "c1"))
		booted()
		ok(t, s.Driver.Stop(t.Context(), first, 0))
		ok(t, s.Reopen().Start(t.Context(), first))
		booted()
		ok(t, s.Driver.Destroy(t.Context(), first))
		s.empty(t)
	}
}
