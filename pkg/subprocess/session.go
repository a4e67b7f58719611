// SPDX-License-Identifier: Apache-2.0

// Package subprocess ends programs together with what they have started.
package subprocess

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// InSession has a program begin a session, which the end of the command's context kills as a whole: every process of it
// that has not made itself a session of its own.
func InSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return killAll(cmd.Process.Pid) }
}

// killAll ends a session. Its leader is not buried yet, so that the number is still its own.
func killAll(leader int) error {
	if err := syscall.Kill(-leader, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return os.ErrProcessDone
}
