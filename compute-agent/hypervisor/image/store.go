// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

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
// is what it must be; only a folder that the operator trusts may be without. One that
// names other files of the host is the request's fault, for all hosts have the same
// images. One that is broken or not there is the fault of the image on this host: the
// folder may be older than other hosts'. A folder without any is the host's fault.
//
// What Find gives are copies (see keep.go), which Link puts into a machine's folder.
type Image struct {
	Disk, Format           string // file; "qcow2" or "raw"
	Bytes                  int64  // what a guest sees of the disk
	Public                 bool   // every user of the host may read its files
	Kernel, Initrd, Append string // files; kernel parameters
}

var imagePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// Store remembers which files were looked at, and what they are.
type Store struct {
	dir, kept, program string
	trusted            bool
	// Spare refuses a copy that takes so many bytes; nil: there is room for any.
	Spare func(bytes int64) error
	// within is how long a check of so many bytes may take; sync has a file written to the disk
	within  func(bytes int64) time.Duration
	sync    func(*os.File) error
	copying chan struct{} // has an entry while a file is copied
	mu      sync.Mutex
	sound   map[string]sound // by path
	held    map[string]int   // copies that Find gave and that were not let go, how often
}

// sound is a file that was found to be well, as it was then.
type sound struct {
	is    identity
	bytes int64
	copy  string // path
}

// NewStore looks for images in a folder, with a qemu-img, and keeps copies in one that is nobody else's, on the file
// system of the machines. trusted: a file may be without its sum.
func NewStore(dir, kept, program string, trusted bool) *Store {
	return &Store{dir: dir, kept: kept, program: program, trusted: trusted, copying: make(chan struct{}, 1),
		sound: map[string]sound{}, held: map[string]int{}, within: checkTime, sync: (*os.File).Sync}
}

// Find looks an image up and checks it. Its copies stay until LetGo, and then for as long as a machine has them.
func (s *Store) Find(ctx context.Context, name string) (Image, error) {
	img, err := s.find(ctx, name)
	if err != nil {
		s.LetGo(img)
		return img, err
	}
	img.Public = true
	for _, copied := range []string{img.Disk, img.Kernel, img.Initrd} {
		if copied != "" {
			info, unknown := os.Stat(copied)
			img.Public = img.Public && unknown == nil && info.Mode()&0o004 != 0
		}
	}
	return img, nil
}

// LetGo is called once for each image that Find gave, when Link has put it where it is needed or nobody needs it.
func (s *Store) LetGo(img Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, copied := range []string{img.Disk, img.Kernel, img.Initrd} {
		if s.held[copied]--; s.held[copied] <= 0 {
			delete(s.held, copied)
		}
	}
}

func (s *Store) find(ctx context.Context, name string) (Image, error) {
	if !imagePattern.MatchString(name) {
		return Image{}, hypervisor.Reject("image %q: use letters, digits, dots, dashes and underscores", name)
	}
	if s.isFolder(name) {
		return s.folder(ctx, name)
	}
	img, err := s.disk(ctx, name)
	if err == nil && img.Disk == "" {
		err = s.missing(name)
	}
	return img, err
}

// missing is the error of an image that is not there. Where others are, the name may be wrong, or the folder older than
// other hosts', which no host can tell: work with this image alone is left to others. Where no other one is there either,
// the folder has not been mounted or filled, and the host can start nothing.
func (s *Store) missing(name string) error {
	entries, err := os.ReadDir(s.dir)
	switch {
	case err != nil:
		return hypervisor.Refuse("image %q: the folder of images of this host cannot be read: mount it, or set images "+
			"of the agent's driver: %v", name, err)
	case !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return imagePattern.MatchString(e.Name()) }):
		return hypervisor.Refuse("image %q: the folder of images of this host, %s, has none at all: mount it, or put "+
			"them there", name, s.dir)
	}
	return hypervisor.RefuseImage("image %q: %s has no %[1]s.qcow2, %[1]s.raw or folder %[1]s: give the name of an "+
		"image, or put it there on every host", name, s.dir)
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
		return img, hypervisor.RefuseImage("image %q: its folder has neither kernel nor disk.qcow2 nor disk.raw: put "+
			"them there on every host", name)
	}
	if img.Initrd, _, err = s.file(ctx, "", name, "initrd"); err != nil {
		return img, err
	}
	img.Append, err = s.parameters(ctx, name)
	return img, err
}

// parameters are those of the kernel.
func (s *Store) parameters(ctx context.Context, name string) (string, error) {
	f, err := s.open(name, "cmdline")
	if err != nil || f == nil {
		return "console=ttyS0 root=/dev/vda1", err
	}
	defer f.Close()
	line, err := f.whole(mostParameters)
	if err != nil {
		return "", err
	}
	want, err := s.vouched(f, []string{name, "cmdline"})
	if err != nil {
		return "", err
	}
	got, err := digest(ctx, bytes.NewReader(line))
	if err == nil {
		err = same(f, want, got)
	}
	if err != nil {
		return "", err
	}
	return text(f.Name(), string(line))
}

// text refuses parameters that are no words for a kernel. One that begins as an option of QEMU does is mistaken for
// one by whoever reads the command line of the machine's process; what is not text no process or domain is given.
func text(name, line string) (string, error) {
	line = strings.TrimSpace(line)
	odd := func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' }
	switch {
	case strings.HasPrefix(line, "-"):
		return "", hypervisor.Reject("image file %s begins with %.40q: no parameter of a kernel begins with a dash; "+
			"write others", name, line)
	case !utf8.ValidString(line) || strings.ContainsFunc(line, odd):
		return "", hypervisor.Reject("image file %s is not text: write the kernel's parameters in UTF-8, without "+
			"control characters but tabs and line ends", name)
	}
	return line, nil
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

// file copies and checks a file, once for as long as it does not change, and says how large a disk it is; one that is
// not there is "".
func (s *Store) file(ctx context.Context, format string, parts ...string) (copied string, bytes int64, err error) {
	f, err := s.open(parts...)
	if err != nil || f == nil {
		return "", 0, err
	}
	defer f.Close()
	if known, ok := s.known(f); ok {
		return known.copy, known.bytes, nil
	}
	select {
	case s.copying <- struct{}{}:
		defer func() { <-s.copying }()
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
	if known, ok := s.known(f); ok { // by now
		return known.copy, known.bytes, nil
	}
	now, err := s.take(ctx, f, format, parts)
	if err != nil {
		return "", 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sound[f.Name()] = now
	s.held[now.copy]++
	return now.copy, now.bytes, nil
}

// known is what a file was found to be, if it has not changed since and its copy is there, which is held then.
func (s *Store) known(f *opened) (sound, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.sound[f.Name()]
	if !ok || known.is != f.is {
		return sound{}, false
	}
	if _, err := os.Lstat(known.copy); err != nil {
		return sound{}, false
	}
	s.held[known.copy]++
	return known, true
}

// take copies a file and checks the copy.
func (s *Store) take(ctx context.Context, f *opened, format string, parts []string) (sound, error) {
	want, err := s.vouched(f, parts)
	if err != nil {
		return sound{}, err
	}
	sum, err := digest(ctx, f)
	if err == nil {
		err = same(f, want, sum)
	}
	if err != nil {
		return sound{}, err
	}
	now := sound{is: f.is}
	if now.copy, err = s.keep(ctx, f, sum); err != nil {
		return sound{}, err
	}
	its, err := os.Open(now.copy)
	if err != nil {
		return sound{}, err
	}
	defer its.Close()
	info, err := its.Stat()
	if err != nil {
		return sound{}, err
	}
	switch now.bytes = info.Size(); format {
	case "qcow2":
		now.bytes, err = s.qcow2(ctx, f.Name(), its)
	case "raw":
		err = raw(f.Name(), its)
	case "kernel":
		err = kernel(f.Name(), its)
	}
	return now, err
}

// raw refuses what is no raw disk by its beginning.
func raw(name string, f io.ReaderAt) error {
	begin, err := begins(f, 4<<10)
	if is := probed(begin); err == nil && is != "raw" {
		return hypervisor.Reject("image file %s is of the format %s, not raw as its name says: convert it "+
			"(qemu-img convert -O qcow2)", name, is)
	}
	return err
}

// kernel refuses what QEMU would end over, for what it says then comes from libvirt
// now and then only.
func kernel(name string, f io.ReaderAt) error {
	begin, err := begins(f, 8<<10)
	switch {
	case err != nil:
		return err
	case multiboot(begin):
		return hypervisor.Reject("image file %s is a multiboot kernel, for which QEMU takes as much of the host's memory "+
			"as its header says: boot it from a disk", name)
	case !bootable(begin):
		return hypervisor.RefuseImage("image file %s is broken: it is no kernel that QEMU boots; copy it to this "+
			"host again", name)
	}
	return nil
}

func begins(f io.ReaderAt, most int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, most))
}

// leaked is how qemu-img check ends that finds clusters that nobody uses, and nothing else.
const leaked = 3

// checkTime is many times what a check takes, which reads the tables alone: some may have it read them for years, and
// meanwhile no other image is copied.
func checkTime(bytes int64) time.Duration {
	return time.Minute + time.Duration(bytes/(10<<20))*time.Second
}

// qcow2 checks an image's header and then its tables, for QEMU starts with a broken
// one without complaint, and says how large a disk the guest sees.
func (s *Store) qcow2(ctx context.Context, name string, its *os.File) (int64, error) {
	begin, err := begins(its, longestHeader)
	if err != nil {
		return 0, err
	}
	size, err := readQCOW2(name, begin)
	if err != nil {
		return 0, err
	}
	info, err := its.Stat()
	if err != nil {
		return 0, err
	}
	most := s.within(info.Size())
	checking, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err = Run(checking, s.program, "check", "-q", "-U", "-f", "qcow2", its.Name())
	var exit *exec.ExitError
	switch {
	case err == nil:
	case checking.Err() != nil && ctx.Err() == nil:
		return 0, hypervisor.RefuseImage("image file %s is broken: qemu-img check is not through with it after %s; "+
			"copy it to this host again", name, most)
	case !errors.As(err, &exit) || !exit.Exited():
		return 0, err // it was not started, or was killed: that says nothing about the image
	case exit.ExitCode() != leaked:
		return 0, &hypervisor.Error{Class: compute.FailureHost, Image: true,
			Message: "image file " + name + " is broken; copy it to this host again", Cause: err}
	}
	return size, nil
}
