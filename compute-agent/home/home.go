// SPDX-License-Identifier: Apache-2.0

// Package home says which host a folder of machines belongs to, and which journal. An agent holds the folder for as
// long as it runs; an agent of another host, or with another journal, does not start on it. What it would do there is
// to report machines under a name that has no right to them.
//
// Beside the machines lie a mark, which is replaced whole, and an empty file,
// which is locked while an agent runs:
//
//	mark            journal of this agent   the agent
//	none            any                     takes the folder and marks it, or waits: see below
//	same host       the mark's              starts, or waits
//	same host       new, never used         takes it over: the old journal is lost
//	same host       another, used           is refused
//	another host    another                 is refused
//	another host    the mark's              is refused, and is not handed over either
//
// A folder without a machine, where the journal has some, is most likely the empty folder on which a disk is not
// mounted yet, with a mark or without. An agent that took it would report its machines failed, and remove them when the
// disk is there again. That they are gone for good an operator says by handing the folder over.
//
// What is refused can be handed over on purpose (HandOver), but for a journal that came along with another name: its
// grants are the old name's, and the agent would launch them where no record means them.
package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Place is where machines are kept.
type Place struct {
	Dir  string      // the folder; empty: there is none, and it is nobody's
	Name string      // before the names of the files, where hosts share the folder; empty: it is one host's
	Mode fs.FileMode // of the folder, if it has to be made; 0: 0700
	Of   string      // for messages: the command whose machines they are; empty: they are in the folder
	// Setting is what names the folder, where it is an agent's alone, others may not write to it, and each machine has
	// a folder in it by its id. Empty: agents of several users may share it, or nothing in it is secret.
	Setting string
	IfGone  string // for messages: what to do where the machines are gone for good; empty: berth agent adopt
}

// Owner is an agent as far as its machines are concerned.
type Owner struct {
	Host    compute.HostID    `json:"host"`
	Journal compute.JournalID `json:"journal"`
}

// String is for messages.
func (o Owner) String() string { return fmt.Sprintf("host %s (journal %s)", o.Host, o.Journal) }

// Lock is a folder that is held.
type Lock struct {
	file *os.File
	was  Owner
}

// Was is what the folder's mark said before: the zero Owner if it had none.
func (l *Lock) Was() Owner { return l.was }

// Release lets others have the folder. A second call does nothing.
func (l *Lock) Release() error {
	if l == nil || l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Acquire holds a folder for an agent and sees to it that its mark is the agent's.
// unused says that nothing was ever done by the agent's journal, machines how many
// it has that should be in the folder. Without a folder there is nothing to hold, and
// it answers nil.
//
// Errors: KindConflict if another process holds the folder, KindInvalid if the
// folder is another's or cannot be used, KindUnavailable if its disk has no room for
// another mark, or, as ErrAway, is not there. After an error nothing is held or changed.
func (p Place) Acquire(o Owner, unused bool, machines int) (*Lock, error) {
	return p.acquire(o, func(has mark) (gone bool, err error) {
		if has.Owner != o && has.Owner != (Owner{}) && (has.Host != o.Host || !unused) {
			return false, p.foreign(has.Owner, o)
		}
		away := p.present(machines)
		if away != nil && has.Owner == o && has.Gone {
			return true, nil
		}
		return false, away
	})
}

// HandOver marks a folder that no agent holds for another owner and lets go of it. What is not in it is gone. It
// answers the owner before: the zero Owner if the folder had no mark.
//
// Errors: as Acquire, and KindInvalid if the journal was another host's here: it stays with its host's name.
func (p Place) HandOver(o Owner) (was Owner, err error) {
	l, err := p.acquire(o, func(has mark) (gone bool, err error) {
		if has.Host != o.Host && has.Journal == o.Journal {
			return false, p.foreign(has.Owner, o)
		}
		return true, nil
	})
	if err != nil {
		return Owner{}, err
	}
	if l != nil {
		was = l.was
	}
	return was, l.Release()
}

// acquire asks may about a folder, which also says whether what is not in it is gone.
func (p Place) acquire(o Owner, may func(has mark) (gone bool, err error)) (_ *Lock, err error) {
	if p.Dir == "" {
		return nil, nil
	}
	l, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = l.Release() // of an empty file
		}
	}()
	has, err := p.read()
	if err != nil {
		return nil, err
	}
	is := mark{V: 1, Owner: o}
	if is.Gone, err = may(has); err != nil {
		return nil, err
	}
	if l.was = has.Owner; is == has {
		return l, nil
	}
	if err = p.write(is); compute.KindOf(err) == compute.KindUnavailable && (l.was == Owner{} || l.was == o) {
		err = nil // a full disk keeps no agent from the machines that may make room; the next start marks them
	}
	return l, err
}

// lockWait is how long an agent that is just ending is waited for, and lockEvery
// how often it is asked for meanwhile.
const (
	lockWait  = 2 * time.Second
	lockEvery = 50 * time.Millisecond
)

func (p Place) lock() (*Lock, error) {
	mode := p.Mode
	if mode == 0 {
		mode = 0o700
	}
	if err := os.MkdirAll(p.Dir, mode); err != nil {
		return nil, p.unusable(err)
	}
	f, err := os.OpenFile(p.file(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, p.unusable(err)
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(lockEvery) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &Lock{file: f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(p.unusable(err), f.Close())
		}
		if !time.Now().Before(end) {
			return nil, errors.Join(p.held(), f.Close())
		}
	}
}

// The files, behind Name.
const (
	markFile = "owner"
	lockFile = "owner.lock"
)

func (p Place) file(name string) string { return filepath.Join(p.Dir, p.Name+name) }

// mark is the form of the file.
type mark struct {
	V int `json:"v"` // 1
	Owner
	Gone bool `json:"gone,omitempty"` // an operator has said so of the machines that are not in the folder
}

func (p Place) read() (mark, error) {
	b, err := os.ReadFile(p.file(markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	var m mark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil && (m.V != 1 || m.Host == "" || m.Journal == "") {
		err = fmt.Errorf("version %d of host %q, journal %q", m.V, m.Host, m.Journal)
	}
	if err != nil {
		return mark{}, &compute.Error{
			Op: "agent", Kind: compute.KindInvalid, Field: "mark of the machines", Value: p.file(markFile),
			Message: "cannot be read", Cause: err,
			Remedy: "see whose machines these are, and then remove the file: the agent that starts next takes them",
		}
	}
	return m, nil
}

// write replaces the mark; it is durable when write returns.
func (p Place) write(m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	next := p.file(markFile + ".next")
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return p.unusable(err)
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return p.unusable(err)
	}
	if err := os.Rename(next, p.file(markFile)); err != nil {
		return p.unusable(err)
	}
	dir, err := os.Open(p.Dir)
	if err != nil {
		return p.unusable(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return p.unusable(err)
	}
	return nil
}
