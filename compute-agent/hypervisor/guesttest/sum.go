// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Sum writes a file's checksum beside it, as sha256sum does.
func Sum(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	return os.WriteFile(file+".sha256", fmt.Appendf(nil, "%x  %s\n", h.Sum(nil), filepath.Base(file)), 0o644)
}

// Put puts a file into a folder of images, with its checksum. It is no symbolic link:
// those are not followed there.
func Put(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	err := os.Link(from, to)
	if err != nil { // another file system, perhaps
		b, unread := os.ReadFile(from)
		if err = unread; err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
	}
	return errors.Join(err, Sum(to))
}
