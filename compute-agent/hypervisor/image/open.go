// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	is identity
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
		unix.Close(at)
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
	f.is = identity{uint64(st.Dev), st.Ino, st.Size, st.Ctim}
	return f, nil
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
	if f.is.size > most {
		return "", true, hypervisor.RefuseImage("image file %s has %d bytes, and may have %d", f.Name(), f.is.size,
			most)
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	return strings.TrimSpace(string(b)), true, err
}

// mostSum is more than a line of sha256sum has.
const mostSum = 16 << 10

// checksum compares a file with the sum beside it. One without a sum is taken from a
// folder that the operator trusts alone.
func (s *Store) checksum(ctx context.Context, f *opened, parts []string) error {
	beside := append(parts[:len(parts)-1:len(parts)-1], parts[len(parts)-1]+".sha256")
	want, there, err := s.short(mostSum, beside...)
	name := filepath.Base(f.Name())
	switch {
	case err != nil:
		return err
	case !there && s.trusted:
		return nil
	case !there:
		return hypervisor.RefuseImage("image file %s has no %s.sha256: write one on every host (cd %s && "+
			"sha256sum %[2]s > %[2]s.sha256), or say images_trusted: true in the agent's settings",
			f.Name(), name, filepath.Dir(f.Name()))
	}
	h := sha256.New()
	if _, err := io.Copy(h, reader{ctx, io.NewSectionReader(f, 0, f.is.size)}); err != nil {
		return err
	}
	got := hex.EncodeToString(h.Sum(nil))
	if first, _, _ := strings.Cut(want, " "); !strings.EqualFold(first, got) {
		return hypervisor.RefuseImage("image file %s has the SHA-256 %s, and %s.sha256 says %.100q: copy it to "+
			"this host again", f.Name(), got, name, first)
	}
	return nil
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
