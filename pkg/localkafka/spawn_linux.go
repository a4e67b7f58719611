// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that made it
// ends, however that happens: a broker never outlives its test.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// spawn starts cmd from a thread that lives as long as the child, and closes
// done when the child is gone.
func spawn(cmd *exec.Cmd, done chan<- struct{}) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended does not matter: it is killed, always
			close(done)
		}
	}()
	return <-started
}
