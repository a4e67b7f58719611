// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
)

// A cut that fails on a full disk leaves nothing, and one that succeeds leaves one old file, whatever agents that died
// while they cut have left.
func TestNothingIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		guesttest.Missing(t, "a small file system: "+err.Error())
	}
	defer func() { ok(t, syscall.Unmount(dir, 0)) }()
	l := Log{Dir: dir, Keep: 64 << 10}
	wants := func(names ...string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		ok(t, err)
		for i, file := range files {
			files[i] = filepath.Base(file)
		}
		if !slices.Equal(files, names) {
			t.Errorf("there are %q, and should be %q", files, names)
		}
	}
	ok(t, os.WriteFile(filepath.Join(dir, File), make([]byte, 44<<10), 0o600))
	if err := l.Trim(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a cut without room for it answers %v", err)
	}
	wants(File)
	for _, left := range []string{"0", "7", "9.next"} {
		ok(t, os.WriteFile(filepath.Join(dir, oldPrefix+left), []byte("x"), 0o600))
	}
	ok(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=256k"))
	ok(t, l.Trim())
	wants(File, fmt.Sprint(oldPrefix, 8+44<<10-32<<10))
}
