package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// Image is one that was found. An image named web is one of these in the folder of images:
//
//	web.qcow2  a disk         web/kernel   booted directly, with web/initrd and
//	web.raw    a disk         web/cmdline  its parameters, and web/disk.qcow2 or
//	                          web/disk.raw if they are there
//
// A file next to any of them with .sha256 behind its name, as sha256sum writes it,
// is what it must be. All hosts have the same images, so one that is not there is
// the request's fault; one that is broken is the host's.
type Image struct {
	Disk, Format           string // file; "qcow2" or "raw"
	Bytes                  int64  // what a guest sees of the disk
	Kernel, Initrd, Append string // files; kernel parameters
}

var imagePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// Store remembers which files were looked at, and what they are.
type Store struct {
	dir, program string
	mu           sync.Mutex
	sound        map[string]sound
}

// sound is a file that was found to be well, as it was then.
type sound struct {
	size    int64
	changed time.Time
	bytes   int64
}

// NewStore looks for images in a folder, with a qemu-img.
func NewStore(dir, program string) *Store {
	return &Store{dir: dir, program: program, sound: map[string]sound{}}
}

// Find looks an image up and checks it.
func (s *Store) Find(ctx context.Context, name string) (Image, error) {
	if !imagePattern.MatchString(name) {
		return Image{}, hypervisor.Reject("image %q: use letters, digits, dots, dashes and underscores", name)
	}
	base := filepath.Join(s.dir, name)
	if info, err := os.Stat(base); err == nil && info.IsDir() {
		return s.folder(ctx, name, base)
	}
	img, err := s.disk(ctx, base)
	if err == nil && img.Disk == "" {
		return img, hypervisor.Reject("image %q: %s has no %[1]s.qcow2, %[1]s.raw or folder %[1]s: give the name of an image, or put it there on every host", name, s.dir)
	}
	return img, err
}

func (s *Store) folder(ctx context.Context, name, base string) (Image, error) {
	img, err := s.disk(ctx, filepath.Join(base, "disk"))
	if err != nil {
		return img, err
	}
	if img.Kernel, err = s.file(ctx, filepath.Join(base, "kernel"), ""); err != nil {
		return img, err
	}
	if img.Kernel == "" && img.Disk == "" {
		return img, hypervisor.Reject("image %q: its folder has neither kernel nor disk.qcow2 nor disk.raw", name)
	}
	if img.Initrd, err = s.file(ctx, filepath.Join(base, "initrd"), ""); err != nil {
		return img, err
	}
	line, err := os.ReadFile(filepath.Join(base, "cmdline"))
	if errors.Is(err, os.ErrNotExist) {
		line, err = []byte("console=ttyS0 root=/dev/vda1"), nil
	}
	img.Append = strings.TrimSpace(string(line))
	return img, err
}

// disk finds base.qcow2 or base.raw. What a file is follows from its name alone:
// a raw image is what a guest wrote, and may look like anything.
func (s *Store) disk(ctx context.Context, base string) (Image, error) {
	for _, format := range []string{"qcow2", "raw"} {
		file, err := s.file(ctx, base+"."+format, format)
		if err != nil {
			return Image{}, err
		}
		if file != "" {
			s.mu.Lock()
			defer s.mu.Unlock()
			return Image{Disk: file, Format: format, Bytes: s.sound[file].bytes}, nil
		}
	}
	return Image{}, nil
}

// file checks a file once for as long as it does not change; one that is not
// there is "".
func (s *Store) file(ctx context.Context, path, format string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", hypervisor.Refuse("image file %s is not a file", path)
	}
	s.mu.Lock()
	known, ok := s.sound[path]
	s.mu.Unlock()
	if ok && known.size == info.Size() && known.changed.Equal(info.ModTime()) {
		return path, nil
	}
	now := sound{size: info.Size(), changed: info.ModTime(), bytes: info.Size()}
	if err := checksum(ctx, path); err != nil {
		return "", err
	}
	if format == "qcow2" {
		if now.bytes, err = s.qcow2(ctx, path); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	s.sound[path] = now
	s.mu.Unlock()
	return path, nil
}

// qcow2 checks an image's tables, for QEMU starts with a broken one without
// complaint, and says how large a disk the guest sees.
func (s *Store) qcow2(ctx context.Context, path string) (int64, error) {
	err := Run(ctx, s.program, "check", "-q", "-U", "-f", "qcow2", path)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) { // 3: clusters that nobody uses
		return 0, fmt.Errorf("image file %s is broken; copy it to this host again: %w", path, err)
	}
	out, err := exec.CommandContext(ctx, s.program, "info", "-U", "-f", "qcow2", "--output=json", path).Output()
	if err != nil {
		return 0, fmt.Errorf("image file %s: %w", path, err)
	}
	var info struct {
		Bytes int64 `json:"virtual-size"`
	}
	return info.Bytes, json.Unmarshal(out, &info)
}

func checksum(ctx context.Context, path string) error {
	want, err := os.ReadFile(path + ".sha256")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, reader{ctx, f}); err != nil {
		return err
	}
	got := hex.EncodeToString(h.Sum(nil))
	if first, _, _ := strings.Cut(strings.TrimSpace(string(want)), " "); !strings.EqualFold(first, got) {
		return hypervisor.Refuse("image file %s has the SHA-256 %s, and %s.sha256 says %q: copy it to this host again", path, got, filepath.Base(path), first)
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
