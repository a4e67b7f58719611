// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What this process has inherited is not passed on; what a program is given is.
func TestOwnDescriptors(t *testing.T) {
	var inherited [2]int
	if err := syscall.Pipe(inherited[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited[0])
	defer syscall.Close(inherited[1])
	has := func() string {
		t.Helper()
		given, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer given.Close()
		cmd := exec.Command("sh", "-c", "for fd in /proc/$$/fd/*; do echo \"$(basename $fd) $(readlink $fd)\"; done")
		cmd.ExtraFiles = []*os.File{given}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+string(out), "\n3 /dev/null\n") {
			t.Errorf("what it was given is not there: %s", out)
		}
		return string(out)
	}
	pipe, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(inherited[0]))
	if err != nil {
		t.Fatal(err)
	}
	if out := has(); !strings.Contains(out, pipe) {
		t.Fatalf("the test shows nothing: %s is not among %s", pipe, out)
	}
	if err := This().OwnDescriptors(); err != nil {
		t.Fatal(err)
	}
	if out := has(); strings.Contains(out, pipe) {
		t.Errorf("%s was passed on: %s", pipe, out)
	}
}
