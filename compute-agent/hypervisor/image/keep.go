// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// What a machine runs from is no file of the images' folder, which others may write to. Each file is copied once, from
// the descriptor that was opened without following a link, into a folder of the agent's own; there it is checked, and
// each machine has a hard link to it in its own folder. So a start opens what was checked, whatever has become of the
// image, and the number of a copy's links says whether a machine needs it:
//
//	<images>/web.qcow2 ──copy──▶ <kept>/<SHA-256> ──link──▶ <machine>/base.qcow2

// Kept is the folder of copies, below that of the machines.
const Kept = ".images"

// unfinished is how the name of a copy begins while it is made.
const unfinished = ".new-"

// keep sees to it that there is a copy with this SHA-256 of a file, and gives its path. One file is copied at a time.
func (s *Store) keep(ctx context.Context, f *opened, sum string) (string, error) {
	path := filepath.Join(s.kept, sum)
	mode := f.mode&0o444 | 0o400
	if whole, err := s.whole(ctx, path, mode); whole || err != nil {
		return path, err
	}
	if err := errors.Join(os.MkdirAll(s.kept, 0o700), s.Sweep()); err != nil {
		return "", err
	}
	next, err := os.CreateTemp(s.kept, unfinished)
	if err != nil {
		return "", err
	}
	got, err := s.clone(ctx, next, f.File, func(bytes int64) error { return s.makeRoom(next.Name(), bytes) })
	if err == nil && got != sum {
		err = hypervisor.RefuseImage("image file %s was changed while it was copied: leave it alone while it is in use",
			f.Name())
	}
	written := errors.Join(next.Chmod(mode), s.sync(next), next.Close())
	if err = cmp.Or(err, written); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // or Sweep does
		return "", err
	}
	return path, nil
}

// whole says whether there is a copy that is what its name says, and that every user may read that may read the image;
// another is removed. It may be from before the host lost its power, or a guest has got out of a QEMU that could write
// to it, or libvirt has made it QEMU's user's alone.
func (s *Store) whole(ctx context.Context, path string, mode fs.FileMode) (bool, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission):
		return false, os.Remove(path)
	case err != nil:
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.Mode()&mode != mode {
		return false, os.Remove(path)
	}
	sum, err := digest(ctx, f)
	if err != nil || sum == filepath.Base(path) {
		return err == nil, err
	}
	return false, os.Remove(path)
}

// makeRoom refuses a copy that takes so many bytes, and was begun at path, if there is no room for it even once all
// copies are gone that no machine has; those stay then. One of an image that is there is made again when it is needed.
func (s *Store) makeRoom(path string, bytes int64) error {
	refused := s.spare(bytes)
	if refused == nil {
		return nil
	}
	spared := func() map[string]bool { return map[string]bool{path: true} }
	var gain int64
	err := s.idle(spared, func(_ string, is *syscall.Stat_t) error {
		gain += is.Blocks * 512
		return nil
	})
	switch {
	case err != nil:
		return err
	case s.spare(bytes-gain) != nil:
		return refused
	}
	if err := s.sweep(spared); err != nil {
		return err
	}
	return s.spare(bytes)
}

func (s *Store) spare(bytes int64) error {
	if s.Spare == nil {
		return nil
	}
	return s.Spare(bytes)
}

// clone copies a file, sharing its blocks where the file system can, and gives the SHA-256 of the copy. Where it cannot,
// room refuses a copy of so many bytes.
func (s *Store) clone(ctx context.Context, to, from *os.File, room func(bytes int64) error) (string, error) {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return digest(ctx, to)
	}
	var is unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &is); err != nil {
		return "", err
	}
	if err := room(is.Blocks * 512); err != nil {
		return "", err
	}
	h := sha256.New()
	size, err := sparse(to, io.TeeReader(reader{ctx, io.NewSectionReader(from, 0, 1<<62)}, h))
	if err == nil {
		err = to.Truncate(size)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// block is how much is looked at, whether it is zeros, and how much a hole has at least.
const block = 64 << 10

// sparse writes what it reads and leaves holes where there are zeros: a raw disk is mostly empty.
func sparse(to io.WriterAt, from io.Reader) (size int64, err error) {
	b, zeros := make([]byte, block), make([]byte, block)
	for {
		n, err := io.ReadFull(from, b)
		if n > 0 && !bytes.Equal(b[:n], zeros[:n]) {
			if _, err := to.WriteAt(b[:n], size); err != nil {
				return size, err
			}
		}
		switch size += int64(n); {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return size, nil
		case err != nil:
			return size, err
		}
	}
}

// digest is the SHA-256 of a file, read from its beginning.
func digest(ctx context.Context, f io.ReaderAt) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, reader{ctx, io.NewSectionReader(f, 0, 1<<62)})
	return hex.EncodeToString(h.Sum(nil)), err
}

// The names of an image's files in a machine's folder; a disk has its format behind it.
const (
	baseFile   = "base."
	kernelFile = "kernel"
	initrdFile = "initrd"
)

// In is the image as a machine has it in its folder, once Link has put it there.
func (img Image) In(dir string) Image {
	for path, name := range map[*string]string{
		&img.Disk: baseFile + img.Format, &img.Kernel: kernelFile, &img.Initrd: initrdFile,
	} {
		if *path != "" {
			*path = filepath.Join(dir, name)
		}
	}
	return img
}

// Link puts an image that Find gave into a machine's folder.
func (s *Store) Link(ctx context.Context, img Image, dir string) error {
	its := img.In(dir)
	var errs []error
	for _, f := range [][2]string{{img.Disk, its.Disk}, {img.Kernel, its.Kernel}, {img.Initrd, its.Initrd}} {
		if f[0] != "" {
			errs = append(errs, s.link(ctx, f[0], f[1]))
		}
	}
	return errors.Join(errs...)
}

// link makes a copy where a link cannot be: a file has as many as it may have, is not the agent's any more (libvirt
// gives kernels to QEMU's user), or an operator has put the copies on another file system.
func (s *Store) link(ctx context.Context, from, to string) error {
	err := os.Link(from, to)
	if !errors.Is(err, syscall.EMLINK) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EXDEV) {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	own, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	// It is not this call's turn to copy, so no copy may be swept.
	_, err = s.clone(ctx, own, f, s.spare)
	// It is synced, for no start looks at it again.
	return errors.Join(err, own.Chmod(info.Mode().Perm()), s.sync(own), own.Close())
}

// Sweep removes copies that neither a machine nor a caller of Find has and that are not of an image as it was found
// last, and those that were never finished. No file may be copied meanwhile.
func (s *Store) Sweep() error { return s.sweep(s.wanted) }

// sweep is Sweep, but for what it spares besides what is in use; that is asked while s is locked.
func (s *Store) sweep(spared func() map[string]bool) error {
	return s.idle(spared, func(path string, _ *syscall.Stat_t) error { return os.Remove(path) })
}

// idle does something with each copy that sweep removes, while s is locked.
func (s *Store) idle(spared func() map[string]bool, do func(path string, is *syscall.Stat_t) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	wanted := spared()
	for _, e := range entries {
		path := filepath.Join(s.kept, e.Name())
		info, gone := e.Info()
		if gone != nil || wanted[path] || s.held[path] > 0 {
			continue
		}
		is, ok := info.Sys().(*syscall.Stat_t)
		if !ok || is.Nlink > 1 && !strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		err = errors.Join(err, do(path, is))
	}
	if err != nil {
		return fmt.Errorf("copies of images in %s: %w", s.kept, err)
	}
	return nil
}

// wanted are the copies of images that are as they were found last. What is not is forgotten. s is locked.
func (s *Store) wanted() map[string]bool {
	all := map[string]bool{}
	for path, known := range s.sound {
		if is, err := identify(path); err != nil || is != known.is {
			delete(s.sound, path)
			continue
		}
		all[known.copy] = true
	}
	return all
}
