package qemu

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startOn starts a program that may use these processors alone; none: all. A
// program has the processors of the thread that starts it, and so have the threads
// that it begins later.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	var before, now unix.CPUSet
	for _, n := range cpus {
		if now.Set(n); !now.IsSet(n) {
			return fmt.Errorf("processor %d: only %d can be told apart", n, len(now)*64)
		}
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.SchedGetaffinity(0, &before)
		if err == nil {
			err = unix.SchedSetaffinity(0, &now)
		}
		if err != nil {
			runtime.UnlockOSThread()
			started <- fmt.Errorf("processors %v, those of its NUMA node, cannot be had: %w", cpus, err)
			return
		}
		err = cmd.Start()
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with this
		}
		started <- err
	}()
	return <-started
}
