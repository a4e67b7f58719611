// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/pkg/compute"
)

var small = compute.Resources{compute.VCPU: 1, compute.MemoryMB: 128, compute.DiskGB: 1}

// bench is an empty host: two folders of its own. What the machines are on is
// the real one.
type bench struct {
	t     *testing.T
	guest guesttest.Guest
	o     Options
	full  atomic.Bool // its disk

	theirs int // the process of somebody else's QEMU

	mu   sync.Mutex
	seen map[compute.InstanceID]int // how often it was up
}

func newBench(t *testing.T, g guesttest.Guest) *bench {
	dir := guesttest.Folder(t)
	b := &bench{t: t, guest: g, seen: map[compute.InstanceID]int{}}
	// q35 boots a second slower
	b.o = Options{
		Options: host.Options{
			Dir: filepath.Join(dir, "m"), Images: filepath.Join(dir, "i"), Accel: "tcg", Machine: "pc",
		},
	}
	b.image("tiny.raw", guesttest.BootDisk(guesttest.Tiny))
	b.image("listening.raw", guesttest.BootDisk(guesttest.Listening))
	b.ok(g.Image(filepath.Join(b.o.Images, "linux"), guesttest.Listen))
	return b
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) image(name string, content []byte) {
	b.t.Helper()
	file := filepath.Join(b.o.Images, name)
	b.ok(os.MkdirAll(filepath.Dir(file), 0o755))
	b.ok(os.WriteFile(file, content, 0o644))
	b.ok(guesttest.Sum(file))
}

func (b *bench) open() *Driver {
	b.t.Helper()
	d, err := Open(b.t.Context(), b.o)
	b.ok(err)
	d.host.Room = func(dir string) (free, total int64, err error) {
		if free, total, err = host.This().Room(dir); b.full.Load() {
			free = 1 << 20
		}
		return free, total, err
	}
	return d
}

// dying is a driver of an agent that dies.
func (b *bench) dying(crash hypervisor.CrashPoint) hypervisor.Driver {
	d := b.open()
	d.crash = crash
	return d
}

func (b *bench) subject() hypervisortest.Subject {
	return hypervisortest.Subject{
		Driver: b.open(), Reopen: func() hypervisor.Driver { return b.open() },
		Launches: b.launches, Left: b.left, Resources: small, Image: "tiny",
		Broken:  b.broken(),
		Swaps:   func() []hypervisortest.Swap { return hypervisortest.Swaps(b.t, b.guest, b.o.Images) },
		Crashes: hypervisortest.Crashes(b.dying, "recorded", "made", "spawned", "prepared", "launched", "let go"),
		Kill:    b.kill, Pause: b.pause, Foreign: b.foreign,
		Listening: func(s *hypervisor.Spec) { s.Image = "listening" }, Deaf: func(*hypervisor.Spec) {},
		Linux:   func(s *hypervisor.Spec) { s.Image = "linux" },
		Goodbye: guesttest.Goodbye, Up: b.up,
	}
}

// guests is a subject for what is tried on real guests only.
func guests(t *testing.T) hypervisortest.Guests {
	g := guesttest.Need(t)
	b := newBench(t, g)
	b.ok(g.Image(filepath.Join(b.o.Images, "panics"), guesttest.Panics))
	return hypervisortest.Guests{
		Subject: b.subject(),
		Panics:  func(s *hypervisor.Spec) { s.Image = "panics" },
		Calls: func(s *hypervisor.Spec, port int) {
			dir := filepath.Join(b.o.Images, "calls")
			b.ok(os.RemoveAll(dir))
			b.ok(g.Image(dir, fmt.Sprint(guesttest.Calls, port)))
			s.Image = "calls"
		},
		Network:  func(kind string) hypervisor.Driver { b.o.Network = kind; return b.open() },
		Hardware: func(sys string) hypervisor.Driver { d := b.open(); d.host.Sys = sys; return d },
		PID: func(id compute.InstanceID) int {
			return guesttest.Below(b.t, filepath.Join(b.o.Dir, string(id)))[0].PID
		},
		Processes: func() int { return len(b.processes()) },
		Default:   func() hypervisor.Driver { b.o.Machine = ""; return b.open() },
		PutImage:  b.image,
		PowerOff: func(id compute.InstanceID) {
			d := b.open()
			b.ok(d.tell(t.Context(), id, "system_powerdown"))
			b.await("power off", func() bool { return d.status(t.Context(), id, commandTime) == "shutdown" })
		},
	}
}

// processes are those in the bench's folders.
func (b *bench) processes() []host.Process { return guesttest.Below(b.t, b.o.Dir) }

// launches counts processes that were let go.
func (b *bench) launches(id compute.InstanceID) (n int) {
	d := &Driver{o: b.o}
	for _, p := range b.processes() {
		if !in(p, d.dir(id)) {
			continue
		}
		var status string
		for range 6 {
			if status = d.status(context.Background(), id, commandTime); status != "" {
				break
			}
		}
		switch status {
		case "prelaunch":
		case "":
			b.t.Errorf("process %d does not answer", p.PID)
		default:
			n++
		}
	}
	return n
}

func (b *bench) left() (left []string) {
	for _, p := range b.processes() {
		left = append(left, fmt.Sprint("process ", p.PID))
	}
	return append(left, guesttest.Left(b.t, b.o.Dir)...)
}

// kill ends a machine's process and waits until it is buried.
func (b *bench) kill(id compute.InstanceID) {
	for _, p := range b.processes() {
		if in(p, filepath.Join(b.o.Dir, string(id))) {
			b.ok(syscall.Kill(p.PID, syscall.SIGKILL))
			b.await("its death", func() bool { _, there, err := host.This().Inspect(p.PID); return !there && err == nil })
		}
	}
}

// pause stops a machine's processors behind the driver's back.
func (b *bench) pause(id compute.InstanceID) {
	b.ok((&Driver{o: b.o}).tell(b.t.Context(), id, "stop"))
}

// await looks until it is so.
func (b *bench) await(what string, so func() bool) {
	b.t.Helper()
	hypervisortest.Await(b.t, what, so)
}

// up waits until a guest has said once more that it is up.
func (b *bench) up(id compute.InstanceID) {
	b.t.Helper()
	r, _, err := (&Driver{o: b.o}).load(id)
	b.ok(err)
	says := guesttest.TinyUp
	if r.Plan.Kernel != "" {
		says = guesttest.Up
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var printed []byte
	ctx, cancel := hypervisortest.Waiting(b.t)
	defer cancel()
	for n := 0; n <= b.seen[id]; n = strings.Count(string(printed), says) {
		if !hypervisor.Pause(ctx, 50*time.Millisecond) {
			b.t.Fatalf("a guest does not say %q; it printed %q", says, printed)
		}
		printed, _ = os.ReadFile(filepath.Join(b.o.Dir, string(id), console.File))
	}
	b.seen[id]++
}

// foreign is somebody else's QEMU.
func (b *bench) foreign() (compute.Resources, func() bool) {
	cmd := exec.Command(
		"qemu-system-x86_64", "-nodefaults", "-display", "none", "-M", "q35,accel=tcg", "-S", "-m", "67", "-smp", "3",
		"-name", "theirs",
	)
	b.ok(cmd.Start())
	b.theirs = cmd.Process.Pid
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		hypervisortest.Receive(b.t, "the end of somebody else's QEMU", ended)
	})
	b.await("exec", func() bool { _, ok, _ := host.This().Inspect(cmd.Process.Pid); return ok })
	return compute.Resources{compute.VCPU: 3, compute.MemoryMB: 67}, func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
}

// running is a process that lives until it is killed, or the test has ended.
type running struct {
	pid   int
	ended chan struct{}
}

// begins a process that calls itself by a name, with these arguments.
func (b *bench) begins(name string, args ...string) running { return b.as(os.Geteuid(), name, args...) }

// as begins one of another user.
func (b *bench) as(user int, name string, args ...string) running {
	cmd := exec.Command("/bin/sh")
	cmd.Args = append([]string{name, "-c", "read wait"}, args...)
	if user != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	in, err := cmd.StdinPipe()
	b.ok(err)
	b.ok(cmd.Start())
	r := running{cmd.Process.Pid, make(chan struct{})}
	go func() { _ = cmd.Wait(); close(r.ended) }()
	b.t.Cleanup(func() {
		_ = in.Close()
		hypervisortest.Receive(b.t, "the end of a process", r.ended)
	})
	return r
}

func (b *bench) broken() []hypervisortest.Breakage {
	nothing := func() {}
	spoil := func(name string, class compute.FailureClass, how func(*hypervisor.Spec)) hypervisortest.Breakage {
		return hypervisortest.Breakage{Name: name, Class: class, Image: strings.Contains(name, " is ") &&
			class == compute.FailureHost, Break: func(s *hypervisor.Spec) func() { how(s); return nothing }}
	}
	qcow2 := func(name, size string, args ...string) {
		file := filepath.Join(b.o.Images, name)
		b.ok(image.Run(b.t.Context(), "qemu-img", append([]string{"create", "-q", "-f", "qcow2"}, append(args, file,
			size)...)...))
		b.ok(guesttest.Sum(file))
	}
	return append(hypervisortest.BadImages(b.t, b.o.Images), []hypervisortest.Breakage{
		spoil("image is missing", compute.FailureHost, func(s *hypervisor.Spec) { s.Image = "none" }),
		spoil("image elsewhere", compute.FailureRequest, func(s *hypervisor.Spec) { s.Image = "../i/tiny" }),
		spoil(
			"image is of nothing", compute.FailureHost,
			func(s *hypervisor.Spec) { b.image("empty/cmdline", nil); s.Image = "empty" },
		),
		spoil(
			"image larger than the flavor's disk", compute.FailureRequest,
			func(s *hypervisor.Spec) { qcow2("large.qcow2", "2G"); s.Image = "large" },
		),
		spoil(
			"image is garbage", compute.FailureHost,
			func(s *hypervisor.Spec) { b.image("garbage.qcow2", []byte("garbage")); s.Image = "garbage" },
		),
		spoil("image is cut off", compute.FailureHost, func(s *hypervisor.Spec) {
			qcow2("cut.qcow2", "64M", "-o", "preallocation=metadata")
			b.ok(os.Truncate(filepath.Join(b.o.Images, "cut.qcow2"), 300<<10))
			b.ok(guesttest.Sum(filepath.Join(b.o.Images, "cut.qcow2")))
			s.Image = "cut"
		}),
		spoil("image is another", compute.FailureHost, func(s *hypervisor.Spec) {
			b.image("other.raw", guesttest.BootDisk("x"))
			b.ok(os.WriteFile(filepath.Join(b.o.Images, "other.raw.sha256"), []byte(strings.Repeat("0",
				64)+"  other.raw\n"), 0o644))
			s.Image = "other"
		}),
		spoil(
			"kernel is garbage", compute.FailureHost,
			func(s *hypervisor.Spec) { b.image("bad/kernel", []byte("garbage")); s.Image = "bad" },
		),
		spoil(
			"kernel is of another kind", compute.FailureHost,
			func(s *hypervisor.Spec) { b.image("elf/kernel", []byte("\x7fELF and nothing else")); s.Image = "elf" },
		),
		spoil(
			"initrd larger than the flavor's memory", compute.FailureRequest,
			func(s *hypervisor.Spec) {
				b.image("live/kernel", []byte("\x7fELF and nothing else"))
				b.image("live/initrd", nil)
				initrd := filepath.Join(b.o.Images, "live", "initrd")
				b.ok(os.Truncate(initrd, s.Resources[compute.MemoryMB]<<20))
				b.ok(guesttest.Sum(initrd))
				s.Image = "live"
			},
		),
		spoil(
			"no memory in the flavor", compute.FailureRequest,
			func(s *hypervisor.Spec) { delete(s.Resources, compute.MemoryMB) },
		),
		spoil(
			"flavor larger than the host", compute.FailureHost,
			func(s *hypervisor.Spec) { s.Resources[compute.MemoryMB] = 1 << 30 },
		),
		spoil(
			"more processors than QEMU has", compute.FailureHost,
			func(s *hypervisor.Spec) { s.Resources[compute.VCPU] = 100_000 },
		),
		spoil(
			"no such device", compute.FailureHost,
			func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{"0000:fe:1f.7"} },
		),
		spoil(
			"device without an address", compute.FailureRequest,
			func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{"x,y"} },
		),
		{Name: "disk is full", Class: compute.FailureHost, Break: func(*hypervisor.Spec) func() {
			b.full.Store(true)
			return func() { b.full.Store(false) }
		}},
	}...)
}
