// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// Position is how far a receiver has what happened, in a file. It belongs to one forwarder.
type Position struct {
	File string
	Of   string // what is forwarded, and where: a position of something else is refused
}

// Of tells positions of different things apart.
func Of(to string, p compute.Project, wanted client.Follow) string {
	if wanted.AllProjects {
		p = "*"
	}
	all := fmt.Sprintf("%q %q %q %q %d %q %q", to, p, wanted.Instance, wanted.Host, wanted.States, wanted.Reasons, wanted.Labels)
	sum := sha256.Sum256([]byte(all))
	return hex.EncodeToString(sum[:8])
}

// Hold keeps all other forwarders off the file until it is let go, or this process ends. Another that has it is a
// KindConflict. The lock is on a file beside it, which stays: each Save puts a new file in the place of the old one.
func (p Position) Hold() (letGo func(), err error) {
	f, err := os.OpenFile(p.File+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, p.unwritten(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return func() { _ = f.Close() }, nil // which lets it go; nothing was written
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = compute.Conflict("position-file", p.File, "another forwarder has it",
			"stop that one first, or give this one a file of its own")
	default:
		err = p.unwritten(err)
	}
	_ = f.Close() // it was not written to
	return nil, err
}

// kept is what the file has.
type kept struct {
	Position string    `json:"position"` // a Last-Event-ID
	At       time.Time `json:"at"`       // when the receiver took what is before it
	Of       string    `json:"of"`
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
	const another = "; give one that is not there, and all that there is is told first"
	var k kept
	if err := json.Unmarshal(text, &k); err != nil || k.Position == "" {
		return "", compute.Invalid("position-file", p.File, "no forwarder has written it"+another)
	}
	if k.Of != p.Of {
		return "", compute.Invalid("position-file", p.File, "it is of another project, filter or receiver"+another)
	}
	return k.Position, nil
}

// Save takes the place of what the file had, as a whole.
func (p Position) Save(position string, at time.Time) error {
	text, err := json.Marshal(kept{position, at.UTC(), p.Of})
	if err != nil {
		return err
	}
	if err := p.write(append(text, '\n')); err != nil {
		return p.unwritten(err)
	}
	if err := os.Rename(p.beside(), p.File); err != nil {
		return p.unwritten(err)
	}
	return nil
}

// beside is written first: a file that is half written is none.
func (p Position) beside() string { return p.File + ".new" }

func (p Position) write(text []byte) error {
	f, err := os.OpenFile(p.beside(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// probe finds out whether a position can be written, before anything is posted that would be posted again.
func (p Position) probe() error {
	if err := errors.Join(p.write(nil), os.Remove(p.beside())); err != nil {
		return p.unwritten(err)
	}
	return nil
}

func (p Position) unwritten(err error) error {
	return &compute.Error{
		Op: "forward", Kind: compute.KindUnavailable, Field: "position-file", Value: p.File, Message: "cannot be written",
		Remedy: "give a file in a folder that this process may write to, on a disk with room", Cause: err,
	}
}
