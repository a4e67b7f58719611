// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package localkafka

import (
	"os/exec"
	"syscall"
)

// dieWithParent does what it can where the kernel cannot kill with the parent.
func dieWithParent() *syscall.SysProcAttr { return nil }

func spawn(cmd *exec.Cmd, done chan<- struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}
