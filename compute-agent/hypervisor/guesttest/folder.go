// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
)

// Folder is an empty folder for machines. It goes with the test, and so do the
// QEMUs below it. Its name is short, for sockets: t.TempDir's is too long.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		all, err := below(dir)
		for tries := 0; err != nil && tries < 100; tries++ {
			time.Sleep(100 * time.Millisecond) // no event tells that processes can be read again
			all, err = below(dir)
		}
		if err != nil { // what is left takes room from all that comes after it
			t.Errorf("whether machines are left in %s cannot be seen: %v", dir, err)
		}
		for _, p := range all {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// Below are the QEMUs on this host with a file below a folder, known to a driver or not; dead ones are left out.
func Below(t testing.TB, dir string) (found []host.Process) {
	t.Helper()
	found, err := below(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func below(dir string) (found []host.Process, err error) {
	all, err := host.This().Processes()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if strings.Contains(strings.Join(p.Args, " "), dir+"/") {
			found = append(found, p)
		}
	}
	return found, nil
}

// Left is what a folder holds of machines: all besides the mark that says whose it is, and copies of images that no
// machine has.
func Left(t testing.TB, dir string) (left []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "owner" && e.Name() != "owner.lock" && e.Name() != image.Kept {
			left = append(left, e.Name())
		}
	}
	copies, err := filepath.Glob(filepath.Join(dir, image.Kept, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range copies {
		var is syscall.Stat_t
		if err := syscall.Stat(file, &is); err != nil {
			t.Fatal(err)
		}
		if is.Nlink > 1 {
			left = append(left, file+", to which there is a link")
		}
	}
	return left
}
