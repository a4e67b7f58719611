// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// What is kept of a console is its end, at the offsets it was printed at, however
// it grows, however often it is cut, and however often virtlogd begins anew.
func TestKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		ok := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		ok(err)
		l := Log{Dir: dir, Keep: 64}
		now := filepath.Join(dir, File)
		var all []byte
		for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			text := []byte(
				fmt.Sprintf("%d:%s", i, bytes.Repeat([]byte("x"), rapid.IntRange(0, 100).Draw(rt, "length"))),
			)
			all = append(all, text...)
			for len(text) > 0 {
				n := rapid.IntRange(1, len(text)).Draw(rt, "written")
				f, err := os.OpenFile(now, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				ok(err)
				f.Write(text[:n])
				f.Close()
				if text = text[n:]; rapid.Bool().Draw(rt, "turned") {
					_ = os.Rename(now+".0", now+".1")
					ok(os.Rename(now, now+".0"))
				}
				// virtlogd would throw it away: nobody looked in time
				if _, full := os.Stat(now + ".1"); full == nil {
					ok(l.Trim())
				}
			}
			ok(l.Trim())
			offset := int64(rapid.IntRange(-150, len(all)+5).Draw(rt, "offset"))
			part, err := l.Read(offset, rapid.IntRange(0, 70).Draw(rt, "limit"))
			ok(err)
			if part.End != int64(len(all)) || !bytes.HasPrefix(all[part.Offset:], part.Data) {
				rt.Fatalf("after %d bytes, from %d: %+v", len(all), offset, part)
			}
			kept := int64(0)
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				info, _ := e.Info()
				kept += info.Size()
			}
			if kept > 64 || kept < int64(min(len(all), 32)) {
				rt.Fatalf("%d bytes are kept of %d", kept, len(all))
			}
		}
	})
}

// What virtlogd renames during a look is neither missed nor counted twice: the end never goes back, what is read is what
// was printed there, and what is cut is cut once. It renames once for each look at most: of files that never stand still
// the end cannot be known.
func TestLookedAtWhileItTurns(t *testing.T) {
	for name, turns := range map[string]int{"read": backups, "cut": 200} {
		t.Run(name, func(t *testing.T) {
			const line = 16
			dir := t.TempDir()
			l, now := Log{Dir: filepath.Join(dir, "one"), Keep: 4 * line}, filepath.Join(dir, "one", File)
			text := func(i int) string { return fmt.Sprintf("%0*d\n", line-1, i) }
			look, done := make(chan struct{}), make(chan struct{})
			stop := sync.OnceFunc(func() { close(look); <-done })
			go func() {
				defer close(done)
				printAndTurn(t, now, filepath.Join(dir, "next"), look, text)
			}()
			defer stop()
			ok(t, os.Mkdir(l.Dir, 0o700))
			end := int64(0)
			for i := range turns {
				look <- struct{}{}
				if name == "cut" {
					ok(t, l.Trim())
				}
				p, err := l.Read(-line, line)
				ok(t, err)
				if p.End < end || p.End > int64(i+1)*line {
					t.Fatalf("the end was %d, and is %d behind %d lines", end, p.End, i+1)
				}
				if end = p.End; end > 0 && string(p.Data) != text(int(p.Offset/line)) {
					t.Fatalf("at %d there is %q", p.Offset, p.Data)
				}
			}
			stop()
			ok(t, l.Trim())
			p, err := l.Read(-line, line)
			ok(t, err)
			if p.End != int64(turns)*line || string(p.Data) != text(turns-1) {
				t.Errorf("behind %d lines: %+v", turns, p)
			}
		})
	}
}

const backups = 32 // virtlogd keeps no more

// printAndTurn has each line in a file of its own, as soon as somebody is about to look. The oldest of the others goes
// first, as with virtlogd; none is removed before it was copied.
func printAndTurn(t *testing.T, now, next string, look <-chan struct{}, text func(int) string) {
	i := 0
	for range look {
		for n := min(i, backups); n > 0; n-- {
			if err := os.Rename(fmt.Sprint(now, ".", n-1), fmt.Sprint(now, ".", n)); err != nil &&
				!errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
		if err := os.Rename(now, now+".0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if err := errors.Join(os.WriteFile(next, []byte(text(i)), 0o600), os.Rename(next, now)); err != nil {
			t.Error(err)
		}
		i++
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A console that is larger than anything that can be printed is said to be, and costs no memory.
func TestLargerThanAnythingPrinted(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "console") // a file system with files of that size
	if err != nil {
		t.Skipf("skipped: needs a file system in memory: %v", err)
	}
	defer os.RemoveAll(dir)
	l := Log{Dir: dir, Keep: 64}
	for _, old := range []string{"", oldPrefix + fmt.Sprint(int64(math.MaxInt64))} {
		for _, name := range []string{old, File} {
			if name != "" && os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600) != nil {
				t.Fatal("cannot write")
			}
		}
		if old == "" {
			if err := os.Truncate(filepath.Join(dir, File), math.MaxInt64); err != nil {
				t.Skipf("skipped: needs a file system with files of any size: %v", err)
			}
		}
		if err := l.Trim(); err == nil || !strings.Contains(err.Error(), "empty it") {
			t.Errorf("beside %q it is cut: %v", old, err)
		}
		if _, err := l.Read(0, 10); err == nil {
			t.Errorf("beside %q it is read", old)
		}
	}
}
