package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// QEMU appends to console.log and knows no limit. When it has grown too long, what
// is in it goes to console.old-<n>, n being how much was printed before that, and
// it begins again empty: QEMU writes at the end, wherever that is. What is printed
// between the copy and the cut is lost.

const oldPrefix = "console.old-"

// Console reads from both files as from one.
func (d *Driver) Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	part, err := d.console(ctx, id, offset, limit)
	return part, classed(ctx, "console "+string(id), err)
}

func (d *Driver) console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	if ctx.Err() != nil {
		return hypervisor.Part{}, ctx.Err()
	}
	if _, there, err := d.load(id); err != nil || !there {
		return hypervisor.Part{}, errors.Join(err, refuse("%s is not here", id))
	}
	d.paper.Lock()
	defer d.paper.Unlock()
	dir := d.dir(id)
	old, first, err := oldConsole(dir)
	if err != nil {
		return hypervisor.Part{}, err
	}
	oldSize, err := size(old)
	if err != nil {
		return hypervisor.Part{}, err
	}
	now := filepath.Join(dir, consoleFile)
	nowSize, err := size(now)
	if err != nil {
		return hypervisor.Part{}, err
	}
	cut := first + oldSize
	part := hypervisor.Part{End: cut + nowSize}
	if offset < 0 {
		offset += part.End
	}
	part.Offset = min(max(offset, first), part.End)
	if part.Offset < cut {
		part.Data, err = readAt(old, part.Offset-first, min(int64(limit), cut-part.Offset))
	} else {
		part.Data, err = readAt(now, part.Offset-cut, min(int64(limit), part.End-part.Offset))
	}
	return part, err
}

// trim begins the console's file anew where it has grown too long.
func (d *Driver) trim(id compute.InstanceID) error {
	d.paper.Lock()
	defer d.paper.Unlock()
	dir := d.dir(id)
	now := filepath.Join(dir, consoleFile)
	long, err := size(now)
	if err != nil || long <= d.o.ConsoleBytes/2 {
		return err
	}
	old, first, err := oldConsole(dir)
	if err != nil {
		return err
	}
	oldSize, err := size(old)
	if err != nil {
		return err
	}
	kept := min(long, d.o.ConsoleBytes/2)
	b, err := readAt(now, long-kept, kept)
	if err != nil {
		return err
	}
	next := filepath.Join(dir, fmt.Sprint(oldPrefix, first+oldSize+long-kept))
	if err := os.WriteFile(next+".next", b, 0o600); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(next+".next", next), os.Truncate(now, 0)); err != nil {
		return err
	}
	if old != "" {
		return os.Remove(old)
	}
	return nil
}

// oldConsole finds the part before, and where it begins; two are there if an
// agent died while it trimmed, and the later one counts.
func oldConsole(dir string) (file string, first int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		after, ok := strings.CutPrefix(e.Name(), oldPrefix)
		n, bad := strconv.ParseInt(after, 10, 64)
		if ok && bad == nil && (file == "" || n > first) {
			file, first = filepath.Join(dir, e.Name()), n
		}
	}
	return file, first, err
}

// size of a file; one that is not there has none.
func size(file string) (int64, error) {
	if file == "" {
		return 0, nil
	}
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
