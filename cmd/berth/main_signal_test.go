// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSecondSignalEnds: a command that does not heed the first Ctrl-C, here since it reads a file that does not end,
// is ended by another one.
func TestSecondSignalEnds(t *testing.T) {
	endless := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(endless, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0],
		"boot", "--flavor", "m1.small", "--name", "web", "--user-data", endless)
	cmd.Env = append(os.Environ(), asBerth+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	feed, err := os.OpenFile(endless, os.O_WRONLY, 0) // returns once the command has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = feed.Close() }()
	again := time.NewTicker(50 * time.Millisecond) // two that come together may be taken for one
	defer again.Stop()
	late := time.After(time.Minute)
	for {
		select {
		case <-ended:
			if s, is := cmd.ProcessState.Sys().(syscall.WaitStatus); !is || s.Signal() != syscall.SIGINT {
				t.Errorf("it ends with %v", cmd.ProcessState)
			}
			return
		case <-again.C:
			_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		case <-late:
			t.Fatal("it goes on")
		}
	}
}
