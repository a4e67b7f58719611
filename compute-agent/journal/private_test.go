// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"path/filepath"
	"testing"
)

// A journal, and the folder made for it, are for nobody else: user data and keys are
// in it. One that others may read, as a copy that was put back, is taken from them.
func TestTheFileIsPrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(folder, "h1.journal")
	j := open(t, path)
	mode := func(file string, want os.FileMode) {
		t.Helper()
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %s, want %s (%v)", file, info.Mode(), want, err)
		}
	}
	mode(folder, 0o700)
	mode(path, 0o600)
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	reopen(t, j, path)
	mode(path, 0o600)
}
