// SPDX-License-Identifier: Apache-2.0

// Package secretfile reads files with secrets in them: passwords, tokens, private keys. One that other users of the
// machine may read is refused.
package secretfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/berth-project/berth/pkg/compute"
)

// Permissions that nobody but a file's owner may have. A group may read what is root's: so LoadCredential of systemd
// and secrets of Kubernetes give a file to a process that is not its owner.
const (
	others      fs.FileMode = 0o077
	ofRootsFile fs.FileMode = 0o037
)

// Check refuses a file that is not there, or that others may read or write. field is the setting that names it.
// Errors are KindInvalid.
func Check(field, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return compute.Unreadable(field, file, err)
	}
	if info.IsDir() {
		return compute.Invalid(field, file, "give a file: it is a folder")
	}
	denied := others
	if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == 0 {
		denied = ofRootsFile
	}
	if mode := info.Mode().Perm(); mode&denied != 0 {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: field, Value: file,
			Message: fmt.Sprintf("other users of this machine may read or change it (its mode is %#o)", mode),
			Remedy: "chmod 600 " + file + ", with this process's user as its owner, and replace the secret if others " +
				"are there",
		}
	}
	return nil
}

// Read reads a file that Check lets pass.
func Read(field, file string) ([]byte, error) {
	if err := Check(field, file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, compute.Unreadable(field, file, err)
	}
	return text, nil
}
