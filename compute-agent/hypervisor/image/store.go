// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"sync"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Image is one that was found. An image named web is one of these in the folder of images:
//
//	web.qcow2  a disk         web/kernel   booted directly, with web/initrd and
//	web.raw    a disk         web/cmdline  its parameters, and web/disk.qcow2 or
//	                          web/disk.raw if they are there
//
// A file next to each of them with .sha256 behind its name, as sha256sum writes it,
// is what it must be; only a folder that the operator trusts may be without. All
// hosts have the same images, so one that is not there, or that names other files of
// the host, is the request's fault; one that is broken is the host's.
type Image struct {
	Disk, Format           string // file; "qcow2" or "raw"
	Bytes                  int64  // what a guest sees of the disk
	Kernel, Initrd, Append string // files; kernel parameters
}

var imagePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// Store remembers which files were looked at, and what they are.
type Store struct {
	dir, program string
	trusted      bool
	mu           sync.Mutex
	sound        map[string]sound // by path
}

// sound is a file that was found to be well, as it was then.
type sound struct {
	is    identity
	bytes int64
}

// NewStore looks for images in a folder, with a qemu-img. trusted: a file may be
// without its sum.
func NewStore(dir, program string, trusted bool) *Store {
	return &Store{dir: dir, program: program, trusted: trusted, sound: map[string]sound{}}
}

// Find looks an image up and checks it.
func (s *Store) Find(ctx context.Context, name string) (Image, error) {
	if !imagePattern.MatchString(name) {
		return Image{}, hypervisor.Reject("image %q: use letters, digits, dots, dashes and underscores", name)
	}
	if s.isFolder(name) {
		return s.folder(ctx, name)
	}
	img, err := s.disk(ctx, name)
	if err == nil && img.Disk == "" {
		return img, hypervisor.Reject(
			"image %q: %s has no %[1]s.qcow2, %[1]s.raw or folder %[1]s: give the name of an image, or put it "+
				"there on every host",
			name,
			s.dir,
		)
	}
	return img, err
}

// mostParameters is more than a kernel reads.
const mostParameters = 16 << 10

func (s *Store) folder(ctx context.Context, name string) (Image, error) {
	img, err := s.disk(ctx, name, "disk")
	if err != nil {
		return img, err
	}
	if img.Kernel, _, err = s.file(ctx, "kernel", name, "kernel"); err != nil {
		return img, err
	}
	if img.Kernel == "" && img.Disk == "" {
		return img, hypervisor.Reject("image %q: its folder has neither kernel nor disk.qcow2 nor disk.raw", name)
	}
	if img.Initrd, _, err = s.file(ctx, "", name, "initrd"); err != nil {
		return img, err
	}
	if _, _, err = s.file(ctx, "", name, "cmdline"); err != nil {
		return img, err
	}
	line, there, err := s.short(mostParameters, name, "cmdline")
	if img.Append = line; !there {
		img.Append = "console=ttyS0 root=/dev/vda1"
	}
	return img, err
}

// disk finds a file of this name, with .qcow2 or .raw behind it. What a file is
// follows from its name alone: a raw image is what a guest wrote, and QEMU must
// never guess at it. One that begins as another format does was misnamed.
func (s *Store) disk(ctx context.Context, base ...string) (Image, error) {
	for _, format := range []string{"qcow2", "raw"} {
		parts := append(base[:len(base)-1:len(base)-1], base[len(base)-1]+"."+format)
		path, bytes, err := s.file(ctx, format, parts...)
		if err != nil || path != "" {
			return Image{Disk: path, Format: format, Bytes: bytes}, err
		}
	}
	return Image{}, nil
}

// file checks a file once for as long as it does not change, and says how large a
// disk it is; one that is not there is "".
func (s *Store) file(ctx context.Context, format string, parts ...string) (path string, bytes int64, err error) {
	f, err := s.open(parts...)
	if err != nil || f == nil {
		return "", 0, err
	}
	defer f.Close()
	s.mu.Lock()
	known, ok := s.sound[f.Name()]
	s.mu.Unlock()
	if ok && known.is == f.is {
		return f.Name(), known.bytes, nil
	}
	if err := s.checksum(ctx, f, parts); err != nil {
		return "", 0, err
	}
	now := sound{f.is, f.is.size}
	switch format {
	case "qcow2":
		now.bytes, err = s.qcow2(ctx, f)
	case "raw":
		err = raw(f)
	case "kernel":
		err = kernel(f)
	}
	if err != nil {
		return "", 0, err
	}
	s.mu.Lock()
	s.sound[f.Name()] = now
	s.mu.Unlock()
	return f.Name(), now.bytes, nil
}

// raw refuses what is no raw disk by its beginning.
func raw(f *opened) error {
	begin, err := begins(f, 4<<10)
	if is := probed(begin); err == nil && is != "raw" {
		return hypervisor.Reject("image file %s is of the format %s, not raw as its name says: convert it "+
			"(qemu-img convert -O qcow2)", f.Name(), is)
	}
	return err
}

// kernel refuses what QEMU would end over, for what it says then comes from libvirt
// now and then only.
func kernel(f *opened) error {
	begin, err := begins(f, 8<<10)
	if err == nil && !bootable(begin) {
		err = hypervisor.RefuseImage("image file %s is broken: it is no kernel that QEMU boots; copy it to this "+
			"host again", f.Name())
	}
	return err
}

func begins(f *opened, most int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, most))
}

// qcow2 checks an image's header and then its tables, for QEMU starts with a broken
// one without complaint, and says how large a disk the guest sees.
func (s *Store) qcow2(ctx context.Context, f *opened) (int64, error) {
	begin, err := begins(f, longestHeader)
	if err != nil {
		return 0, err
	}
	bytes, err := readQCOW2(f.Name(), begin)
	if err != nil {
		return 0, err
	}
	err = Run(ctx, s.program, "check", "-q", "-U", "-f", "qcow2", f.Name())
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) { // 3: clusters that nobody uses
		return 0, &hypervisor.Error{Class: compute.FailureHost, Image: true,
			Message: "image file " + f.Name() + " is broken; copy it to this host again", Cause: err}
	}
	return bytes, nil
}
