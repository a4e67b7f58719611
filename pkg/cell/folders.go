// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// What is kept of machines has user data and keys in it.
const (
	forNobodyElse = 0o700 // of a folder: nobody else gets in
	byNameOnly    = 0o711 // of a folder: others may go through it to what is theirs, as guests' users to their disks
	othersReadIt  = 0o044
	othersWriteIt = 0o022
)

// privateFolder makes a folder for nobody else. One that is there is refused if
// others may read it or write to it: what is in it by now may be known to them, or
// be theirs, and only a person can tell.
func privateFolder(field, dir string) error {
	mode, err := folder(field, dir, forNobodyElse)
	if err == nil && mode&(othersReadIt|othersWriteIt) != 0 {
		return tooWide(field, dir, mode)
	}
	return err
}

// StateFolder makes the folder of an agent's state. Agents of before made one that
// everybody may list: that is taken from others. One that others may write to is
// refused: KindInvalid.
func StateFolder(dir string, log *zap.Logger) error {
	mode, err := folder("state", dir, byNameOnly)
	switch {
	case err != nil:
		return err
	case mode&othersWriteIt != 0:
		return tooWide("state", dir, mode)
	case mode&othersReadIt == 0:
		return nil
	}
	if err := os.Chmod(dir, mode&^othersReadIt); err != nil { // it is another user's folder
		log.Warn("the folder of the state may be listed by others", zap.String("state", dir), zap.Error(err))
	}
	return nil
}

// folder makes a folder if it is not there, and returns its permissions.
func folder(field, dir string, mode os.FileMode) (os.FileMode, error) {
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

func tooWide(field, dir string, mode os.FileMode) error {
	return &compute.Error{
		Kind: compute.KindInvalid, Field: field, Value: dir,
		Message: fmt.Sprintf(
			"others may read it or write to it (mode %04o), and user data and keys are kept in it",
			mode,
		),
		Remedy: "chmod -R go-rwx " + dir + ", or give another folder",
	}
}
