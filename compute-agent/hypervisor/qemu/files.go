// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// dir is a machine's folder.
func (d *Driver) dir(id compute.InstanceID) string { return filepath.Join(d.o.Dir, string(id)) }

// load reads a machine's record; there is none: false. A disk without a record is an error: it was made after the
// record, and is removed before it.
func (d *Driver) load(id compute.InstanceID) (record, bool, error) {
	var r record
	file := filepath.Join(d.dir(id), recordFile)
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, false, d.absent(id)
	case err == nil:
		err = json.Unmarshal(b, &r)
	}
	if err == nil && (r.V != 1 || r.Machine.Instance != id) {
		err = fmt.Errorf("version %d of instance %q", r.V, r.Machine.Instance)
	}
	if err != nil {
		return r, false, fmt.Errorf(
			"%s cannot be read; repair it, or remove its folder once no QEMU uses it: %w",
			file, err,
		)
	}
	return r, true, nil
}

// absent is an error where it cannot be said that a machine without a record is not here.
func (d *Driver) absent(id compute.InstanceID) error {
	if hasDisk(d.dir(id)) {
		return hypervisor.Refuse("%s has a disk and no %s; put that back, or remove the folder once no QEMU uses it",
			d.dir(id), recordFile)
	}
	return d.home.There()
}

// hasDisk says whether a machine's disk is in its folder, or may be.
func hasDisk(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, prepare.DiskFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// save replaces a machine's record; it is durable when save returns.
func save(dir string, r record) error {
	r.V = 1
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return prepare.Replace(filepath.Join(dir, recordFile), append(b, '\n'))
}

// unborn is how the name of a folder begins while its record is not in it yet.
const unborn = ".new-"

// create makes a machine's folder, with its record in it from the first.
func (d *Driver) create(r record) error {
	next := filepath.Join(d.o.Dir, unborn+string(r.Machine.Instance))
	if err := errors.Join(os.RemoveAll(next), os.Mkdir(next, 0o700)); err != nil {
		return err
	}
	if err := save(next, r); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	if err := os.Rename(next, d.dir(r.Machine.Instance)); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return prepare.Settle(d.o.Dir)
}

// clear removes a machine's folder, the record last: as long as anything is there, so is the mark of its owner.
func (d *Driver) clear(id compute.InstanceID) error {
	dir := d.dir(id)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != recordFile {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return errors.Join(os.RemoveAll(dir), prepare.Settle(d.o.Dir))
}

// instances lists the machines' folders.
func (d *Driver) instances() ([]compute.InstanceID, error) {
	entries, err := d.home.Read()
	var ids []compute.InstanceID
	for _, e := range entries {
		if id := compute.InstanceID(e.Name()); id.Check() == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// sweep removes folders without a record: those that were never born, and those that a removal left that was cut off
// at the very end. No process has ever been in the former, none is any more in the latter. One with a disk is neither:
// its record was lost, and it stays (load).
func (d *Driver) sweep() error {
	entries, err := os.ReadDir(d.o.Dir)
	for _, e := range entries {
		path := filepath.Join(d.o.Dir, e.Name())
		if strings.HasPrefix(e.Name(), unborn) {
			err = errors.Join(err, os.RemoveAll(path))
		}
		if compute.InstanceID(e.Name()).Check() == nil {
			if _, no := os.Stat(filepath.Join(path, recordFile)); errors.Is(no, fs.ErrNotExist) && !hasDisk(path) {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}
	return err
}
