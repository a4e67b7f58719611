// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"slices"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// Folder is the machines' folder as it was when a driver was opened. It may be unmounted, moved away or covered by
// another mount while machines run. Then nothing is read in the folder of that name, and to take that for an answer
// would end the machines, for they would count as gone; and what is removed there is not removed at all.
type Folder struct {
	dir string
	was os.FileInfo
}

// OpenFolder looks at a folder that is there.
func OpenFolder(dir string) (Folder, error) {
	was, err := os.Stat(dir)
	return Folder{dir, was}, err
}

// There is an error unless the folder is the one that it was. That it was removed and made again may not be seen, for
// the new one may have the old one's inode.
func (f Folder) There() error {
	now, err := os.Stat(f.dir)
	return f.is(now, err)
}

// Read lists what is in the folder by name, if it is the one that it was, whatever is mounted meanwhile.
func (f Folder) Read() ([]os.DirEntry, error) {
	opened, err := os.Open(f.dir)
	if err != nil {
		return nil, f.is(nil, err)
	}
	defer opened.Close()
	now, err := opened.Stat()
	if err := f.is(now, err); err != nil {
		return nil, err
	}
	entries, err := opened.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// is is an error unless what was found under the folder's name is the folder.
func (f Folder) is(now os.FileInfo, err error) error {
	seen := "another folder is there now"
	switch {
	case err != nil:
		seen = err.Error()
	case os.SameFile(f.was, now):
		return nil
	}
	return hypervisor.Refuse("the machines' folder %s is not the one that this agent began with: %s; nothing is done "+
		"to machines until it is back: mount it or move it back (if it is, and this goes on, restart the agent)",
		f.dir, seen)
}
