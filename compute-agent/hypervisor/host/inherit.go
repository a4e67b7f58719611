// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OwnDescriptors sees to it that programs that are started from now on get none of the descriptors that this process
// has inherited: a machine outlives its agent, and would hold a lock, a socket or a terminal of the process that
// launched the agent for as long as it runs. What Go opens is closed in them anyway, and what is handed to one on
// purpose is not touched.
func (h Host) OwnDescriptors() error {
	entries, err := os.ReadDir(h.Proc + "/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC) // it may be closed by now
		}
	}
	return nil
}
