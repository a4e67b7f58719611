// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file as a whole or not at all, for its owner alone. It is durable when Replace returns.
func Replace(file string, b []byte) error {
	next := file + ".next"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, file); err != nil {
		return err
	}
	return Settle(filepath.Dir(file))
}

// Settle makes names in a folder durable.
func Settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
