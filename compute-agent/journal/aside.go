// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// errDamaged is in the chain of every error about a file that is no journal any more.
var errDamaged = errors.New("damaged")

// Recover is Open for an operator who would rather begin anew than not at all: a damaged journal is kept beside the
// new one, under the name it answers. What was in it is then asked of the hypervisor, which knows what runs, and of
// the conductor, which repeats what is open; nothing is started on its word alone.
//
// A journal of a later version is not damaged, and refused. Where the new one
// cannot be made, the damaged one has its new name all the same, and there is an
// error as well.
func Recover(path string, o Options) (j *Journal, aside string, err error) {
	j, err = openWhole(path, o)
	if !errors.Is(err, errDamaged) {
		return j, "", err
	}
	if aside, err = setAside(path); err != nil {
		return nil, "", err
	}
	j, err = Open(path, o)
	return j, aside, err
}

// openWhole opens a journal of which everything can be read.
func openWhole(path string, o Options) (*Journal, error) {
	j, err := Open(path, o)
	if err != nil {
		return nil, err
	}
	if _, err := j.Read(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// setAside renames a damaged file. It holds the file's lock meanwhile, or a
// second process that found the same damage would move away what the first one
// has put there.
func setAside(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // NFS locks no file that is opened to read alone
	if err != nil {
		return "", unusable(path, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	return moveAside(f, path)
}

// moveAside renames the file that was opened at path, if it is there still.
func moveAside(f *os.File, path string) (string, error) {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", inUse(path)
	}
	if !isAt(f, path) {
		return "", inUse(path)
	}
	aside := fmt.Sprintf("%s.damaged-%s", path, time.Now().UTC().Format("20060102T150405.000000000"))
	if err := os.Rename(path, aside); err != nil {
		return "", unusable(path, err)
	}
	return aside, nil
}

// isAt says whether path still is this file. What cannot be found out is the same as nothing.
func isAt(f *os.File, path string) bool {
	ours, _ := f.Stat()
	there, _ := os.Stat(path)
	return os.SameFile(ours, there)
}

func inUse(path string) error {
	return &compute.Error{
		Op: "open journal", Kind: compute.KindConflict, Field: "journal", Value: path, // bbolt would only add "timeout"
		Message: "is in use by another process",
		Remedy: "there can be one agent on a host: stop the other one, or give this one a host name and a state " +
			"folder of its own",
	}
}
