// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// home is the machines' folder as it was when the driver was opened. It may be unmounted, moved away or covered by
// another mount while machines run. Then nothing is read in the folder of that name, and to take that for an answer
// would end the machines: they would count as gone.
type home struct {
	dir string
	was os.FileInfo
}

func homeAt(dir string) (home, error) {
	was, err := os.Stat(dir)
	return home{dir, was}, err
}

// there is an error unless the folder is the one that it was. That it was removed and made again may not be seen, for
// the new one may have the old one's inode: then the machines' processes are without a record (stray).
func (h home) there() error {
	now, err := os.Stat(h.dir)
	return h.is(now, err)
}

// read lists what is in the folder, if it is the one that it was, whatever is mounted meanwhile.
func (h home) read() ([]os.DirEntry, error) {
	f, err := os.Open(h.dir)
	if err != nil {
		return nil, h.is(nil, err)
	}
	defer f.Close()
	now, err := f.Stat()
	if err := h.is(now, err); err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// is is an error unless what was found under the folder's name is the folder.
func (h home) is(now os.FileInfo, err error) error {
	seen := "another folder is there now"
	switch {
	case err != nil:
		seen = err.Error()
	case os.SameFile(h.was, now):
		return nil
	}
	return hypervisor.Refuse("the machines' folder %s is not the one that this agent began with: %s; nothing is done "+
		"to machines until it is back: mount it or move it back (if it is, and this goes on, restart the agent)",
		h.dir, seen)
}

// stray refuses processes that run in a folder of ours without a record: whose machines they are cannot be said, and
// without them there is no list. A machine that was destroyed since the processes were looked at has no process any
// more; one that was prepared since the folders were has its record.
func (d *Driver) stray(all []host.Process, listed []hypervisor.Machine) error {
	known := map[compute.InstanceID]bool{}
	for _, m := range listed {
		known[m.Instance] = true
	}
	for _, p := range all {
		id := compute.InstanceID(filepath.Base(filepath.Dir(p.Option("pidfile"))))
		if !d.owns(p) || id.Check() != nil || known[id] {
			continue
		}
		if err := d.recorded(id, p); err != nil {
			return err
		}
	}
	return nil
}

// recorded is an error if a process lives and its machine has no record.
func (d *Driver) recorded(id compute.InstanceID, p host.Process) error {
	_, there, err := d.load(id)
	if err != nil || there {
		return err
	}
	now, alive, err := d.host.Inspect(p.PID)
	if err == nil && alive && now.Start == p.Start {
		err = hypervisor.Refuse("process %d runs in %s, where no %s is: put that back, or end the process",
			p.PID, d.dir(id), recordFile)
	}
	return err
}
