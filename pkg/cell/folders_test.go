// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// The folder of an agent's state is made so that others may go through it, to a disk
// that is theirs, and not list it; one of before, which they may list, is taken from
// them; one that they may write to is refused.
func TestStateFolder(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		was, is os.FileMode // was 0: it is not there
		refused bool
	}{
		{0, 0o711, false}, {0o755, 0o711, false}, {0o700, 0o700, false}, {0o750, 0o710, false},
		{0o775, 0o775, true}, {0o702, 0o702, true},
	} {
		state := filepath.Join(dir, "state")
		if c.was != 0 {
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(state, c.was); err != nil {
				t.Fatal(err)
			}
		}
		err := StateFolder(state, zap.NewNop())
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "chmod go-w "+state) {
			t.Errorf("%s: %v", c.was, err)
		}
		if info, err := os.Stat(state); err != nil || info.Mode().Perm() != c.is {
			t.Errorf("%s is %s, want %s (%v)", c.was, info.Mode(), c.is, err)
		}
		if err := os.Remove(state); err != nil {
			t.Fatal(err)
		}
	}
}
