// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/berth-project/berth/pkg/compute"
)

// small is a file system of its own with so much room.
func small(t *testing.T, kib int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// mounts has the test run where it may mount: here, or as root of a user
// namespace in a process of its own. It says whether the test is to go on here.
func mounts(t *testing.T) bool {
	t.Helper()
	const inside = "BERTH_TEST_MOUNTS"
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	if err == nil {
		must(t, syscall.Unmount(dir, 0))
		return true
	}
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		one := []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		oneGroup := []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: one, GidMappings: oneGroup,
		}
		var out []byte
		if out, err = cmd.CombinedOutput(); cmd.ProcessState != nil {
			if t.Logf("in a user namespace:\n%s", out); err != nil {
				t.Error(err)
			}
			return false
		}
	}
	if os.Getenv("BERTH_REQUIRE_MOUNT") == "1" {
		t.Fatalf("BERTH_REQUIRE_MOUNT=1 and nothing can be mounted: %v", err)
	}
	t.Skipf("skipped: needs a small file system (root, or user namespaces): %v", err)
	return false
}

// ballast takes all the room there is in a folder but for some pages.
func ballast(t *testing.T, dir string, pages int) (remove func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, os.Getpagesize()))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	info, err := f.Stat()
	must(t, errors.Join(err, f.Truncate(max(0, info.Size()-int64(pages*os.Getpagesize()))), f.Close()))
	return func() { must(t, os.Remove(name)) }
}

// noRoom wants an error that tells an operator which file, what is the matter,
// and what to do.
func noRoom(t *testing.T, err error, path string) {
	t.Helper()
	refused(
		t, err, compute.KindUnavailable, path, "has no room on its disk", "make room there",
		"no space left on device",
	)
}

// story is what a journal was told, and is to remember.
type story map[compute.InstanceID]Entry

// next is a change: most put an entry, some forget one.
func (s story) next(i int) (Change, story) {
	after := maps.Clone(s)
	c := Change{
		GiveBack: []Given{{Instance: "given", Claim: compute.ClaimID(fmt.Sprint(i))}},
		Fail: []FailedClaim{{
			Instance: "failed", Claim: compute.ClaimID(fmt.Sprint(i)), Why: Failure{Message: strings.Repeat("x", 300)},
		}},
	}
	if id := compute.InstanceID(fmt.Sprint(i - 7)); i%3 == 2 && i > 7 {
		c.Forget = append(c.Forget, id)
		delete(after, id)
	}
	e := entry(compute.InstanceID(fmt.Sprint(i)), StageTaken)
	c.Put, after[e.Instance] = []Entry{e}, e
	return c, after
}

// holds wants a file with just these entries, in which bbolt finds no fault.
func (s story) holds(t *testing.T, j *Journal) {
	t.Helper()
	is, err := j.Read()
	must(t, err)
	if diff := cmp.Diff(s, story(is.Entries)); diff != "" {
		t.Errorf("what it remembers: %s", diff)
	}
	must(t, j.db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("the file is not whole: %v", err)
		}
		return nil
	}))
}

// copied is the file as it lies on the disk now, somewhere with room.
func copied(t *testing.T, path string) *Journal {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	elsewhere := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(elsewhere, b, 0o600))
	return open(t, elsewhere)
}

// The disk fills while the journal is written: the write says so, nothing that
// was written before is lost, nor is the file, and with room again the same
// process goes on, or the next one does. However many pages are left: each is
// another place at which bbolt stops.
func TestDiskFillsInTheMiddle(t *testing.T) {
	if !mounts(t) {
		return
	}
	for pages := range 8 {
		for _, reopened := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d pages, reopened %t", pages, reopened), func(t *testing.T) {
				dir := small(t, 1024)
				path := filepath.Join(dir, "journal")
				j, err := Open(path, Options{Reserve: -1})
				must(t, err)
				defer func() { _ = j.Close() }() // it may be closed already
				was, i := story{}, 0
				var failed error
				write := func(n int) {
					for ; n > 0 && failed == nil; n-- {
						c, after := was.next(i)
						if failed = j.Write(c); failed == nil {
							was, i = after, i+1
						}
					}
				}
				if write(20); failed != nil {
					t.Fatal(failed)
				}
				room := ballast(t, dir, pages)
				if write(2000); failed == nil {
					t.Fatal("a full disk takes everything")
				}
				noRoom(t, failed, path)
				was.holds(t, j)
				was.holds(t, copied(t, path))
				if reopened {
					must(t, j.Close())
					for range 3 { // as an agent that is started again and again
						if again, aside, err := Recover(path, Options{}); err == nil {
							was.holds(t, again)
							must(t, again.Close())
						} else if noRoom(t, err, path); aside != "" {
							t.Errorf("a whole journal is set aside as %s", aside)
						}
					}
				}
				room()
				if reopened {
					j, err = Open(path, Options{Reserve: -1})
					must(t, err)
				}
				failed = nil
				if write(100); failed != nil {
					t.Fatal(failed)
				}
				was.holds(t, j)
				was.holds(t, copied(t, path))
			})
		}
	}
}

// A disk that is full when the first journal is made leaves nothing behind that a
// later start takes for a journal, or for one that was damaged.
func TestDiskIsFullFromTheStart(t *testing.T) {
	if !mounts(t) {
		return
	}
	for pages := range 12 {
		t.Run(fmt.Sprintf("%d pages", pages), func(t *testing.T) {
			dir := small(t, 512)
			path := filepath.Join(dir, "journal")
			room := ballast(t, dir, pages)
			for range 3 {
				_, _, err := Recover(path, Options{Reserve: 128 << 10})
				noRoom(t, err, path)
			}
			room()
			j, aside, err := Recover(path, Options{Reserve: 128 << 10})
			must(t, err)
			defer j.Close()
			if !j.Fresh() || aside != "" {
				t.Errorf("fresh %t, and %q is set aside", j.Fresh(), aside)
			}
			must(t, j.Room())
		})
	}
}

// A damaged journal on a full disk is kept once, however often the agent starts, and the error says where.
func TestDamagedOnAFullDisk(t *testing.T) {
	if !mounts(t) {
		return
	}
	dir := small(t, 512)
	path := filepath.Join(dir, "journal")
	must(t, os.WriteFile(path, make([]byte, 64<<10), 0o600))
	room := ballast(t, dir, 2)
	_, aside, err := Recover(path, Options{})
	if noRoom(t, err, path); !strings.HasPrefix(aside, path+".damaged-") {
		t.Errorf("kept as %q", aside)
	}
	for range 3 {
		_, again, err := Recover(path, Options{})
		if noRoom(t, err, path); again != "" {
			t.Errorf("and again as %q", again)
		}
	}
	room()
	j, again, err := Recover(path, Options{Reserve: 64 << 10})
	must(t, err)
	defer j.Close()
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 2 || again != "" {
		t.Errorf("%v, %v, and %q", left, err, again)
	}
}

// The same where the file system keeps no room: then only a file that was begun
// and is none yet must not be in the way for ever.
func TestJournalThatWasOnlyBegun(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "journal")
	must(t, open(t, whole).Close())
	b, err := os.ReadFile(whole)
	must(t, err)
	for _, size := range []int{1, 4095, 4096, 8192, 12288} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			must(t, os.WriteFile(path, b[:size], 0o600))
			j, aside, err := Recover(path, Options{})
			must(t, err)
			defer j.Close()
			if !j.Fresh() || aside == "" {
				t.Errorf("fresh %t, set aside as %q", j.Fresh(), aside)
			}
		})
	}
}

// What was reserved is there when the disk is full: the agent can end what fills
// it, and so can the one after it.
func TestReserve(t *testing.T) {
	if !mounts(t) {
		return
	}
	const kept = 384 << 10
	dir := small(t, 1024)
	path := filepath.Join(dir, "journal")
	j, err := Open(path, Options{Reserve: kept})
	must(t, err)
	defer func() { _ = j.Close() }() // it may be closed already
	room := ballast(t, dir, 0)
	was, i := story{}, 0
	for life := range 2 {
		for range 100 {
			c, after := was.next(i)
			must(t, j.Write(c))
			was, i = after, i+1
		}
		was.holds(t, j)
		must(t, j.Close())
		j, err = Open(path, Options{Reserve: kept})
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
	}
	for err = nil; err == nil; i++ { // what the reserve is not large enough for
		c, after := was.next(i)
		if err = j.Write(c); err == nil {
			was = after
		}
	}
	noRoom(t, err, path)
	noRoom(t, j.Room(), path)
	was.holds(t, j)
	room()
	must(t, j.Room())
	room = ballast(t, dir, 0)
	defer room()
	for range 100 {
		c, after := was.next(i)
		must(t, j.Write(c))
		was, i = after, i+1
	}
	was.holds(t, j)
}

// A journal from before there was a reserve is used, and says that it has no
// room, before anybody relies on it.
func TestJournalWithoutItsReserve(t *testing.T) {
	if !mounts(t) {
		return
	}
	dir := small(t, 512)
	path := filepath.Join(dir, "journal")
	j, err := Open(path, Options{Reserve: -1})
	must(t, err)
	must(t, j.Room())
	must(t, j.Write(Change{Put: []Entry{entry("a", StageTaken)}}))
	must(t, j.Close())
	room := ballast(t, dir, 3)
	j, err = Open(path, Options{Reserve: 64 << 10})
	must(t, err)
	defer j.Close()
	story{"a": entry("a", StageTaken)}.holds(t, j)
	noRoom(t, j.Room(), path)
	if got := j.Room(); !strings.Contains(got.Error(), "keep room for the journal") {
		t.Errorf("it does not say what was asked: %v", got)
	}
	room()
	must(t, j.Room())
}

// Where a file system keeps no room, what is free counts.
func TestFree(t *testing.T) {
	if !mounts(t) {
		return
	}
	dir := small(t, 256)
	f, err := os.Create(filepath.Join(dir, "file"))
	must(t, err)
	defer f.Close()
	must(t, free(f, 128<<10))
	if err := free(f, 512<<10); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("512 KiB of 256: %v", err)
	}
	_, err = f.Write(make([]byte, 200<<10))
	must(t, err)
	must(t, free(f, 200<<10)) // it has them
}
