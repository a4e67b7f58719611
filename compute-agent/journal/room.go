// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/berth-project/berth/pkg/compute"
)

// reserve is the room that a journal has on its disk beyond what it has ever
// used. A thousand machines need half of it, and so do as many claims that failed.
const reserve = 1 << 20

// leastFile is the shortest that a whole journal can be: bbolt begins a file with
// four pages.
const leastFile = 4 * 4096

// Room has the disk keep room for the journal, and says whether it does: enough
// for everything that this host will write for long, however full the disk gets.
// What fills it are machines, and an agent that cannot write cannot delete them.
//
// Errors: KindUnavailable if there is no such room. It may be asked again, at any
// time, and costs nothing while what it has kept is enough.
func (j *Journal) Room() error {
	if j.reserve <= 0 {
		return nil
	}
	err := contain(j.db.Path(), func() error {
		var used int64
		if err := j.db.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil }); err != nil {
			return err
		}
		if used+j.reserve/2 <= j.kept.Load() {
			return nil
		}
		stays, err := keep(j.file, used+j.reserve)
		if err == nil && stays {
			j.kept.Store(used + j.reserve)
		}
		return err
	})
	var e *compute.Error
	if errors.As(err, &e) {
		e.Op = "keep room for the journal"
	}
	return err
}

// begun makes sure of a new file's room before anything is written to it: the
// first half of one looks like a journal that was damaged. It holds the file's
// lock, as bbolt does from then on; if somebody else has it, the file is theirs.
func begun(f *os.File, reserve int64) error {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch size := info.Size(); {
	case size > 0 && size < leastFile:
		return damaged(f.Name(), fmt.Errorf("it has %d bytes", size))
	case size > 0 || reserve <= 0:
		return nil
	}
	if _, err := keep(f, leastFile+reserve); err != nil {
		return errors.Join(err, f.Truncate(0)) // what it has got of it
	}
	return nil
}

// free refuses if the disk has less room than a file needs to become so large.
// It is for file systems that keep none.
func free(f *os.File, size int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &disk); err != nil {
		return err
	}
	var file syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &file); err != nil {
		return err
	}
	return lacks(size-file.Blocks*512, disk.Bavail, int64(disk.Bsize))
}

// lacks refuses if so many free blocks have less room than is needed. It does not count their bytes: a file system of
// another machine may say that it has more than can be counted.
func lacks(needs int64, blocks uint64, size int64) error {
	if needs <= 0 || uint64((needs-1)/max(1, size)) < blocks {
		return nil
	}
	return fmt.Errorf("%w: it needs %d bytes more, and %d blocks of %d are free", syscall.ENOSPC, needs, blocks, size)
}

// full is about a disk, not about a file.
func full(path string, cause error) error {
	return &compute.Error{
		Op: "open journal", Kind: compute.KindUnavailable, Field: "journal", Value: path, Cause: cause,
		Message: "has no room on its disk",
		Remedy:  "make room there: the agent goes on by itself where it was, and this host's machines run on meanwhile",
	}
}
