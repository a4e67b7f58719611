// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// well is no failure.
const well = compute.FailureUnknown

// store is a folder of images, with a qemu-img that finds nothing wrong with anything.
func store(t *testing.T, files map[string]string, trusted bool) *Store {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return NewStore(dir, filepath.Join(t.TempDir(), Kept), "true", trusted)
}

func sum(content string) string { return fmt.Sprintf("%x  file\n", sha256.Sum256([]byte(content))) }

// qcow is a header of version 3, changed.
func qcow(change func([]byte)) string {
	b := make([]byte, 64<<10)
	copy(b, qcowMagic)
	binary.BigEndian.PutUint32(b[4:], 3)
	binary.BigEndian.PutUint32(b[20:], 16)
	binary.BigEndian.PutUint64(b[24:], 3<<30)
	binary.BigEndian.PutUint32(b[100:], 104)
	change(b)
	return string(b)
}

func TestFind(t *testing.T) {
	u32 := func(at int, v uint32) func([]byte) { return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) } }
	u64 := func(at int, v uint64) func([]byte) { return func(b []byte) { binary.BigEndian.PutUint64(b[at:], v) } }
	behind := func(kind uint32) func([]byte) { // as the second extension
		return func(b []byte) {
			u32(104, 0x6803f857)(b)
			u32(108, 5)(b)
			u32(120, kind)(b)
		}
	}
	good := qcow(func([]byte) {})
	for name, c := range map[string]struct {
		file, content string
		class         compute.FailureClass // well: it is found
		says          string
	}{
		"raw":               {"web.raw", "a disk", well, ""},
		"raw of LUKS":       {"web.raw", "LUKS\xba\xbe", well, ""},
		"qcow2":             {"web.qcow2", good, well, ""},
		"old qcow2":         {"web.qcow2", qcow(u32(4, 2)), well, ""},
		"compressed":        {"web.qcow2", qcow(u64(72, featureCompression)), well, ""},
		"no qcow2":          {"web.qcow2", "garbage", compute.FailureHost, "web.qcow2 is broken"},
		"cut in its header": {"web.qcow2", good[:80], compute.FailureHost, "cut off"},
		"odd clusters":      {"web.qcow2", qcow(u32(20, 63)), compute.FailureHost, "clusters"},
		"odd header":        {"web.qcow2", qcow(u32(100, 8)), compute.FailureHost, "header"},
		"endless":           {"web.qcow2", qcow(u64(24, 1<<63)), compute.FailureHost, "bytes"},
		"corrupt":           {"web.qcow2", qcow(u64(72, featureCorrupt)), compute.FailureHost, "says so itself"},
		"qcow 1":            {"web.qcow2", qcow(u32(4, 1)), compute.FailureRequest, "version 1"},
		"backing file":      {"web.qcow2", qcow(u64(8, 400)), compute.FailureRequest, "backing file"},
		"backing name":      {"web.qcow2", qcow(u32(16, 4)), compute.FailureRequest, "backing file"},
		"old backing file": {"web.qcow2", qcow(func(b []byte) { u32(4, 2)(b); u64(8, 400)(b) }),
			compute.FailureRequest, "backing file"},
		"encrypted": {"web.qcow2", qcow(u32(32, 2)), compute.FailureRequest, "encrypted"},
		"key":       {"web.qcow2", qcow(behind(extensionEncryption)), compute.FailureRequest, "encrypted"},
		"data file": {"web.qcow2", qcow(u64(72, featureDataFile)), compute.FailureRequest,
			"external data file"},
		"data file's name": {"web.qcow2", qcow(behind(extensionDataFile)), compute.FailureRequest,
			"external data file"},
		"data file, old": {"web.qcow2", qcow(func(b []byte) { u32(4, 2)(b); u32(72, extensionDataFile)(b) }),
			compute.FailureRequest, "external data file"},
		"new feature":  {"web.qcow2", qcow(u64(72, 1<<40)), compute.FailureRequest, "not known"},
		"qcow2 as raw": {"web.raw", good, compute.FailureRequest, "format qcow2, not raw"},
		"vdi as raw": {"web.raw", strings.Repeat("<", 0x40) + "\x7f\x10\xda\xbe", compute.FailureRequest,
			"format vdi, not raw"},
		"Linux":     {"web/kernel", strings.Repeat("x", 0x202) + "HdrS", well, ""},
		"ELF":       {"web/kernel", "\x7fELF\x02\xb0\xad\x1b123456789", well, ""},
		"multiboot": {"web/kernel", "\x7fELF" + multibootHeader, compute.FailureRequest, "is a multiboot"},
		"Linux that begins as multiboot": {
			"web/kernel", multibootHeader + strings.Repeat("x", 0x202-12) + "HdrS", well, "",
		},
		"no kernel": {"web/kernel", "garbage", compute.FailureHost, "no kernel"},
		"vhdx as qcow2": {"web.qcow2", "vhdxfile" + strings.Repeat("\x00", 100), compute.FailureRequest,
			"format vhdx, not qcow2"},
	} {
		s := store(t, map[string]string{c.file: c.content, c.file + ".sha256": sum(c.content)}, false)
		for range 2 { // also what was looked at before
			img, err := s.Find(t.Context(), "web")
			if !want(t, name, err, c.class, c.says) || c.class != well {
				continue
			}
			copied, err := os.ReadFile(img.Disk + img.Kernel)
			if err != nil || string(copied) != c.content || img.Disk != "" && img.Bytes == 0 {
				t.Errorf("%s: %+v, %v", name, img, err)
			}
		}
	}
}

const multibootHeader = "\x02\xb0\xad\x1b\x03\x00\x00\x00\xfb\x4f\x52\xe4"

// What an image gives a kernel is text, and cannot be taken for an option of QEMU.
func TestParameters(t *testing.T) {
	for line, want := range map[string]string{
		"quiet\troot=/dev/vda1\n": "quiet\troot=/dev/vda1", "": "", "a -pidfile": "a -pidfile", "ü": "ü",
		"-pidfile": "begins with", " -uuid\n": "begins with", "a\x00b": "is not text", "\xff": "is not text",
	} {
		s := store(t, map[string]string{"web/kernel": "\x7fELF", "web/cmdline": line}, true)
		img, err := s.Find(t.Context(), "web")
		if err == nil && img.Append != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", line, img.Append, err, want)
		}
		var e *hypervisor.Error
		if err != nil && (!errors.As(err, &e) || e.Class != compute.FailureRequest) {
			t.Errorf("%q: %v; want the request's fault", line, err)
		}
	}
}

// An image that is not there is at fault itself where others are, for the folder may be older than other hosts', and
// else the host is. Neither is the request: a host that lags would end what it pulls for good.
func TestMissingImages(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		image bool // is at fault
		says  string
	}{
		"among others":  {map[string]string{"other.raw": "a disk"}, true, "has no web.qcow2"},
		"with a folder": {map[string]string{"other/kernel": "\x7fELF"}, true, "has no web.qcow2"},
		"half copied":   {map[string]string{"web/cmdline": "quiet"}, true, "neither kernel nor disk.qcow2"},
		"no folder":     {nil, false, "cannot be read: mount it"},
		"none at all":   {map[string]string{}, false, "has none at all: mount it"},
		"an empty disk": {map[string]string{"lost+found/x": "", ".hidden": ""}, false, "has none at all"},
	} {
		s := store(t, c.files, true)
		if c.files == nil {
			ok(t, os.Remove(s.dir))
		}
		_, err := s.Find(t.Context(), "web")
		var e *hypervisor.Error
		if !errors.As(err, &e) || e.Class != compute.FailureHost || e.Image != c.image ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %#v; want the host's fault, the image's: %t, %q", name, err, c.image, c.says)
		}
	}
}

// want says whether an error is of a class and says why.
func want(t *testing.T, name string, err error, class compute.FailureClass, says string) bool {
	t.Helper()
	var e *hypervisor.Error
	switch {
	case class == well && err != nil, class != well && (!errors.As(err, &e) || e.Class != class ||
		!strings.Contains(err.Error(), says)):
		t.Errorf("%s: %v; want class %s, %q", name, err, class, says)
		return false
	case hypervisor.OfImage(err) != (class == compute.FailureHost):
		t.Errorf("%s: %v is the image's fault: %t", name, err, hypervisor.OfImage(err))
	}
	return true
}

// A file without a sum beside it is taken from a folder that is trusted, and from no
// other; one that is not what its sum says from none.
func TestSums(t *testing.T) {
	const other = "0000000000000000000000000000000000000000000000000000000000000000  web.raw"
	all := map[string]string{"k/kernel": "\x7fELF", "k/kernel.sha256": sum("\x7fELF"), "k/initrd": "i",
		"k/initrd.sha256": sum("i"), "k/cmdline": "c", "k/cmdline.sha256": sum("c")}
	for file := range all {
		for _, trusted := range []bool{true, false} {
			files := map[string]string{}
			for name, content := range all {
				files[name] = content
			}
			if !strings.HasSuffix(file, ".sha256") {
				_, err := store(t, files, trusted).Find(t.Context(), "k")
				want(t, "all sums", err, well, "")
				continue
			}
			delete(files, file)
			class := compute.FailureHost
			if trusted {
				class = well
			}
			_, err := store(t, files, trusted).Find(t.Context(), "k")
			want(t, "no "+file, err, class, "sha256sum "+strings.TrimSuffix(filepath.Base(file), ".sha256"))
			files[file] = other
			_, err = store(t, files, trusted).Find(t.Context(), "k")
			want(t, "another "+file, err, compute.FailureHost, "has the SHA-256")
		}
	}
}

// What was found well is looked at again once it has changed, also by something of
// the same size and age.
func TestChangedImage(t *testing.T) {
	s := store(t, map[string]string{"web.raw": "a disk", "web.raw.sha256": sum("a disk")}, false)
	_, err := s.Find(t.Context(), "web")
	want(t, "before", err, well, "")
	file := filepath.Join(s.dir, "web.raw")
	info, err := os.Stat(file)
	if err == nil {
		err = errors.Join(os.WriteFile(file+".new", []byte("b disk"), 0o644),
			os.Chtimes(file+".new", info.ModTime(), info.ModTime()), os.Rename(file+".new", file))
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Find(t.Context(), "web")
	want(t, "after", err, compute.FailureHost, "has the SHA-256")
}

// ok ends a test over what it does itself.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// kept are the contents of the copies.
func kept(t *testing.T, s *Store) (contents []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.kept, "*"))
	ok(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		ok(t, err)
		contents = append(contents, string(b))
	}
	slices.Sort(contents)
	return contents
}

// copies is a store with machines beside its copies.
type copies struct {
	*testing.T
	*Store
}

func (c copies) dir(machine string) string { return filepath.Join(filepath.Dir(c.kept), machine) }

func (c copies) give(machine string) {
	c.Helper()
	img := mustFind(c.T, c.Store)
	ok(c.T, errors.Join(os.Mkdir(c.dir(machine), 0o700), c.Link(c.Context(), img, c.dir(machine))))
	c.LetGo(img)
}

func (c copies) destroy(machines ...string) {
	c.Helper()
	for _, machine := range machines {
		ok(c.T, os.RemoveAll(c.dir(machine)))
	}
}

// replace writes the image over in place.
func (c copies) replace(content string) {
	c.Helper()
	ok(c.T, os.WriteFile(filepath.Join(c.Store.dir, "web.raw"), []byte(content), 0o644))
}

func (c copies) has(machine, content string) {
	c.Helper()
	b, err := os.ReadFile(Image{Disk: "x", Format: "raw"}.In(c.dir(machine)).Disk)
	if err != nil || string(b) != content {
		c.Errorf("machine %s has %q, %v; want %q", machine, b, err, content)
	}
}

func (c copies) keeps(when string, want ...string) {
	c.Helper()
	if got := kept(c.T, c.Store); !slices.Equal(got, want) {
		c.Errorf("%s the copies are %q, want %q", when, got, want)
	}
}

// fill sees to it that copies may not take more room than they do now.
func (c copies) fill() {
	c.Helper()
	most := taken(c.T, filepath.Join(c.kept, "*"))
	c.Spare = func(bytes int64) error {
		if taken(c.T, filepath.Join(c.kept, "*"))+bytes > most {
			return fmt.Errorf("no room for %d bytes", bytes)
		}
		return nil
	}
}

// taken is how many bytes of the disk files take.
func taken(t *testing.T, pattern string) (bytes int64) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	ok(t, err)
	for _, file := range files {
		var is syscall.Stat_t
		ok(t, syscall.Stat(file, &is))
		bytes += is.Blocks * 512
	}
	return bytes
}

// A machine keeps what it was given, whatever becomes of the image, and a copy stays for as long as a machine or the
// image needs it.
func TestCopies(t *testing.T) {
	c := copies{t, store(t, map[string]string{"web.raw": "a disk"}, true)}
	c.give("1")
	c.give("2")
	c.keeps("of an image that two have", "a disk")
	c.replace("b disk")
	c.give("3")
	c.has("1", "a disk")
	c.has("3", "b disk")
	ok(t, c.Sweep())
	c.keeps("while machines of both run", "a disk", "b disk")
	c.destroy("1", "2", "3")
	ok(t, os.WriteFile(filepath.Join(c.kept, unfinished+"1"), []byte("half"), 0o600))
	ok(t, c.Sweep())
	c.keeps("without machines", "b disk")
	img := mustFind(t, c.Store)
	c.replace("c disk")
	c.LetGo(mustFind(t, c.Store))
	c.keeps("while one is about to be linked", "b disk", "c disk")
	c.LetGo(img)
	ok(t, c.Sweep())
	c.keeps("once nobody is", "c disk")
	ok(t, NewStore(c.Store.dir, c.kept, "true", true).Sweep())
	c.keeps("after a restart without machines")
}

// A copy that somebody has removed is made again, and so is one that an agent finds at its start and that is not what
// it was.
func TestDamagedCopies(t *testing.T) {
	c := copies{t, store(t, map[string]string{"web.raw": "a disk"}, true)}
	img := mustFind(t, c.Store)
	if !img.Public {
		t.Error("an image that all may read is not said to be one")
	}
	file := filepath.Join(c.Store.dir, "web.raw")
	ok(t, errors.Join(os.Remove(img.Disk), os.Chmod(file, 0o640))) // a copy of before
	if img = mustFind(t, c.Store); img.Public {
		t.Error("an image that some may read is said to be public")
	}
	ok(t, os.Chmod(file, 0o644))
	if img = mustFind(t, c.Store); !img.Public {
		t.Error("an image that all may read by now has a copy that some may read")
	}
	ok(t, os.Remove(img.Disk))
	c.LetGo(img)
	c.give("1")
	c.has("1", "a disk")
	ok(t, errors.Join(os.Chmod(img.Disk, 0o600), os.WriteFile(img.Disk, []byte("b disk"), 0o600)))
	c.Store = NewStore(c.Store.dir, c.kept, "true", true)
	c.give("2")
	c.has("2", "a disk")
}

func mustFind(t *testing.T, s *Store) Image {
	t.Helper()
	img, err := s.Find(t.Context(), "web")
	ok(t, err)
	return img
}

// A file that changes between its checksum and its copy is refused, one that is mostly zeros takes no room for them,
// and a call that nobody waits for any more leaves nothing.
func TestCopying(t *testing.T) {
	const size = 8 << 20
	s := store(t, map[string]string{"web.raw": ""}, true)
	web, err := os.OpenFile(filepath.Join(s.dir, "web.raw"), os.O_WRONLY, 0)
	ok(t, err)
	_, err = web.WriteAt([]byte("end"), size)
	ok(t, errors.Join(err, web.Close()))
	f, err := s.open("web.raw")
	ok(t, err)
	defer f.Close()
	_, err = s.keep(t.Context(), f, strings.Repeat("0", 64))
	want(t, "changed meanwhile", err, compute.FailureHost, "was changed while it was copied")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.Find(ctx, "web"); !errors.Is(err, context.Canceled) {
		t.Errorf("in an ended context: %v", err)
	}
	if left := kept(t, s); len(left) != 0 {
		t.Errorf("%d copies are left", len(left))
	}
	noRoom := errors.New("no room")
	s.Spare = func(bytes int64) error {
		if bytes > size/2 {
			t.Errorf("room is asked for %d bytes", bytes)
		}
		return noRoom
	}
	if _, err = s.Find(t.Context(), "web"); !errors.Is(err, noRoom) || len(kept(t, s)) != 0 {
		t.Errorf("on a full disk: %v", err)
	}
	s.Spare = nil
	var stat syscall.Stat_t
	ok(t, syscall.Stat(mustFind(t, s).Disk, &stat))
	if stat.Size != size+3 || stat.Blocks*512 > size/2 || stat.Mode&0o777 != 0o444 {
		t.Errorf("the copy of a file of zeros has %d bytes in %d blocks, mode %o", stat.Size, stat.Blocks, stat.Mode)
	}
}

// Where there is no room for a copy, those that no machine has give way, also one of an image that is there; those that
// machines have, or are about to get, stay.
func TestCopiesGiveWay(t *testing.T) {
	c := copies{t, store(t, map[string]string{"web.raw": "a disk", "held.raw": "b disk", "idle.raw": "c disk",
		"next.raw": "d disk"}, true)}
	c.give("1")
	held, err := c.Find(t.Context(), "held")
	ok(t, err)
	for range 2 { // also once it was made again
		idle, err := c.Find(t.Context(), "idle")
		ok(t, err)
		c.LetGo(idle)
		c.keeps("with room", "a disk", "b disk", "c disk")
		c.fill()
		next, err := c.Find(t.Context(), "next")
		ok(t, err)
		c.keeps("without", "a disk", "b disk", "d disk")
		c.LetGo(next)
	}
	c.LetGo(held)
	c.has("1", "a disk")
}

// Copies that no machine has stay where there would be no room without them either, at each try.
func TestCopiesStay(t *testing.T) {
	c := copies{t, store(t, map[string]string{"web.raw": "a disk", "idle.raw": "c disk",
		"large.raw": strings.Repeat("e", 64<<10)}, true)}
	c.give("1")
	idle, err := c.Find(t.Context(), "idle")
	ok(t, err)
	c.LetGo(idle)
	c.fill()
	for range 2 {
		_, err = c.Find(t.Context(), "large")
		says := fmt.Sprintf("no room for %d bytes", taken(t, filepath.Join(c.Store.dir, "large.raw")))
		if err == nil || err.Error() != says {
			t.Errorf("an image that is too large: %v, want %q", err, says)
		}
		c.keeps("after one that is too large", "a disk", "c disk")
	}
}

// Where no link can be, a machine has a copy of its own, and where an image has one content twice, both files.
func TestNoLink(t *testing.T) {
	elsewhere, err := os.MkdirTemp("/dev/shm", "image")
	if err != nil {
		t.Skipf("skipped: needs another file system: %v", err)
	}
	defer os.RemoveAll(elsewhere)
	s := store(t, map[string]string{"web/kernel": "\x7fELF", "web/initrd": "\x7fELF"}, true)
	var synced []string
	s.sync = func(f *os.File) error { synced = append(synced, f.Name()); return f.Sync() }
	for _, dir := range []string{elsewhere, t.TempDir()} {
		img := mustFind(t, s)
		ok(t, s.Link(t.Context(), img, dir))
		for _, file := range []string{img.In(dir).Kernel, img.In(dir).Initrd} {
			if b, err := os.ReadFile(file); err != nil || string(b) != "\x7fELF" {
				t.Errorf("%s: %q, %v", file, b, err)
			}
			if dir == elsewhere && !slices.Contains(synced, file) {
				t.Errorf("%s, a copy, is not written to the disk; %v are", file, synced)
			}
		}
	}
}

// Of callers that want an image at once, one copies it.
func TestOneCopies(t *testing.T) {
	s := store(t, map[string]string{"web.raw": "a disk"}, true)
	s.copying <- struct{}{} // somebody copies
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Find(ctx, "web"); !errors.Is(err, context.Canceled) {
		t.Errorf("while another copies, in an ended context: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _, err := s.Find(t.Context(), "web"); want(t, "at once", err, well, "") })
	}
	<-s.copying
	all.Wait()
	if got := kept(t, s); !slices.Equal(got, []string{"a disk"}) {
		t.Errorf("the copies are %q", got)
	}
}

// No link is followed below the folder, which may be one itself.
func TestLinks(t *testing.T) {
	for name, link := range map[string]string{"a link": "web.raw", "a linked folder": "web"} {
		s := store(t, map[string]string{"else/disk.raw": "a disk", "else/disk.raw.sha256": sum("a disk")}, true)
		to := map[string]string{"web.raw": "else/disk.raw", "web": "else"}[link]
		if err := os.Symlink(to, filepath.Join(s.dir, link)); err != nil {
			t.Fatal(err)
		}
		_, err := s.Find(t.Context(), "web")
		want(t, name, err, compute.FailureHost, "is a symbolic link")
		itself := filepath.Join(t.TempDir(), "images")
		if err := os.Symlink(s.dir, itself); err != nil {
			t.Fatal(err)
		}
		_, err = NewStore(itself, s.kept, "true", false).Find(t.Context(), "else")
		want(t, "folder by a link", err, well, "")
	}
}

// An image is not blamed for a qemu-img that is killed, for the host's memory for example, or is not there.
func TestToolThatFails(t *testing.T) {
	for does, blamed := range map[string]bool{"kill -9 $$": false, "exit 2": true, "exit 1": true, "": false} {
		s := store(t, map[string]string{"web.qcow2": qcow(func([]byte) {}), "tool": "#!/bin/sh\n" + does + "\n"}, true)
		if s.program = filepath.Join(s.dir, "tool"); does == "" {
			s.program = filepath.Join(s.dir, "none")
		} else if err := os.Chmod(s.program, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := s.Find(t.Context(), "web")
		if err == nil || hypervisor.OfImage(err) != blamed {
			t.Errorf("qemu-img does %q: %v, which blames the image: %t", does, err, !blamed)
		}
	}
}

// An image that qemu-img would check for years is at fault itself, and no other one waits for it for long.
func TestCheckWithoutEnd(t *testing.T) {
	s := store(t, map[string]string{"web.qcow2": qcow(func([]byte) {}), "tool": "#!/bin/sh\nexec sleep 1000\n"}, true)
	s.program, s.within = filepath.Join(s.dir, "tool"), func(int64) time.Duration { return 10 * time.Millisecond }
	ok(t, os.Chmod(s.program, 0o755))
	_, err := s.Find(t.Context(), "web")
	want(t, "without end", err, compute.FailureHost, "is not through with it after 10ms")
	ctx, cancel := context.WithCancel(t.Context())
	s.within = func(int64) time.Duration { cancel(); return time.Hour }
	if _, err := s.Find(ctx, "web"); !errors.Is(err, context.Canceled) || hypervisor.OfImage(err) {
		t.Errorf("a caller that gives up: %v, which blames the image: %t", err, hypervisor.OfImage(err))
	}
}

// A machine's disk is its own before the first byte is in it.
func TestDiskIsTheGuestsAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	s := store(t, map[string]string{"tool": "#!/bin/sh\nstat -c %a \"$5\" >\"$5.mode\"\n"}, true)
	s.program = filepath.Join(s.dir, "tool")
	ok(t, os.Chmod(s.program, 0o755))
	file := filepath.Join(t.TempDir(), "disk")
	ok(t, s.Make(t.Context(), file, "web", Image{}, compute.Resources{compute.DiskGB: 1}))
	if mode, err := os.ReadFile(file + ".mode"); string(mode) != "600\n" {
		t.Errorf("while qemu-img makes it, its mode is %q, %v", mode, err)
	}
}

// A tool that complains without end fills nothing.
func TestToolThatSaysMuch(t *testing.T) {
	s := store(t, map[string]string{"web.qcow2": qcow(func([]byte) {}),
		"tool": "#!/bin/sh\nseq -f 'ERROR cluster %.0f refcount=0 reference=1' 300000 >&2\nexit 2\n"}, true)
	s.program = filepath.Join(s.dir, "tool")
	if err := os.Chmod(s.program, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := s.Find(t.Context(), "web")
	if want(t, "much", err, compute.FailureHost, "cluster 300000 "); len(err.Error()) > 3<<10 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

// FuzzHeader reads what any file may begin with: it must not panic, and what is taken
// names no other file.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(qcow(func([]byte) {}))[:256])
	f.Add([]byte(qcow(func(b []byte) { b[104], b[108], b[120] = 1, 5, 0x44 }))[:256])
	f.Fuzz(func(t *testing.T, b []byte) {
		size, err := readQCOW2("f", b)
		if err == nil && (size < 0 || !bytes.HasPrefix(b, []byte(qcowMagic)) ||
			!bytes.Equal(b[8:20], make([]byte, 12))) {
			t.Errorf("%q is taken, with %d bytes", b, size)
		}
	})
}
