// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Position is how far a receiver has what happened, in a file. It belongs to one forwarder.
type Position struct{ File string }

// kept is what the file has.
type kept struct {
	Position string    `json:"position"` // a Last-Event-ID
	At       time.Time `json:"at"`       // when the receiver took what is before it
}

// Load is the position; empty: nothing was taken yet.
func (p Position) Load() (string, error) {
	text, err := os.ReadFile(p.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", compute.Unreadable("position-file", p.File, err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil || k.Position == "" {
		return "", compute.Invalid(
			"position-file",
			p.File,
			"give a file that berth forward has written, or one that is not there: then all that there is is told first",
		)
	}
	return k.Position, nil
}

// Save takes the place of what the file had, as a whole.
func (p Position) Save(position string, at time.Time) error {
	text, err := json.Marshal(kept{position, at.UTC()})
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(p.File), ".berth-forward-")
	if err != nil {
		return p.unwritten(err)
	}
	_, err = temporary.Write(append(text, '\n'))
	for _, then := range []func() error{
		temporary.Sync, temporary.Close, func() error { return os.Rename(temporary.Name(), p.File) },
	} {
		if err == nil {
			err = then()
		}
	}
	if err != nil {
		return p.unwritten(errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}

func (p Position) unwritten(err error) error {
	return &compute.Error{
		Op: "forward", Kind: compute.KindUnavailable, Field: "position-file", Value: p.File, Message: "cannot be written",
		Remedy: "give a file in a folder that this process may write to, on a disk with room", Cause: err,
	}
}
