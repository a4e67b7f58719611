// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/pkg/compute"
)

var small = compute.Resources{compute.VCPU: 1, compute.MemoryMB: 128, compute.DiskGB: 1}

// bench is an empty host: a libvirtd and two folders of its own.
type bench struct {
	*daemon
	guest guesttest.Guest
	o     Options
	full  atomic.Bool // its disk

	mu   sync.Mutex
	seen map[compute.InstanceID]int // how often it was up
}

// cache is where all libvirtds of the tests keep what they know of QEMU: to ask it
// takes seconds.
func cache(t *testing.T) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "berth-libvirt")
}

func newBench(t *testing.T, g guesttest.Guest) *bench {
	b := &bench{daemon: newDaemon(t), guest: g, seen: map[compute.InstanceID]int{}}
	b.o = Options{URI: session, Socket: b.socket(), Options: host.Options{
		// q35 boots a second slower
		Dir: filepath.Join(b.root, "m"), Images: filepath.Join(b.root, "i"), Accel: "tcg", Machine: "pc",
	}}
	b.image("tiny.raw", guesttest.BootDisk(guesttest.Tiny))
	b.image("listening.raw", guesttest.BootDisk(guesttest.Listening))
	b.ok(g.Image(filepath.Join(b.o.Images, "linux"), guesttest.Listen))
	return b
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
		Kill:    b.killed,
		Pause:   func(id compute.InstanceID) { b.virsh("suspend", string(id)) }, Foreign: b.foreign,
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
		PID:      func(id compute.InstanceID) int { return b.qemus(id)[0].PID },

		Processes: func() int { return len(b.qemus("")) },
		Default:   func() hypervisor.Driver { b.o.Machine = ""; return b.open() },
		PutImage:  b.image,
		PowerOff: func(id compute.InstanceID) {
			b.virsh("shutdown", string(id))
			b.await("power off", func() bool { return b.state(id) == libvirt.DomainShutoff })
		},
	}
}

// qemus are the processes of the bench's machines.
func (b *bench) qemus(of compute.InstanceID) (ours []host.Process) {
	for _, p := range guesttest.Below(b.t, b.root) {
		if strings.Contains(strings.Join(p.Args, " "), "guest=berth-"+string(of)) {
			ours = append(ours, p)
		}
	}
	return ours
}

// domains are all that libvirt has, with what they do.
func (b *bench) domains() map[string]libvirt.DomainState {
	b.t.Helper()
	all := map[string]libvirt.DomainState{}
	d := &Driver{o: b.o.defaults()}
	b.ok(d.short(context.Background(), func(c conn) error {
		domains, _, err := c.ConnectListAllDomains(1, 0)
		for _, dom := range domains {
			state, _, wrong := c.DomainGetState(dom, 0)
			all[dom.Name] = libvirt.DomainState(state)
			err = errors.Join(err, wrong)
		}
		return err
	}))
	return all
}

func (b *bench) state(id compute.InstanceID) libvirt.DomainState {
	b.t.Helper()
	return b.domains()["berth-"+string(id)]
}

// launches counts processes that were let go.
func (b *bench) launches(id compute.InstanceID) int {
	n := len(b.qemus(id))
	if n == 1 && b.state(id) == libvirt.DomainPaused {
		return 0
	}
	return n
}

func (b *bench) left() (left []string) {
	for _, p := range b.qemus("") {
		left = append(left, fmt.Sprint("process ", p.PID))
	}
	for name := range b.domains() {
		if name != "theirs" {
			left = append(left, name)
		}
	}
	return append(left, guesttest.Left(b.t, b.o.Dir)...)
}

// killed ends a machine's process and waits until libvirt has noticed.
func (b *bench) killed(id compute.InstanceID) {
	for _, p := range b.qemus(id) {
		b.ok(syscall.Kill(p.PID, syscall.SIGKILL))
	}
	b.await("its death", func() bool { return b.state(id) == libvirt.DomainShutoff })
}

// await looks until it is so.
func (b *bench) await(what string, so func() bool) {
	b.t.Helper()
	hypervisortest.Await(b.t, what, so)
}

// up waits until a guest has said once more that it is up.
func (b *bench) up(id compute.InstanceID) {
	b.t.Helper()
	says := guesttest.TinyUp
	if strings.Contains(b.virsh("dumpxml", string(id)), "<kernel>") {
		says = guesttest.Up
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.await(says, func() bool {
		printed, _ := os.ReadFile(filepath.Join(b.o.Dir, string(id), console.File))
		return strings.Count(string(printed), says) > b.seen[id]
	})
	b.seen[id]++
}

const theirs = `<domain type="qemu"><name>theirs</name><memory unit="MiB">67</memory><vcpu>3</vcpu>
<os><type arch="x86_64" machine="pc">hvm</type></os><devices>
<controller type="usb" model="none"/><memballoon model="none"/></devices></domain>`

// foreign is somebody else's domain.
func (b *bench) foreign() (compute.Resources, func() bool) {
	file := filepath.Join(b.root, "theirs.xml")
	b.ok(os.WriteFile(file, []byte(theirs), 0o600))
	b.virsh("define", file)
	b.virsh("start", "theirs", "--paused")
	b.t.Cleanup(func() { b.virsh("destroy", "theirs") })
	return compute.Resources{compute.VCPU: 3, compute.MemoryMB: 67}, func() bool {
		return b.domains()["theirs"] == libvirt.DomainPaused
	}
}

func (b *bench) broken() []hypervisortest.Breakage {
	nothing := func() {}
	spoil := func(name string, class compute.FailureClass, how func(*hypervisor.Spec)) hypervisortest.Breakage {
		return hypervisortest.Breakage{Name: name, Class: class, Image: strings.Contains(name, " is ") &&
			class == compute.FailureHost, Break: func(s *hypervisor.Spec) func() { how(s); return nothing }}
	}
	return append(hypervisortest.BadImages(b.t, b.o.Images), []hypervisortest.Breakage{
		spoil("image is missing", compute.FailureHost, func(s *hypervisor.Spec) { s.Image = "none" }),
		spoil("image larger than the flavor's disk", compute.FailureRequest, func(s *hypervisor.Spec) {
			b.ok(image.Run(
				b.t.Context(), "qemu-img", "create", "-q", "-f", "qcow2",
				filepath.Join(b.o.Images, "large.qcow2"), "2G",
			))
			b.ok(guesttest.Sum(filepath.Join(b.o.Images, "large.qcow2")))
			s.Image = "large"
		}),
		spoil(
			"image is garbage", compute.FailureHost,
			func(s *hypervisor.Spec) { b.image("garbage.qcow2", []byte("garbage")); s.Image = "garbage" },
		),
		spoil(
			"kernel is garbage", compute.FailureHost,
			func(s *hypervisor.Spec) { b.image("bad/kernel", []byte("garbage")); s.Image = "bad" },
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
			func(s *hypervisor.Spec) { s.Resources[compute.VCPU] = 10_000 },
		),
		spoil(
			"no such device", compute.FailureHost,
			func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{"0000:fe:1f.7"} },
		),
		{Name: "disk is full", Class: compute.FailureHost, Break: func(*hypervisor.Spec) func() {
			b.full.Store(true)
			return func() { b.full.Store(false) }
		}},
	}...)
}
