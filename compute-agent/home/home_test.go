// SPDX-License-Identifier: Apache-2.0

package home

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

var (
	first   = Owner{Host: "a", Journal: "j1"}
	renamed = Owner{Host: "b", Journal: "j2"}
	newborn = Owner{Host: "a", Journal: "j3"}
	carried = Owner{Host: "b", Journal: "j1"}
)

// keep takes a folder and lets go of it again.
func keep(t *testing.T, p Place, o Owner, unused bool) {
	t.Helper()
	l, err := p.Acquire(o, unused, 0)
	if err != nil {
		t.Fatalf("%s does not get the folder: %v", o, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Errorf("a second release: %v", err)
	}
}

// refused wants an error of a kind that says all of this.
func refused(t *testing.T, p Place, o Owner, unused bool, kind compute.Kind, words ...string) {
	t.Helper()
	l, err := p.Acquire(o, unused, 0)
	if err == nil {
		t.Fatalf("%s gets the folder: %+v", o, l)
	}
	if compute.KindOf(err) != kind {
		t.Errorf("%v is of kind %s, want %s", err, compute.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the refusal does not say %q: %v", w, err)
		}
	}
}

func TestAFolderIsOneOwners(t *testing.T) {
	p := Place{Dir: filepath.Join(t.TempDir(), "machines")}
	keep(t, p, first, false) // one without a mark belongs to the first that comes
	keep(t, p, first, false)
	refused(t, p, renamed, true, compute.KindInvalid,
		p.Dir, "host a", "host b", "j1", "j2", "set host to a again", "berth agent adopt")
	refused(t, p, carried, false, compute.KindInvalid,
		p.Dir, "host a", "host b", "j1", "set host to a again", "or move this journal away")
	refused(t, p, newborn, false, compute.KindInvalid, p.Dir, "j1", "j3", "bring journal j1 back")
	keep(t, p, first, false) // nothing of that has changed it
	keep(t, p, newborn, true)
	refused(t, p, first, false, compute.KindInvalid, "j1", "j3")
}

func TestHandOver(t *testing.T) {
	p := Place{Dir: t.TempDir()}
	if was, err := p.HandOver(first); err != nil || was != (Owner{}) {
		t.Fatalf("of a folder without a mark: %v, %v", was, err)
	}
	if was, err := p.HandOver(renamed); err != nil || was != first {
		t.Fatalf("it was %v: %v", was, err)
	}
	keep(t, p, renamed, false)
	refused(t, p, first, false, compute.KindInvalid)
}

// What a journal says was granted, was granted to the name that it had then.
func TestTheJournalStaysWithItsHost(t *testing.T) {
	p := Place{Dir: t.TempDir()}
	keep(t, p, first, false)
	was, err := p.HandOver(carried)
	if compute.KindOf(err) != compute.KindInvalid || was != (Owner{}) {
		t.Fatalf("the journal came along with another name, and the folder was handed over by %v: %v", was, err)
	}
	for _, w := range []string{p.Dir, "host a", "host b", "journal j1", "set host to a again", "a new, empty one"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the refusal does not say %q: %v", w, err)
		}
	}
	keep(t, p, first, false) // nothing of that has changed it
	if _, err := p.HandOver(renamed); err != nil {
		t.Errorf("with a new journal: %v", err)
	}
}

// The lock is the process's, so a second holder here is as one in another process:
// each has the file open for itself.
func TestOneHoldsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Place{Dir: t.TempDir()}
		l, err := p.Acquire(first, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		if was := l.Was(); was != (Owner{}) {
			t.Errorf("a folder without a mark was %s's", was)
		}
		refused(t, p, first, false, compute.KindConflict, p.Dir, "another agent")
		if _, err := p.HandOver(renamed); compute.KindOf(err) != compute.KindConflict {
			t.Errorf("handed over while an agent runs: %v", err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		keep(t, p, first, false)
	})
}

// An agent that is just ending is waited for.
func TestOneThatEndsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Place{Dir: t.TempDir()}
		l, err := p.Acquire(first, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(lockWait / 2)
			_ = l.Release() // of an empty file
		}()
		next, err := p.Acquire(first, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		if was := next.Was(); was != first {
			t.Errorf("it was %s's", was)
		}
		if err := next.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheFolderIsMade(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0: 0o700, 0o710: 0o710} {
		p := Place{Dir: filepath.Join(t.TempDir(), "machines"), Mode: mode}
		keep(t, p, first, false)
		if info, err := os.Stat(p.Dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %o: %v, %v", mode, info.Mode(), err)
		}
	}
}

// A full disk keeps no agent from machines that may make room, but it takes them over
// from nobody.
func TestAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skipf("skipped: needs /dev/full: %v", err)
	}
	p := Place{Dir: t.TempDir()}
	next := filepath.Join(p.Dir, "owner.next")
	must(t, os.Symlink("/dev/full", next))
	keep(t, p, first, false)
	if _, err := os.Stat(filepath.Join(p.Dir, "owner")); !os.IsNotExist(err) {
		t.Errorf("there is a mark: %v", err)
	}
	must(t, os.Remove(next))
	keep(t, p, first, false)
	must(t, os.Symlink("/dev/full", next))
	refused(t, p, newborn, true, compute.KindUnavailable, "no space left", p.Dir)
	must(t, os.Remove(next))
	keep(t, p, first, false)
}

// Where the disk of machines is not mounted there is an empty folder, which no agent takes whose journal has machines.
func TestAFolderThatIsAway(t *testing.T) {
	const instance = "0198f3a2-0000-7000-8000-000000000001"
	p := Place{Dir: filepath.Join(t.TempDir(), "machines"), Setting: "driver.qemu.dir"}
	away := func(what string) {
		t.Helper()
		l, err := p.Acquire(first, false, 3)
		if !errors.Is(err, ErrAway) || l != nil {
			t.Fatalf("%s: %v, %v", what, l, err)
		}
		for _, w := range []string{p.Setting, p.Dir, "has 3", "mount it", "berth agent adopt"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the refusal does not say %q: %v", what, w, err)
			}
		}
	}
	away("nothing is there")
	must(t, os.Mkdir(filepath.Join(p.Dir, "lost+found"), 0o700))
	away("an empty file system")
	must(t, os.Mkdir(filepath.Join(p.Dir, instance), 0o700)) // of an agent from before there were marks
	l, err := p.Acquire(first, false, 3)
	must(t, errors.Join(err, l.Release()))
	must(t, os.Remove(filepath.Join(p.Dir, instance)))
	away("a folder that was marked before its disk was mounted")
	must(t, os.Remove(filepath.Join(p.Dir, "owner")))
	away("the mark is gone")
	_, err = p.HandOver(first) // on purpose
	must(t, err)
	for range 2 { // it may be started again before it has reported all
		l, err = p.Acquire(first, false, 3)
		must(t, errors.Join(err, l.Release()))
	}
	l, err = p.Acquire(first, false, 0)
	must(t, errors.Join(err, l.Release()))
	away("what came after that was gone")
	p = Place{Dir: t.TempDir(), Of: "a command"} // what is there says nothing of its machines
	l, err = p.Acquire(first, false, 3)
	must(t, errors.Join(err, l.Release()))
}

func TestHostsMayShareAFolder(t *testing.T) {
	dir := t.TempDir()
	a, b := Place{Dir: dir, Name: "a."}, Place{Dir: dir, Name: "b."}
	l, err := a.Acquire(first, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	keep(t, b, renamed, false)
	refused(t, b, first, true, compute.KindInvalid, dir+" (b)")
}

func TestNoFolderIsNobodys(t *testing.T) {
	keep(t, Place{}, first, false)
	keep(t, Place{}, renamed, false)
	if was, err := (Place{}).HandOver(first); err != nil || was != (Owner{}) {
		t.Errorf("%v, %v", was, err)
	}
}

func TestADamagedMarkIsNotOverwritten(t *testing.T) {
	for text, why := range map[string]string{
		"": "end of JSON", "{": "end of JSON", `{"v":2,"host":"a","journal":"j1"}`: "version 2",
		`{"v":1,"host":"a"}`: `journal ""`, `{"v":1,"journal":"j1"}`: `host ""`,
	} {
		p := Place{Dir: t.TempDir()}
		file := filepath.Join(p.Dir, "owner")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, p, first, true, compute.KindInvalid, file, "remove the file", why)
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Errorf("it is %q now: %v", b, err)
		}
	}
}

func TestAFolderThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, Place{Dir: filepath.Join(file, "below")}, first, true, compute.KindInvalid, "cannot be used")
	for name, why := range map[string]string{"owner.lock": "cannot be used", "owner.next": "cannot be used",
		"owner": "cannot be read"} {
		p := Place{Dir: t.TempDir()}
		must(t, os.Mkdir(filepath.Join(p.Dir, name), 0o700))
		refused(t, p, first, true, compute.KindInvalid, why, "is a directory", p.Dir)
	}
	if err := (Place{}).unusable(syscall.EDQUOT); compute.KindOf(err) != compute.KindUnavailable {
		t.Errorf("a quota that is used up is of kind %s", compute.KindOf(err))
	}
}

func TestPlaceIsSaid(t *testing.T) {
	for want, p := range map[string]Place{"/m": {Dir: "/m"}, "/n (a)": {Dir: "/n", Name: "a."}} {
		if p.String() != want {
			t.Errorf("%q, want %q", p, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
