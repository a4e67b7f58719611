// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startOn starts a program that may use these processors alone; none: all. A
// program has the processors of the thread that starts it, and so have the threads
// that it begins later. humble: neither it nor any program that it starts gains
// privileges, by a set-uid bit or otherwise.
func startOn(cmd *exec.Cmd, cpus []int, humble bool) error {
	var now unix.CPUSet
	for _, n := range cpus {
		if now.Set(n); !now.IsSet(n) {
			return fmt.Errorf("processor %d: only %d can be told apart", n, len(now)*64)
		}
	}
	started := make(chan error)
	go func() {
		// And never unlocked: the thread ends with this, for what it gives up it does not get back.
		runtime.LockOSThread()
		if len(cpus) > 0 {
			if err := unix.SchedSetaffinity(0, &now); err != nil {
				started <- fmt.Errorf("processors %v, those of its NUMA node, cannot be had: %w", cpus, err)
				return
			}
		}
		if humble {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				started <- fmt.Errorf("privileges cannot be given up: %w", err)
				return
			}
		}
		started <- cmd.Start()
	}()
	return <-started
}
