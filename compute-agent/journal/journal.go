// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/berth-project/berth/pkg/compute"
)

// Options say how the file is opened. The zero value is right in production.
type Options struct {
	// Host is whose journal it is. The first Write notes it in the file, and Open refuses a file with another name:
	// what it says was granted, was granted to that one. Empty: neither is done.
	Host     compute.HostID
	NoSync   bool          // do not wait for the disk: for tests alone, a power cut loses what was written
	LockWait time.Duration // how long another process's lock is waited for; 0: 2 s
	// OpenFile opens the file; nil is os.OpenFile. A simulation gives a file
	// that loses what was not synced.
	OpenFile func(name string, flag int, perm fs.FileMode) (*os.File, error)
	// Written hears of every change that is on disk, before its Write answers;
	// nil: nobody does. Each took Syncs waits for the disk. It must not block.
	Written func()
	// Reserve is the room in bytes that the disk keeps beyond what was ever used;
	// 0: 1 MiB, or none with NoSync; negative: none. See Room.
	Reserve int64
}

// Syncs is how often one change waits for the disk: bbolt syncs the pages, and
// then the page that makes them count.
const Syncs = 2

// Journal is an open file. All methods may be called from any goroutine.
type Journal struct {
	db      *bbolt.DB
	file    *os.File // bbolt's, and closed by it
	id      compute.JournalID
	fresh   bool
	host    compute.HostID // whose it is; may be empty
	written func()         // may be nil
	reserve int64          // none if not positive
	kept    atomic.Int64   // the size for which the disk keeps room, whatever comes; 0: not known
}

// State is everything that is written down.
type State struct {
	ID      compute.JournalID
	Entries map[compute.InstanceID]Entry
	Given   []Given       // oldest first
	Failed  []FailedClaim // likewise
	// Position is the offset of the first record of the host's stream that has
	// not been acted upon; Positioned is false before any has.
	Position   int64
	Positioned bool
	Host       Host
}

// Unused says whether nothing was ever done by this journal: no agent has read its
// host's stream with it.
func (s State) Unused() bool {
	return !s.Positioned && len(s.Entries) == 0 && len(s.Given) == 0 && len(s.Failed) == 0
}

// Machines counts the instances of which there should be a machine on the host: those that were claimed, unless they
// could not be prepared, are ending, or hold room without one.
func (s State) Machines() (n int) {
	for _, e := range s.Entries {
		claimed := e.Stage == StageClaimed && e.Broken == nil
		if (claimed || e.Stage == StageGranted) && !e.Placeholder {
			n++
		}
	}
	return n
}

// Change is what one Write does, all of it or nothing.
type Change struct {
	Put      []Entry
	Forget   []compute.InstanceID // after Put; not there: fine
	GiveBack []Given
	Fail     []FailedClaim
	Position *int64
	Host     *Host
}

// Empty says whether there is nothing to write.
func (c Change) Empty() bool {
	return len(c.Put) == 0 && len(c.Forget) == 0 && len(c.GiveBack) == 0 && len(c.Fail) == 0 &&
		c.Position == nil && c.Host == nil
}

// Open opens the journal at path, or makes a new one with an id of its own.
//
// Errors: KindConflict if another process has it open, KindInvalid if it is damaged, another host's or of a later
// version, KindUnavailable if the disk has no room. A damaged file is left as it is: see Recover.
func Open(path string, o Options) (j *Journal, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, unusable(path, err)
	}
	o = o.withDefaults()
	var file *os.File
	defer func() {
		if err != nil {
			release(file)
		}
	}()
	opened := func(name string, flag int, perm fs.FileMode) (_ *os.File, err error) {
		if file, err = o.OpenFile(name, flag, perm); err != nil {
			return nil, err
		}
		private(file)
		return file, begun(file, o.Reserve)
	}
	err = contain(path, func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: o.LockWait, NoSync: o.NoSync, OpenFile: opened})
		if err != nil {
			return err
		}
		j = &Journal{db: db, file: file, host: o.Host, written: o.Written, reserve: o.Reserve}
		return j.prepare()
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

func (o Options) withDefaults() Options {
	o.LockWait = cmp.Or(o.LockWait, 2*time.Second)
	if o.Reserve == 0 && !o.NoSync {
		o.Reserve = reserve
	}
	if o.OpenFile == nil {
		o.OpenFile = os.OpenFile
	}
	return o
}

// private takes the file from everybody else, if a copy that was put back let them
// read it: user data and keys are in it. One that is not ours stays as it is.
func private(f *os.File) { _ = f.Chmod(0o600) }

// Close releases the file; a second call does nothing.
func (j *Journal) Close() error { return j.db.Close() }

// release lets go of a file that bbolt may have panicked over: then it is still
// mapped, and a mapped file keeps its lock though it is closed. Of nil there is nothing to let go of.
func release(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // of a file that bbolt closed there is none
	_ = f.Close()
}

// ID is made with the file and never changes.
func (j *Journal) ID() compute.JournalID { return j.id }

// Fresh says whether Open made the file.
func (j *Journal) Fresh() bool { return j.fresh }

// prepare makes what a new file needs and checks what an old one has.
func (j *Journal) prepare() error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		for _, b := range []string{metaBucket, entryBucket, givenBucket, failedBucket} {
			if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
				return err
			}
		}
		var id compute.JournalID
		there, err := get(bucket(tx, metaBucket), idKey, &id)
		switch {
		case err != nil:
			return err
		case there:
			j.id = id
			return j.checkHost(tx)
		}
		j.id, j.fresh = compute.JournalID(rand.Text()), true
		return put(bucket(tx, metaBucket), idKey, j.id)
	})
}

// checkHost refuses a file that was written under another name. One from before names were noted is anybody's.
func (j *Journal) checkHost(tx *bbolt.Tx) error {
	var of compute.HostID
	there, err := get(bucket(tx, metaBucket), nameKey, &of)
	if err != nil || !there || j.host == "" {
		return err
	}
	if of != j.host {
		return anothers(j.db.Path(), j.id, of, j.host)
	}
	return nil
}

// contain classifies errors, and turns into errors the panics, and the faults of
// a mapped file that is shorter than it says, by which bbolt answers a damaged
// file.
func contain(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damaged(path, fmt.Errorf("%v", p))
		}
	}()
	return classify(path, f())
}

// errValue marks what is in the file and makes no sense.
var errValue = errors.New("a value cannot be read")

func classify(path string, err error) error {
	var e *compute.Error
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, bolterrors.ErrTimeout):
		return inUse(path)
	case errors.Is(err, bolterrors.ErrInvalid),
		errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, errValue):
		return damaged(path, err)
	case compute.DiskFull(err):
		return full(path, err)
	}
	return unusable(path, err)
}

func damaged(path string, cause error) error {
	return &compute.Error{
		Op: "open journal", Kind: compute.KindInvalid, Field: "journal", Value: path,
		Cause:   fmt.Errorf("%w: %w", errDamaged, cause),
		Message: "is damaged",
		Remedy:  "move it aside and start again: the agent asks the hypervisor and the conductor what belongs here",
	}
}

func anothers(path string, id compute.JournalID, of, is compute.HostID) error {
	return &compute.Error{
		Op: "open journal", Kind: compute.KindInvalid, Field: "journal", Value: path,
		Message: fmt.Sprintf("is host %s's (journal %s), and this agent is host %s: what it says was granted, "+
			"was granted to %[1]s", of, id, is),
		Remedy: fmt.Sprintf("set host to %s again, or move this journal away: under a new name a host begins with a "+
			`new, empty one, to which "berth agent adopt" hands the folder of machines over`, of),
	}
}

func unusable(path string, cause error) error {
	return &compute.Error{
		Op: "open journal", Kind: compute.KindUnavailable, Field: "journal", Value: path, Cause: cause,
		Message: "cannot be used",
		Remedy:  "give a folder that this process may write to, on a disk with room that survives a reboot",
	}
}
