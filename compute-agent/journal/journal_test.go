// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/berth-project/berth/pkg/compute"
)

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func reopen(t *testing.T, j *Journal, path string) *Journal {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func entry(id compute.InstanceID, s Stage) Entry {
	return Entry{
		Instance: id, Project: "p", Name: "web", Queue: "m1.small", Attempt: 2, Claim: "c2",
		Resources: compute.Resources{compute.VCPU: 2}, Trace: "00-ab", Stage: s, Version: 7,
		Reboots: []compute.CommandID{"r1"},
	}
}

// The first write notes whose the journal is; from then on it is opened by no other name, though by any that asks for
// none.
func TestAJournalIsOneHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	as := func(host compute.HostID) (*Journal, error) { return Open(path, Options{NoSync: true, Host: host}) }
	taken := func(host compute.HostID, write bool) {
		t.Helper()
		j, err := as(host)
		if err != nil {
			t.Fatalf("host %q: %v", host, err)
		}
		if write {
			must(t, j.Write(Change{Put: []Entry{entry("a", StageGranted)}}))
		}
		must(t, j.Close())
	}
	taken("", true)
	taken("b", false) // has written nothing
	for range 2 {
		taken("a", true)
	}
	taken("", true)
	j, err := as("b")
	if compute.KindOf(err) != compute.KindInvalid || errors.Is(err, errDamaged) {
		t.Fatalf("of another host: %v, %v", j, err)
	}
	for _, w := range []string{path, "host a", "host b", "set host to a again", "a new, empty one"} {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("the refusal does not say %q: %v", w, err)
		}
	}
	if _, aside, err := Recover(path, Options{NoSync: true, Host: "b"}); err == nil || aside != "" {
		t.Errorf("it was moved aside as %q: %v", aside, err)
	}
	taken("a", false)
}

func TestEverythingComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "journal")
	j := open(t, path)
	if !j.Fresh() || j.ID() == "" {
		t.Errorf("a new journal: fresh %t, id %q", j.Fresh(), j.ID())
	}
	failed := entry("b", StageEnding)
	failed.End = &End{How: OutcomeFailed, Failure: &Failure{Class: compute.FailureTimeout, Message: "slow"}}
	broken := entry("c", StageClaimed)
	broken.Broken = &Failure{Class: compute.FailureRequest, Message: "no such image"}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	position := int64(41)
	host := Host{
		Desired: compute.HostDesired{State: compute.HostDraining, Reason: "repair", Version: 9, Deadline: at},
		Fails:   3, Quarantines: 2, Until: at, Reason: "no disk",
	}
	fails := []FailedClaim{{
		Instance: "d", Attempt: 2, Claim: "c3", Why: Failure{Class: compute.FailureHost, Message: "no disk"},
	}}
	given := []Given{{Instance: "d", Attempt: 1, Claim: "c1", At: at}}
	must(
		t,
		j.Write(Change{
			Put: []Entry{entry("a", StageTaken), failed, broken}, Position: &position, Host: &host,
			GiveBack: given, Fail: fails,
		}),
	)
	must(t, j.Write(Change{Put: []Entry{entry("a", StageGranted), entry("e", StageTaken), entry("f", StageTaken)}}))
	position++ // a change with all there can be
	given = append(given, Given{Instance: "f", Attempt: 2, Claim: "c2", At: at})
	host.Fails = 4
	must(t, j.Write(Change{Forget: []compute.InstanceID{"e", "never", "f"}, Position: &position, Host: &host,
		GiveBack: given[1:]}))
	want := State{
		ID: j.ID(), Position: 42, Positioned: true, Host: host, Given: given, Failed: fails,
		Entries: map[compute.InstanceID]Entry{"a": entry("a", StageGranted), "b": failed, "c": broken},
	}
	j = reopen(t, j, path)
	got, err := j.Read()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" || j.Fresh() {
		t.Errorf("fresh %t: %s", j.Fresh(), diff)
	}
}

func TestPositionZeroIsAPosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	if s, err := j.Read(); err != nil || s.Positioned {
		t.Errorf("a new journal is at %d: %v", s.Position, err)
	}
	zero := int64(0)
	must(t, j.Write(Change{Position: &zero}))
	if s, err := j.Read(); err != nil || !s.Positioned {
		t.Errorf("position 0 is forgotten: %v", err)
	}
}

func TestOldGivenBackClaimsAreForgotten(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	for i := range Remembered + 2 {
		must(t, j.Write(Change{GiveBack: []Given{{Instance: "i", Claim: compute.ClaimID(fmt.Sprint(i))}}}))
	}
	must(t, j.Write(Change{GiveBack: []Given{{}, {}, {Claim: "last"}}, Fail: []FailedClaim{{Claim: "another"}}}))
	s, err := j.Read()
	must(t, err)
	if len(s.Given) != Remembered || s.Given[0].Claim != "5" || s.Given[Remembered-1].Claim != "last" {
		t.Errorf("keeps %d, the oldest %s", len(s.Given), s.Given[0].Claim)
	}
	if len(s.Failed) != 1 || s.Failed[0].Claim != "another" {
		t.Errorf("of those that failed it keeps %+v", s.Failed)
	}
}

func TestOneProcessAHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(path, Options{NoSync: true})
		must(t, err)
		defer j.Close()
		began := time.Now()
		_, err = Open(path, Options{LockWait: time.Second})
		refused(t, err, compute.KindConflict, path, "another process", "stop the other one")
		if waited := time.Since(began); waited > 2*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

// damages are what can become of a file that was written whole.
func damages() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"another file": func([]byte) []byte { return bytes.Repeat([]byte("no journal "), 3000) },
		"cut short":    func(b []byte) []byte { return b[:2*os.Getpagesize()+100] },
		// What is looked for behind this end is a fault of memory.
		"cut later": func(b []byte) []byte { return b[:8*os.Getpagesize()+100] },
		"zeros":     func(b []byte) []byte { return make([]byte, len(b)) },
		"bad pages": func(b []byte) []byte {
			out := bytes.Clone(b)
			for i := 2 * os.Getpagesize(); i < len(out); i++ {
				out[i] = 0xa5
			}
			return out
		},
	}
}

// damagedJournal is a file that once had fifty entries.
func damagedJournal(t *testing.T, damage func([]byte) []byte) (path string, is []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	for i := range 50 {
		must(t, j.Write(Change{Put: []Entry{entry(compute.InstanceID(fmt.Sprint(i)), StageTaken)}}))
	}
	must(t, j.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	is = damage(b)
	must(t, os.WriteFile(path, is, 0o600))
	return path, is
}

func TestDamage(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			path, _ := damagedJournal(t, damage)
			var file *os.File
			j, err := Open(
				path,
				Options{OpenFile: func(name string, flag int, perm fs.FileMode) (_ *os.File, err error) {
					file, err = os.OpenFile(name, flag, perm)
					return file, err
				}},
			)
			if err == nil {
				_, err = j.Read()
				must(t, j.Close())
			}
			refused(t, err, compute.KindInvalid, path, "damaged", "move it aside")
			if err := file.Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("it stays open: closing it answers %v", err)
			}
		})
	}
}

// A damaged journal stays, byte for byte, and a new one begins in its place.
func TestRecoverKeepsWhatIsDamaged(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			path, was := damagedJournal(t, damage)
			j, aside, err := Recover(path, Options{NoSync: true})
			must(t, err)
			s, err := j.Read()
			must(t, err)
			if !j.Fresh() || len(s.Entries) > 0 {
				t.Errorf("the new one has %+v", s)
			}
			must(t, j.Close())
			f, err := os.Open(aside)
			must(t, err)
			defer f.Close()
			must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)) // nobody has it any more
			if kept, err := os.ReadFile(aside); err != nil || !bytes.Equal(kept, was) {
				t.Errorf("%s is not what was damaged: %v", aside, err)
			}
			j, aside, err = Recover(path, Options{})
			must(t, err)
			defer j.Close()
			if j.Fresh() || aside != "" {
				t.Errorf("and another one after it, beside %q", aside)
			}
		})
	}
}

// What somebody else has open, or may read, is nobody's to move.
func TestRecoverLeavesTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		kind    compute.Kind
		says    string
	}{
		"in use": {func(t *testing.T, path string) {
			f, err := os.Open(path)
			must(t, err)
			t.Cleanup(func() { _ = f.Close() })
			must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
		}, compute.KindConflict, "another process"},
		"later": {func(t *testing.T, path string) {
			j := open(t, path)
			must(
				t,
				j.db.Update(
					func(tx *bbolt.Tx) error {
						return bucket(tx, entryBucket).Put(
							[]byte("i"), []byte(`{"v":2,"x":{}}`),
						)
					},
				),
			)
			must(t, j.Close())
		}, compute.KindInvalid, "newer than 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			must(t, open(t, path).Close())
			c.prepare(t, path)
			_, _, err := Recover(path, Options{LockWait: time.Millisecond})
			refused(t, err, c.kind, c.says)
			if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}

func TestLaterVersionsAndBrokenValuesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"later":       {`{"v":2,"x":{}}`, "newer than 1"},
		"none":        {`{"x":{}}`, "version 0"},
		"no json":     {`\x00`, "damaged"},
		"another key": {`{"v":1,"x":{"instance":"other"}}`, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			j := open(t, path)
			must(
				t,
				j.db.Update(
					func(tx *bbolt.Tx) error { return bucket(tx, entryBucket).Put([]byte("i"), []byte(c.value)) },
				),
			)
			_, err := j.Read()
			if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Read answers %v, want something with %q", err, c.want)
			}
		})
	}
}

// What is known of the host as a whole is not made up where it cannot be read.
func TestBrokenValuesOfTheHostAreRefused(t *testing.T) {
	for _, key := range []string{positionKey, hostKey} {
		j := open(t, filepath.Join(t.TempDir(), "journal"))
		must(t, j.db.Update(func(tx *bbolt.Tx) error {
			return bucket(tx, metaBucket).Put([]byte(key), []byte(`{"v":1,"x":"no"}`))
		}))
		_, err := j.Read()
		refused(t, err, compute.KindInvalid, "damaged", key)
	}
}

// A change of which a part cannot be written is not written at all.
func TestAllOrNothing(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	if err := j.Write(Change{Put: []Entry{entry("a", StageTaken), {}, entry("b", StageTaken)}}); err == nil {
		t.Error("an entry about no instance is written")
	}
	if s, err := j.Read(); err != nil || len(s.Entries) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// What a power cut leaves is what the last synced write left: the copy is taken
// while the file is open, as a disk would have it.
func TestWritesAreThereWhenWriteReturns(t *testing.T) {
	dir := t.TempDir()
	var file *os.File
	j, err := Open(
		filepath.Join(dir, "journal"),
		Options{OpenFile: func(name string, flag int, perm fs.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, perm)
			file = f
			return f, err
		}},
	)
	must(t, err)
	defer j.Close()
	must(t, j.Write(Change{Put: []Entry{entry("a", StageTaken)}}))
	if file == nil {
		t.Fatal("OpenFile was not called")
	}
	b, err := os.ReadFile(file.Name())
	must(t, err)
	copied := filepath.Join(dir, "copy")
	must(t, os.WriteFile(copied, b, 0o600))
	s, err := open(t, copied).Read()
	must(t, err)
	if len(s.Entries) != 1 || s.ID != j.ID() {
		t.Errorf("the copy has %+v", s)
	}
}

// Each part of a change is enough for it to be written.
func TestOnlyNothingIsEmpty(t *testing.T) {
	position := int64(0)
	for i, c := range []Change{
		{Put: []Entry{{}}}, {Forget: []compute.InstanceID{"a"}}, {GiveBack: []Given{{}}}, {Fail: []FailedClaim{{}}},
		{Position: &position},
		{Host: &Host{}},
	} {
		if c.Empty() {
			t.Errorf("change %d is empty: %+v", i, c)
		}
	}
	if !(Change{Put: []Entry{}}).Empty() {
		t.Error("nothing is a change")
	}
}

func TestUnused(t *testing.T) {
	if !(State{ID: "j", Entries: map[compute.InstanceID]Entry{}, Host: Host{Greeted: true}}).Unused() {
		t.Error("a new one is used")
	}
	for i, s := range []State{
		{Positioned: true}, {Entries: map[compute.InstanceID]Entry{"a": {}}}, {Given: []Given{{}}},
		{Failed: []FailedClaim{{}}},
	} {
		if s.Unused() {
			t.Errorf("state %d is unused: %+v", i, s)
		}
	}
}

func TestMachines(t *testing.T) {
	s := State{Entries: map[compute.InstanceID]Entry{
		"taken": {Stage: StageTaken}, "claimed": {Stage: StageClaimed}, "granted": {Stage: StageGranted},
		"broken": {Stage: StageClaimed, Broken: &Failure{}}, "ending": {Stage: StageEnding},
		"placeholder": {Stage: StageGranted, Placeholder: true},
	}}
	if n := s.Machines(); n != 2 {
		t.Errorf("%d machines, want those that are claimed and granted", n)
	}
}

// The caller of Open says neither how long to wait for a lock nor how much room to keep.
func TestDefaults(t *testing.T) {
	if o := (Options{}).withDefaults(); o.LockWait != 2*time.Second || o.Reserve != 1<<20 {
		t.Errorf("%+v", o)
	}
	if o := (Options{NoSync: true}).withDefaults(); o.Reserve != 0 {
		t.Errorf("what is not synced keeps room: %+v", o)
	}
	if o := (Options{LockWait: time.Hour, Reserve: -1}).withDefaults(); o.LockWait != time.Hour || o.Reserve != -1 {
		t.Errorf("%+v", o)
	}
}

func TestWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		cause error
		kind  compute.Kind
		says  string
	}{
		{bolterrors.ErrInvalid, compute.KindInvalid, "is damaged"},
		{bolterrors.ErrChecksum, compute.KindInvalid, "is damaged"},
		{bolterrors.ErrVersionMismatch, compute.KindInvalid, "is damaged"},
		{errValue, compute.KindInvalid, "is damaged"},
		{bolterrors.ErrTimeout, compute.KindConflict, "in use"},
		{syscall.ENOSPC, compute.KindUnavailable, "no room"},
		{syscall.EDQUOT, compute.KindUnavailable, "no room"},
		{syscall.EIO, compute.KindUnavailable, "cannot be used"},
	} {
		refused(t, classify("/j", fmt.Errorf("somewhere: %w", c.cause)), c.kind, "/j", c.says)
	}
}

// A file that cannot be opened is told of with why.
func TestOpenSaysWhyNot(t *testing.T) {
	why := errors.New("the disk is on fire")
	no := func(string, int, fs.FileMode) (*os.File, error) { return nil, why }
	_, err := Open(filepath.Join(t.TempDir(), "journal"), Options{OpenFile: no})
	if refused(t, err, compute.KindUnavailable, "cannot be used"); !errors.Is(err, why) {
		t.Errorf("the cause of %v is not in it", err)
	}
}

// An id that this agent cannot read is no id: it does not go on without.
func TestAnIDOfLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	must(t, j.db.Update(func(tx *bbolt.Tx) error {
		return bucket(tx, metaBucket).Put([]byte(idKey), []byte(`{"v":2,"x":{}}`))
	}))
	must(t, j.Close())
	_, err := Open(path, Options{})
	refused(t, err, compute.KindInvalid, "newer than 1")
}

func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(filepath.Join(file, "journal"), Options{})
	refused(t, err, compute.KindUnavailable, "journal", "cannot be used", "folder")
}

func TestClosedJournalRefusesWrites(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	j.written = func() { t.Error("it is said to be on disk") }
	must(t, j.Close())
	must(t, j.Close())
	err := j.Write(Change{Put: []Entry{entry("a", StageTaken)}})
	refused(t, err, compute.KindUnavailable, "write journal", "cannot be used")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, kind compute.Kind, says ...string) {
	t.Helper()
	if err == nil || compute.KindOf(err) != kind {
		t.Fatalf("answers %v, want an error of kind %s", err, kind)
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestWrittenIsCalledForEveryChangeOnDisk(t *testing.T) {
	heard := 0
	j, err := Open(filepath.Join(t.TempDir(), "journal"), Options{Written: func() { heard++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }() // nothing is expected of it
	position := int64(7)
	for _, c := range []Change{{}, {Position: &position}, {Position: &position}} {
		if err := j.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if heard != 2 {
		t.Errorf("heard of %d changes, want 2: an empty one is not written", heard)
	}
}

// Only tests do not wait for the disk, and they say so: by default every change is
// synced before Write answers. What a disk does not have yet cannot be seen from
// here, so bbolt is asked whether it syncs.
func TestWritesWaitForTheDisk(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal")
		for _, life := range []string{"made", "opened again"} {
			j, err := Open(path, Options{NoSync: noSync})
			must(t, err)
			must(t, j.Write(Change{Put: []Entry{entry("a", StageTaken)}}))
			if j.db.NoSync != noSync || j.db.NoGrowSync && !noSync {
				t.Errorf(
					"%s with NoSync %t: bbolt has NoSync %t, NoGrowSync %t", life, noSync, j.db.NoSync,
					j.db.NoGrowSync,
				)
			}
			must(t, j.Close())
		}
	}
}
