// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/berth-project/berth/pkg/compute"
)

// A caller that wants no room has none kept, whatever the file.
func TestNoRoom(t *testing.T) {
	must(t, (&Journal{}).Room())
	for _, reserve := range []int64{0, -1} {
		f, err := os.Create(filepath.Join(t.TempDir(), "journal"))
		must(t, err)
		must(t, begun(f, reserve))
		var is syscall.Stat_t
		must(t, syscall.Fstat(int(f.Fd()), &is))
		if must(t, f.Close()); is.Blocks != 0 {
			t.Errorf("with a reserve of %d it has %d blocks", reserve, is.Blocks)
		}
	}
}

// Where a disk keeps no room, what is free has to do, however much the file system says.
func TestFreeHasToDo(t *testing.T) {
	for _, c := range []struct {
		needs  int64
		blocks uint64
		has    bool
	}{
		{0, 0, true}, {-512, 0, true}, {1, 0, false}, {1, 1, true}, {4096, 1, true}, {4097, 1, false}, {4097, 2, true},
		{1 << 20, 1 << 51, true}, {1 << 20, math.MaxUint64, true}, {math.MaxInt64, math.MaxUint64, true},
	} {
		switch err := lacks(c.needs, c.blocks, 4096); {
		case c.has && err != nil:
			t.Errorf("%d bytes and %d blocks: %v", c.needs, c.blocks, err)
		case !c.has && !errors.Is(err, syscall.ENOSPC):
			t.Errorf("%d bytes and %d blocks: %v, want no space", c.needs, c.blocks, err)
		}
	}
}

// A file that another process has just begun is in use, and not damaged; one that is
// as short as a journal may be is one.
func TestBegun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	must(t, os.WriteFile(path, []byte("half of a page"), 0o600))
	f := opened(t, path)
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	_, err := Open(path, Options{LockWait: time.Millisecond})
	refused(t, err, compute.KindConflict, "another process")
	must(t, f.Close())
	_, err = Open(path, Options{LockWait: time.Millisecond})
	refused(t, err, compute.KindInvalid, "is damaged", "it has 14 bytes")

	must(t, os.Remove(path))
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 4096})
	must(t, err)
	must(t, db.Close())
	if info, err := os.Stat(path); err != nil || info.Size() != leastFile {
		t.Fatalf("bbolt begins with %d bytes, %v", info.Size(), err)
	}
	j, err := Open(path, Options{NoSync: true})
	must(t, err)
	must(t, j.Close())
}
