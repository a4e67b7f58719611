package qemu

import (
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, n := range cpus {
		now.Set(n)
	}
	if err := unix.SchedSetaffinity(0, &now); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return cmd.Start()
}
