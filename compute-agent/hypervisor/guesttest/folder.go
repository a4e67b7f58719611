// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
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
		for _, p := range Below(t, dir) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// Below are the QEMUs on this host with a file below a folder, known to a driver or not; dead ones are left out.
func Below(t testing.TB, dir string) (found []host.Process) {
	t.Helper()
	all, err := host.This().Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if strings.Contains(strings.Join(p.Args, " "), dir+"/") {
			found = append(found, p)
		}
	}
	return found
}
