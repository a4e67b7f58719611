// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// opened is a regular file of the images' folder. What is checked is read from its
// descriptor, not by its name again.
type opened struct {
	*os.File
	is   identity
	mode fs.FileMode // its permissions
}

// identity changes when a file does, or when another takes its name.
type identity struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec // its status: nobody can set it back
}

// open opens a regular file below the images' folder; one that is not there is nil. No link is followed below the
// folder: a user who may put links there could name any file of the host, and a guest would read it.
func (s *Store) open(parts ...string) (*opened, error) {
	path := filepath.Join(append([]string{s.dir}, parts...)...)
	at, err := unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i, part := range parts {
		if err != nil {
			break
		}
		how := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK // does not wait at a pipe
		if i < len(parts)-1 {
			how |= unix.O_DIRECTORY
		}
		var next int
		if next, err = unix.Openat(at, part, how, 0); err != nil && isLink(at, part) {
			err = hypervisor.RefuseImage("image file %s: %s is a symbolic link, and none is followed: put the "+
				"file itself there, or a hard link", path, part)
		}
		_ = unix.Close(at)
		at = next
	}
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("image file %s: %w", path, err)
	}
	f := &opened{File: os.NewFile(uintptr(at), path)}
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, errors.Join(fmt.Errorf("image file %s: %w", path, err), f.Close())
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.Join(hypervisor.RefuseImage("image file %s is not a file", path), f.Close())
	}
	f.is, f.mode = identityOf(st), fs.FileMode(st.Mode&0o777)
	return f, nil
}

func identityOf(st unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino, st.Size, st.Ctim} }

// identify is the identity of what has a name now; a link's is its own.
func identify(path string) (identity, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return identityOf(st), err
}

func isLink(at int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// isFolder says whether a name of the images' folder is a folder, or a link that
// stands for one.
func (s *Store) isFolder(name string) bool {
	info, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil && info.IsDir()
}

// short reads a small file of the images' folder; false: it is not there.
func (s *Store) short(most int64, parts ...string) (string, bool, error) {
	f, err := s.open(parts...)
	if err != nil || f == nil {
		return "", false, err
	}
	defer f.Close()
	b, err := f.whole(most)
	return strings.TrimSpace(string(b)), true, err
}

// whole is all of a small file.
func (f *opened) whole(most int64) ([]byte, error) {
	if f.is.size > most {
		return nil, hypervisor.RefuseImage("image file %s has %d bytes, and may have %d", f.Name(), f.is.size, most)
	}
	return io.ReadAll(io.NewSectionReader(f, 0, most))
}

// mostSum is more than a line of sha256sum has.
const mostSum = 16 << 10

// vouched is the SHA-256 that the file beside a file says it has; empty: there is none, and the operator trusts the
// folder.
func (s *Store) vouched(f *opened, parts []string) (string, error) {
	beside := append(parts[:len(parts)-1:len(parts)-1], parts[len(parts)-1]+".sha256")
	want, there, err := s.short(mostSum, beside...)
	name := filepath.Base(f.Name())
	if err == nil && !there && !s.trusted {
		err = hypervisor.RefuseImage("image file %s has no %s.sha256: write one on every host (cd %s && "+
			"sha256sum %[2]s > %[2]s.sha256), or say images_trusted: true in the agent's settings",
			f.Name(), name, filepath.Dir(f.Name()))
	}
	first, _, _ := strings.Cut(want, " ")
	if err == nil && there && first == "" {
		first = "nothing"
	}
	return first, err
}

// same refuses a file that is not what it should be.
func same(f *opened, want, got string) error {
	if want == "" || strings.EqualFold(want, got) {
		return nil
	}
	return hypervisor.RefuseImage("image file %s has the SHA-256 %s, and %s.sha256 says %.100q: copy it to "+
		"this host again", f.Name(), got, filepath.Base(f.Name()), want)
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}
