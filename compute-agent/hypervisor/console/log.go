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

const oldPrefix = "console.old-"

// part is a file, and where in all that was printed it begins.
type part struct {
	file        string
	first, size int64
}

// parts are the files in the order they were printed: the old part first, which
// may be missing, console.log last. all is how much was ever printed.
func (l Log) parts() (parts []part, all int64, err error) {
	entries, err := os.ReadDir(l.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // nothing was printed yet
		return nil, 0, err
	}
	var old part
	var turned []int
	for _, e := range entries {
		// Two old ones are there if an agent died while it cut, and the later
		// one counts.
		after, ok := strings.CutPrefix(e.Name(), oldPrefix)
		if n, bad := strconv.ParseInt(after, 10, 64); ok && bad == nil && (old.file == "" || n > old.first) {
			old = part{file: filepath.Join(l.Dir, e.Name()), first: n}
		}
		after, ok = strings.CutPrefix(e.Name(), File+".")
		if n, bad := strconv.Atoi(after); ok && bad == nil {
			turned = append(turned, n)
		}
	}
	if old.file != "" {
		parts = append(parts, old)
		all = old.first
	}
	slices.Sort(turned)
	for _, n := range slices.Backward(turned) {
		parts = append(parts, part{file: fmt.Sprint(filepath.Join(l.Dir, File), ".", n)})
	}
	parts = append(parts, part{file: filepath.Join(l.Dir, File)})
	for i := range parts {
		if parts[i].size, err = size(parts[i].file); err != nil {
			return nil, 0, err
		}
		parts[i].first = all
		all += parts[i].size
	}
	return parts, all, nil
}

// Read reads from all files as from one; see hypervisor.Console.
func (l Log) Read(offset int64, limit int) (hypervisor.Part, error) {
	parts, all, err := l.parts()
	if err != nil {
		return hypervisor.Part{}, err
	}
	if offset < 0 {
		offset += all
	}
	p := hypervisor.Part{Offset: min(max(offset, parts[0].first), all), End: all}
	for _, f := range parts {
		if end := f.first + f.size; p.Offset < end {
			p.Data, err = readAt(f.file, p.Offset-f.first, min(int64(limit), end-p.Offset))
			return p, err
		}
	}
	return p, nil
}

// Trim begins console.log anew where it has grown too long or was begun anew.
func (l Log) Trim() error {
	parts, all, err := l.parts()
	if err != nil {
		return err
	}
	before, now := parts[:len(parts)-1], parts[len(parts)-1]
	turned := len(before) > 0 && !isOld(before[len(before)-1])
	if !turned && now.size <= l.Keep/2 {
		return nil
	}
	from := max(parts[0].first, all-l.Keep/2)
	var kept []byte
	for _, f := range parts {
		b, err := readAt(f.file, max(from-f.first, 0), f.first+f.size-max(from, f.first))
		if err != nil {
			return err
		}
		kept = append(kept, b...)
	}
	next := filepath.Join(l.Dir, fmt.Sprint(oldPrefix, from))
	if err := os.WriteFile(next+".next", kept, 0o600); err != nil {
		return err
	}
	// Nothing is lost if it ends in between; a part may be there twice.
	errs := []error{os.Rename(next+".next", next)}
	if err := os.Truncate(now.file, 0); !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, f := range before {
		if f.file != next {
			errs = append(errs, os.Remove(f.file))
		}
	}
	return errors.Join(errs...)
}

func isOld(p part) bool { return strings.HasPrefix(filepath.Base(p.file), oldPrefix) }

// size of a file; one that is not there has none.
func size(file string) (int64, error) {
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func readAt(file string, from, n int64) ([]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	read, err := f.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:read], err
}
