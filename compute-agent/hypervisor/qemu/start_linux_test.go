// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A program that is started on a processor stays there; the process that started it does not.
func TestStartOn(t *testing.T) {
	var before, after, its unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	last := 0
	for n := range 1024 {
		if before.IsSet(n) {
			last = n
		}
	}
	cmd := exec.Command("sleep", "1000")
	if err := startOn(cmd, []int{last}, true); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &its); err != nil {
		t.Fatal(err)
	}
	if its.Count() != 1 || !its.IsSet(last) {
		t.Errorf("it may run on %d processors, processor %d among them: %v", its.Count(), last, its.IsSet(last))
	}
	for range 50 { // whichever thread this is
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
			t.Fatalf("now this process may run on %d processors of %d (%v)", after.Count(), before.Count(), err)
		}
	}
	for n, says := range map[int]string{1023: "cannot be had", 5000: "processor 5000"} {
		if err := startOn(exec.Command("true"), []int{n}, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("processor %d, which is not there, is answered %v", n, err)
		}
	}
}
