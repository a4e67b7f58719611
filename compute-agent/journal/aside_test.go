// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Only the file that was found damaged is moved, and only by one process.
func TestMoveAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	_, err := setAside(path)
	refused(t, err, compute.KindUnavailable, path, "cannot be used")

	must(t, os.WriteFile(path, []byte("damaged"), 0o600))
	first, second := opened(t, path), opened(t, path)
	must(t, syscall.Flock(int(second.Fd()), syscall.LOCK_EX))
	_, err = moveAside(first, path)
	refused(t, err, compute.KindConflict, "another process")
	must(t, second.Close())

	aside, err := moveAside(first, path)
	must(t, err)
	_, err = moveAside(first, path) // it is not there any more
	refused(t, err, compute.KindConflict, "another process")
	must(t, os.WriteFile(path, []byte("new"), 0o600))
	_, err = moveAside(first, path) // and this is another one
	refused(t, err, compute.KindConflict, "another process")
	if is, err := os.ReadFile(path); err != nil || string(is) != "new" {
		t.Errorf("the new one is %q, %v", is, err)
	}
	if is, err := os.ReadFile(aside); err != nil || string(is) != "damaged" {
		t.Errorf("the damaged one is %q, %v", is, err)
	}
	must(t, first.Close())
	if isAt(first, path) || isAt(first, aside) {
		t.Error("a file that is closed is there")
	}
}

// A damaged file that cannot be renamed stays, and says why.
func TestRecoverThatCannotMove(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("j", 240)) // what is added makes it too long for a name
	must(t, os.WriteFile(path, []byte("damaged"), 0o600))
	j, aside, err := Recover(path, Options{LockWait: time.Millisecond})
	if refused(t, err, compute.KindUnavailable, "file name too long"); j != nil || aside != "" {
		t.Errorf("answers %v, %q", j, aside)
	}
}

func opened(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
