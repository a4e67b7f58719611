// SPDX-License-Identifier: Apache-2.0

// Package console keeps the end of what a guest prints, in files.
package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// Log is the console of one machine. QEMU appends to console.log and knows no limit; virtlogd, which stands between
// libvirt's QEMUs and the file, begins it anew now and then and calls the full one console.log.0, the one before that
// console.log.1 and so on. When it all has grown too long, what is in it goes to console.old-<n>, n being how much
// was printed before that, and console.log begins again empty: the writer appends at the end, wherever that is. What
// is printed between the copy and the cut is lost.
//
// Calls for one folder must not overlap.
type Log struct {
	Dir  string
	Keep int64 // bytes of it all
}

// File is the one that is written to, in the folder.
const File = "console.log"

// most is how much a guest prints at most: sums of more are not to overflow. A QEMU that its guest has got out of may
// make its console as large as files can be.
const most = 1 << 60

const oldPrefix = "console.old-"

// part is a file, and where in all that was printed it begins.
type part struct {
	name        string
	file        *os.File    // open, so that it is the same file under whatever name; nil: it is not there, or was not opened
	info        os.FileInfo // nil: it is not there
	first, size int64
}

// looks is how often the files are listed again at most, where virtlogd renames them meanwhile.
const looks = 10

// steadily calls do with the open files, and again if they have other names by then: virtlogd renames them whenever it
// likes, one after the other, and a list that was made meanwhile may have one twice and lack another.
func (l Log) steadily(do func(parts []part, all int64) error) error {
	for range looks {
		if steady, err := l.once(do); steady || err != nil {
			return err
		}
	}
	return nil
}

func (l Log) once(do func(parts []part, all int64) error) (steady bool, err error) {
	parts, all, err := l.parts()
	defer closeAll(parts)
	if err != nil {
		return false, err
	}
	if err := do(parts, all); err != nil {
		return false, err
	}
	names, err := l.names()
	return err == nil && slices.EqualFunc(parts, names, part.is), nil
}

func closeAll(parts []part) {
	for _, p := range parts {
		if p.file != nil {
			_ = p.file.Close() // it was only read
		}
	}
}

// is says whether this is the same file under the same name.
func (p part) is(other part) bool {
	return p.name == other.name && (p.info == nil && other.info == nil || p.sameFile(other))
}

func (p part) sameFile(other part) bool {
	return p.info != nil && other.info != nil && os.SameFile(p.info, other.info)
}

// parts are the files, open, in the order they were printed: the old part first, which may be missing, console.log
// last. all is how much was ever printed. The caller closes them, whatever the error.
func (l Log) parts() (parts []part, all int64, err error) {
	if parts, err = l.names(); err != nil {
		return nil, 0, err
	}
	if isOld(parts[0]) {
		all = parts[0].first
	}
	for i := range parts {
		p := &parts[i]
		p.file, err = os.Open(p.name)
		switch {
		case err == nil:
			if p.info, err = p.file.Stat(); err != nil {
				return parts, 0, err
			}
			p.size = p.info.Size()
		case errors.Is(err, os.ErrNotExist):
			p.info = nil
		default:
			return parts, 0, err
		}
		if p.size > most-all {
			return parts, 0, fmt.Errorf("%s has %d bytes, which no guest prints: empty it (truncate -s 0)", p.name, p.size)
		}
		p.first = all
		all += p.size
	}
	return parts, all, nil
}

// names are the files in that order, as they are called now.
func (l Log) names() (parts []part, err error) {
	entries, err := os.ReadDir(l.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // nothing was printed yet
		return nil, err
	}
	var old part
	var turned []int
	for _, e := range entries {
		// Two old ones are there if an agent died while it cut, and the later
		// one counts.
		after, ok := strings.CutPrefix(e.Name(), oldPrefix)
		if n, bad := strconv.ParseInt(after, 10, 64); ok && bad == nil && (old.name == "" || n > old.first) {
			old = part{name: filepath.Join(l.Dir, e.Name()), first: n}
		}
		after, ok = strings.CutPrefix(e.Name(), File+".")
		if n, bad := strconv.Atoi(after); ok && bad == nil {
			turned = append(turned, n)
		}
	}
	if old.name != "" {
		parts = append(parts, old)
	}
	slices.Sort(turned)
	for _, n := range slices.Backward(turned) {
		parts = append(parts, part{name: fmt.Sprint(filepath.Join(l.Dir, File), ".", n)})
	}
	parts = append(parts, part{name: filepath.Join(l.Dir, File)})
	for i := range parts {
		parts[i].info, err = os.Stat(parts[i].name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return parts, nil
}

// Read reads from all files as from one; see hypervisor.Console.
func (l Log) Read(offset int64, limit int) (p hypervisor.Part, err error) {
	err = l.steadily(func(parts []part, all int64) (err error) {
		from := offset
		if from < 0 {
			from += all
		}
		p = hypervisor.Part{Offset: min(max(from, parts[0].first), all), End: all}
		for _, f := range parts {
			if end := f.first + f.size; p.Offset < end {
				p.Data, err = f.read(p.Offset-f.first, min(int64(limit), end-p.Offset))
				return err
			}
		}
		return nil
	})
	return p, err
}

// Trim begins console.log anew where it has grown too long or was begun anew. Where the files never stand still it cuts
// nothing: the next call does.
func (l Log) Trim() error {
	return l.steadily(func(parts []part, all int64) error {
		before, now := parts[:len(parts)-1], parts[len(parts)-1]
		turned := slices.ContainsFunc(before, func(p part) bool { return !isOld(p) && p.size > 0 })
		if !turned && now.size <= l.Keep/2 {
			return nil
		}
		return l.cut(parts, all)
	})
}

// cut copies the end of the files to a new old one, and takes away what was copied.
func (l Log) cut(parts []part, all int64) error {
	from := max(parts[0].first, all-l.Keep/2)
	var kept []byte
	for _, f := range parts {
		b, err := f.read(max(from-f.first, 0), f.first+f.size-max(from, f.first))
		if err != nil {
			return err
		}
		kept = append(kept, b...)
	}
	if names, err := l.names(); err != nil || !slices.EqualFunc(parts, names, part.is) {
		return err // what was copied may lack a file: steadily comes again
	}
	next := filepath.Join(l.Dir, fmt.Sprint(oldPrefix, from))
	if err := replace(next, kept); err != nil {
		return err
	}
	// Nothing is lost if it ends in between; a part may be there twice.
	errs := []error{l.onlyOld(next)}
	for _, f := range parts {
		if f.info != nil && !isOld(f) {
			errs = append(errs, l.empty(f))
		}
	}
	return errors.Join(errs...)
}

// replace writes a file whole or not at all: on a full disk, what it could write of it would take the room in which the
// next try might succeed.
func replace(name string, content []byte) error {
	unfinished := name + ".next"
	err := os.WriteFile(unfinished, content, 0o600)
	if err == nil {
		err = os.Rename(unfinished, name)
	}
	if err != nil {
		_ = os.Remove(unfinished) // or the next cut does
	}
	return err
}

// onlyOld removes all old files but one. Besides the one before, an agent that died while it cut may have left some,
// finished or not.
func (l Log) onlyOld(name string) error {
	entries, err := os.ReadDir(l.Dir)
	for _, e := range entries {
		if path := filepath.Join(l.Dir, e.Name()); strings.HasPrefix(e.Name(), oldPrefix) && path != name {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// empty cuts a file that was copied to nothing, whatever its name is by now; virtlogd removes it. It is open, so that no
// other file has its inode.
func (l Log) empty(copied part) error {
	for range looks {
		names, err := l.names()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, copied.sameFile)
		if i < 0 {
			return nil
		}
		if done, err := copied.emptyAs(names[i].name); done || err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// emptyAs is that if this is its name still.
func (p part) emptyAs(name string) (done bool, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, p.info) {
		return false, err
	}
	return true, f.Truncate(0)
}

func isOld(p part) bool { return strings.HasPrefix(filepath.Base(p.name), oldPrefix) }

func (p part) read(from, n int64) ([]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	b := make([]byte, n)
	read, err := p.file.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:read], err
}
