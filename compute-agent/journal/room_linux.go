// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"os"
	"syscall"
)

const keepSize = 1 // FALLOC_FL_KEEP_SIZE: how long the file is does not change

// keep has the disk keep room for a file of a size. stays is false where the file
// system does not keep any: then there is room now, and perhaps not later.
func keep(f *os.File, size int64) (stays bool, err error) {
	for {
		err = syscall.Fallocate(int(f.Fd()), keepSize, 0, size)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return false, free(f, size)
	}
	return true, err
}
