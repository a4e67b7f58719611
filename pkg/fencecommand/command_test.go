// SPDX-License-Identifier: Apache-2.0

package fencecommand

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func shell(script string) []string { return []string{"sh", "-c", script, "fence"} }

func TestExitsWithZero(t *testing.T) {
	c := Command{Args: shell(`test "$1" = host-17 && test "$BERTH_HOST" = host-17`)}
	for range 2 { // the arguments stay as they were
		if err := c.Fence(t.Context(), "host-17"); err != nil {
			t.Error(err)
		}
	}
	if err := c.Fence(t.Context(), "host-18"); err == nil {
		t.Error("another host is dead, too")
	}
}

func TestWhatItSaidIsInTheError(t *testing.T) {
	script := `for i in 1 2 3 4 5 6 7; do echo "line $i"; done; head -c 100000 /dev/zero | tr '\0' x; echo; ` +
		`echo no power >&2; exit 3`
	err := Command{Args: shell(script)}.Fence(t.Context(), "host-17")
	if compute.KindOf(err) != compute.KindConflict || len(err.Error()) > 4<<10 {
		t.Fatalf("%d bytes: %v", len(err.Error()), err)
	}
	for _, want := range []string{"host-17", "exit status 3", "no power", "--fenced"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 1") {
		t.Errorf("more than the last lines: %v", err)
	}
}

func TestOneThatNeverEndsIsKilled(t *testing.T) {
	for within := time.Second; ; within *= 2 { // a busy machine may not have begun it within a second
		err := Command{Args: shell(`echo asks the switch; sleep 600 & sleep 600`), Timeout: within}.Fence(
			t.Context(), "host-17",
		)
		if err == nil || !strings.Contains(err.Error(), "within "+within.String()) {
			t.Fatalf("answers %v", err)
		}
		if strings.Contains(err.Error(), "asks the switch") {
			return
		}
		if within > time.Minute {
			t.Fatalf("what it said is not in %v", err)
		}
	}
}

// Its children are killed with it. All of them hold a FIFO open, so that its end says that they are gone.
func TestItsChildrenAreKilledToo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DIR", dir)
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for the program
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	c := Command{Args: shell(`exec 3>"$DIR/fifo"; (sleep 60; touch "$DIR/off") & wait`), Timeout: time.Second}
	if err := c.Fence(t.Context(), "host-17"); err == nil || !strings.Contains(err.Error(), "within 1s") {
		t.Errorf("answers %v", err)
	}
	if _, err := io.Copy(io.Discard, held); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "off")); err == nil {
		t.Error("a child of the killed program went on, and switched the host off")
	}
}

func TestWhatRunsOnInTheBackgroundDoesNotCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("FILE", file)
	t.Cleanup(func() {
		text, err := os.ReadFile(file)
		pid, failed := strconv.Atoi(strings.TrimSpace(string(text)))
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error("what was in the background has not run on:", err)
		}
	})
	if err := (Command{Args: shell(`sleep 600 & echo $! >"$FILE"; exit 0`)}).Fence(t.Context(), "host-17"); err != nil {
		t.Error(err)
	}
	failing := Command{Args: shell(`sleep 600 & kill $(cat "$FILE"); echo $! >"$FILE"; exit 1`)}
	if err := failing.Fence(t.Context(), "host-17"); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("answers %v", err)
	}
}

func TestNoSuchProgram(t *testing.T) {
	if err := (Command{Args: []string{"/nowhere/fence"}}).Fence(t.Context(), "host-17"); err == nil ||
		!strings.Contains(err.Error(), "/nowhere/fence") {
		t.Errorf("answers %v", err)
	}
}
