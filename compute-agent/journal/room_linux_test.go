// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// Room that is kept is not asked for again until half of the reserve is used. A file
// that is closed shows whether the disk was asked.
func TestRoomIsKeptOnce(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "probe"))
	must(t, err)
	err = syscall.Fallocate(int(f.Fd()), keepSize, 0, 4096)
	if must(t, f.Close()); err != nil {
		t.Skipf("the file system keeps no room: %v", err)
	}
	j, err := Open(filepath.Join(dir, "journal"), Options{})
	must(t, err)
	defer j.Close()
	must(t, j.Room())
	kept := j.kept.Load()
	file := opened(t, j.db.Path())
	must(t, file.Close())
	j.file = file
	must(t, j.Room())
	j.kept.Store(kept - j.reserve/2)
	must(t, j.Room())
	j.kept.Add(-1)
	refused(t, j.Room(), compute.KindUnavailable, "keep room for the journal")
}
