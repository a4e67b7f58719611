// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/pkg/compute"
)

// What is kept of machines has user data and keys in it.
const (
	forNobodyElse fs.FileMode = 0o700 // of a folder: nobody else gets in
	byNameOnly    fs.FileMode = 0o711 // others may go through it to what is theirs, as guests' users to their disks
	othersReadIt  fs.FileMode = 0o044
	othersWriteIt fs.FileMode = 0o022
)

// privateFolder makes a folder for nobody else. One that is there is refused if
// others may read it or write to it: what is in it by now may be known to them, or
// be theirs, and only a person can tell.
func privateFolder(field, dir string) error {
	mode, err := folder(field, dir, forNobodyElse)
	if err == nil && mode&(othersReadIt|othersWriteIt) != 0 {
		return tooWide(field, dir, "read it or write to it", mode, "chmod -R go-rwx "+dir)
	}
	return err
}

// StateFolder makes the folder of an agent's state. Agents of before made one that
// everybody may list: that is taken from others. One that others may write to is
// refused: KindInvalid.
func StateFolder(dir string, log *zap.Logger) error {
	return unlistedFolder("state", dir, byNameOnly, log)
}

// MachinesFolder does the same for the folder of a host's machines. It does nothing where no setting of a driver names
// the folder.
func MachinesFolder(p home.Place, log *zap.Logger) error {
	if p.Setting == "" {
		return nil
	}
	return unlistedFolder(p.Setting, p.Dir, cmp.Or(p.Mode, forNobodyElse), log)
}

// unlistedFolder makes a folder. One that is there is refused if others may write to it: they can put a file of theirs
// in the place of a machine's. If they may only list it, that is taken from them. That they may go through it is not:
// the users that QEMU runs as may need it.
func unlistedFolder(field, dir string, made fs.FileMode, log *zap.Logger) error {
	mode, err := folder(field, dir, made)
	switch {
	case err != nil:
		return err
	case mode&othersWriteIt != 0:
		return tooWide(field, dir, "write to it", mode, "see that nobody else's files are in it and chmod go-w "+dir)
	case mode&othersReadIt == 0:
		return nil
	}
	if err := os.Chmod(dir, mode&^othersReadIt); err != nil { // it is another user's folder
		log.Warn("a folder of this agent may be listed by others", zap.String(field, dir), zap.Error(err))
	}
	return nil
}

// folder makes a folder if it is not there, and returns its permissions.
func folder(field, dir string, mode fs.FileMode) (fs.FileMode, error) {
	unusable := func(err error) error {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: field, Value: dir, Message: "cannot be used",
			Remedy: "give a folder of your own", Cause: err,
		}
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return 0, unusable(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return 0, unusable(err)
	}
	return info.Mode().Perm(), nil
}

// tooWide refuses a folder with which others may do what they must not.
func tooWide(field, dir, may string, mode fs.FileMode, remedy string) error {
	return &compute.Error{
		Kind: compute.KindInvalid, Field: field, Value: dir,
		Message: fmt.Sprintf("others may %s (mode %04o), and user data and keys are kept in it", may, mode),
		Remedy:  remedy + ", or give another folder",
	}
}
