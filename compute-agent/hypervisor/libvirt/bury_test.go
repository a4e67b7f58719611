// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// buryOrphans makes the test the parent of what its libvirtds leave behind, and
// buries it. libvirt waits for a QEMU that it has ended until it is buried, and
// some hosts' init takes seconds over that.
var buryOrphans = sync.OnceValue(func() error {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			entries, _ := os.ReadDir("/proc")
			for _, e := range entries {
				if pid, err := strconv.Atoi(e.Name()); err == nil && isOrphan(e.Name()) {
					_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
				}
			}
		}
	}()
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
})

// isOrphan knows what libvirtd starts, QEMU before its exec included; for all
// else its parent waits.
func isOrphan(pid string) bool {
	name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	for _, is := range []string{"qemu-system", "virtlogd", "rpc-", "prio-rpc-"} {
		if bytes.HasPrefix(name, []byte(is)) {
			return true
		}
	}
	return false
}
