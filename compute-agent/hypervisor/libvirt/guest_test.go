// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

func spec(image string) hypervisor.Spec {
	return hypervisor.Spec{
		Instance: one, Project: "shop", Attempt: 1, Claim: "c", Name: "web-1", Image: image, Resources: small.Clone(),
		Metadata: map[string]string{"role": "front, \"quoted\""}, SSHKeys: []string{"ssh-ed25519 AAAA me"},
		UserData: []byte("#!/bin/sh\necho hello\n"),
	}
}

func (b *bench) run(d *Driver, s hypervisor.Spec) {
	b.t.Helper()
	b.ok(d.Prepare(b.t.Context(), s))
	b.ok(d.Launch(b.t.Context(), s.Instance, s.Attempt, s.Claim))
}

func (b *bench) only(d *Driver) hypervisor.Machine {
	b.t.Helper()
	list, err := d.List(b.t.Context())
	b.ok(err)
	if len(list) != 1 {
		b.t.Fatalf("List gives %+v", list)
	}
	return list[0]
}

// A daemon that goes away takes nothing with it: its machines run on, calls fail
// meanwhile without a word about what is there, and when it is back so are the
// machines and the events, those missed included.
func TestDaemonIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	other := spec("tiny")
	other.Instance = "00000000-0000-4000-8000-00000000000b"
	b.run(d, other)
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan hypervisor.Event, 100), make(chan error, 1)
	go func() { ended <- d.Events(ctx, func(e hypervisor.Event) { told <- e }) }()
	expect := func(id compute.InstanceID, power compute.PowerState, detail string) {
		t.Helper()
		waits, cancel := hypervisortest.Waiting(t)
		defer cancel()
		for {
			select {
			case e := <-told:
				if e.Instance == id && e.Power == power && strings.Contains(e.Detail, detail) {
					return
				}
			case <-waits.Done():
				t.Fatalf("no event says %s %s", power, detail)
			}
		}
	}
	b.await("the first event", func() bool {
		b.virsh("suspend", string(one))
		b.virsh("resume", string(one))
		select {
		case e := <-told:
			return e.Instance == one && e.Power == compute.PowerRunning
		case <-time.After(time.Second):
			return false
		}
	})
	before := b.qemus("")

	b.stop()
	_, err := d.List(t.Context())
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(err.Error(), "libvirtd runs") {
		t.Errorf("without libvirt List answers %v", err)
	}
	third := spec("tiny")
	third.Instance = "00000000-0000-4000-8000-00000000000c"
	for what, err := range map[string]error{
		"Prepare": d.Prepare(t.Context(), third), "Launch": d.Launch(t.Context(), one, 1, "c"),
		"Stop": d.Stop(t.Context(), one, 0), "Destroy": d.Destroy(t.Context(), one),
	} {
		if !errors.As(err, &e) || e.Class != compute.FailureHost {
			t.Errorf("without libvirt %s answers %v", what, err)
		}
	}
	// Nobody is there to notice. Machines of other tests, and of those of other packages beside them, have that name, too.
	b.kill(b.root+"/", "guest=berth-"+string(other.Instance))
	b.start()

	expect(other.Instance, compute.PowerStopped, "its QEMU is gone")
	list, err := d.List(t.Context())
	b.ok(err)
	if len(list) != 2 || list[0].Power != compute.PowerRunning || list[1].Power != compute.PowerStopped {
		t.Errorf("libvirt is back, and List gives %+v", list)
	}
	if now := b.qemus(one); len(now) != 1 || now[0].PID != before[0].PID && now[0].PID != before[1].PID {
		t.Errorf("before the restart there were %+v, now there are %+v", before, now)
	}
	b.virsh("destroy", string(one))
	expect(one, compute.PowerStopped, "ended from outside (virsh destroy)")
	if list, _ := d.List(t.Context()); list[0].Power != compute.PowerStopped || !strings.Contains(
		list[0].Detail, "virsh destroy",
	) {
		t.Errorf("destroyed from outside, and List gives %+v", list[0])
	}
	cancel()
	if err := hypervisortest.Receive(t, "the end of Events", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Events ended with %v", err)
	}
	b.ok(d.Destroy(t.Context(), one))
	b.ok(d.Destroy(t.Context(), other.Instance))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A domain with an instance's id that Berth, or this agent, did not make is
// refused and left alone.
func TestOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	// no other test's, for it is looked for among the host's processes
	it := compute.InstanceID("00000000-0000-4000-8000-00000000000d")
	made := spec("tiny")
	made.Instance = it
	file := filepath.Join(b.root, "theirs.xml")
	b.ok(os.WriteFile(file, []byte(strings.Replace(theirs, "<name>", "<uuid>"+string(it)+"</uuid><name>", 1)), 0o600))
	b.virsh("define", file)
	b.virsh("start", "theirs", "--paused")
	untouched := func(d *Driver, name string) {
		t.Helper()
		var e *hypervisor.Error
		for what, err := range map[string]error{
			"Prepare": d.Prepare(t.Context(), made), "Launch": d.Launch(t.Context(), it, 1, "c"),
			"Stop": d.Stop(t.Context(), it, 0), "Start": d.Start(t.Context(), it),
			"Reboot": d.Reboot(t.Context(), it, 0),
		} {
			if !errors.As(err, &e) || e.Class != compute.FailureHost {
				t.Errorf("%s of somebody else's domain answers %v", what, err)
			}
		}
		b.ok(d.Destroy(t.Context(), it))
		if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("List gives somebody else's: %+v, %v", list, err)
		}
		if b.domains()[name] != libvirt.DomainPaused {
			t.Error("somebody else's domain was touched")
		}
	}
	untouched(d, "theirs")
	b.virsh("destroy", "theirs")
	b.virsh("undefine", "theirs")
	b.ok(d.Prepare(t.Context(), made))
	b.o.Dir = filepath.Join(b.root, "other")
	another := b.open()
	untouched(another, "berth-"+string(it))
	inv, err := another.Inventory(t.Context())
	b.ok(err)
	for _, f := range inv.Foreign {
		if f.Name == "berth-"+string(it) {
			if f.PID != b.qemus(it)[0].PID || !f.Uses.Equal(
				compute.Resources{compute.VCPU: 1, compute.MemoryMB: 128},
			) {
				t.Errorf("another agent's machine is %+v", f)
			}
			return
		}
	}
	t.Errorf("another agent's machine is not among %+v", inv.Foreign)
}

// What an operator does by hand to a machine is taken as it is, and no machine
// starts with the host.
func TestByHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	b.virsh("autostart", string(one))
	b.only(d)
	if info := b.virsh("dominfo", string(one)); !strings.Contains(
		strings.Join(strings.Fields(info), " "), "Autostart: disable",
	) {
		t.Errorf("it starts with the host:\n%s", info)
	}
	b.virsh("suspend", string(one))
	if m := b.only(b.open()); m.Power != compute.PowerPaused || !strings.Contains(m.Detail, "virsh suspend") {
		t.Errorf("suspended, and List gives %+v", m)
	}
	b.ok(d.Launch(t.Context(), one, 1, "c"))
	if b.state(one) != libvirt.DomainPaused {
		t.Error("what the operator has suspended goes on")
	}
	b.virsh("managedsave", string(one))
	if m := b.only(b.open()); m.Power != compute.PowerStopped || !strings.Contains(m.Detail, "managedsave") {
		t.Errorf("saved, and List gives %+v", m)
	}
	b.ok(d.Destroy(t.Context(), one))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.run(d, spec("tiny"))
	again := true
	d.crash = func(moment string) error {
		if moment == "cut" && again { // what was broken off before is done now
			again = false
			b.virsh("start", string(one))
		}
		return nil
	}
	b.ok(d.Destroy(t.Context(), one))
	if left := b.left(); len(left) > 0 {
		t.Errorf("started while it was destroyed, and left behind: %v", left)
	}
	b.run(d, spec("tiny"))
	b.virsh("undefine", string(one)) // gone as soon as it stops
	if m := b.only(b.open()); m.Power != compute.PowerRunning || !m.Launched {
		t.Errorf("undefined while it runs, and List gives %+v", m)
	}
	b.ok(d.Destroy(t.Context(), one))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A domain that is defined anew without Berth's part of its metadata is a machine as long as what runs of it has that
// part, and still when it has stopped by itself: whoever saw it run put the part back. One that has it nowhere is not
// destroyed, nor are the files from which it runs, nor is that called done.
func TestDefinedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	s := spec("tiny")
	s.Instance = "00000000-0000-4000-8000-00000000000e"
	name := "berth-" + string(s.Instance)
	define := func() {
		t.Helper()
		text := withoutMetadata(t, b.virsh("dumpxml", "--inactive", name))
		file := filepath.Join(b.root, "anew.xml")
		b.ok(os.WriteFile(file, []byte(text), 0o600))
		b.virsh("define", file)
	}
	b.run(d, s)
	define()
	if m := b.only(d); m.Instance != s.Instance || m.Power != compute.PowerRunning {
		t.Errorf("defined anew while it runs, and List gives %+v", m)
	}
	b.virsh("destroy", name)
	if m := b.only(d); m.Instance != s.Instance || m.Power != compute.PowerStopped || !m.Launched {
		t.Errorf("then it ended without a command, and List gives %+v", m)
	}
	if _, err := os.Stat(filepath.Join(d.dir(s.Instance), prepare.DiskFile)); err != nil {
		t.Errorf("then it ended without a command, and its disk is gone: %v", err)
	}
	b.ok(d.Start(t.Context(), s.Instance))
	define()
	b.ok(d.Stop(t.Context(), s.Instance, 0))
	if m := b.only(d); m.Why != compute.StoppedByCommand {
		t.Errorf("then it was stopped, and List gives %+v", m)
	}
	define()
	b.virsh("start", name, "--paused")
	var e *hypervisor.Error
	err := d.Destroy(t.Context(), s.Instance)
	if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(err.Error(), "virsh destroy "+name) {
		t.Errorf("it runs without a part of Berth's, and Destroy answers %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.dir(s.Instance), prepare.DiskFile)); err != nil {
		t.Errorf("it runs, and its disk is gone: %v", err)
	}
	b.virsh("destroy", name)
	b.ok(d.Destroy(t.Context(), s.Instance))
	b.virsh("undefine", name)
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A guest that never stops printing does not fill the disk, nor does virtlogd,
// which begins the file anew, lead the offsets astray.
func TestConsoleIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	// It throws none away: what was printed between two looks of a busy machine may be several files, and how
	// much that was nobody could tell.
	b.ok(os.WriteFile(
		filepath.Join(b.root, "c/libvirt/virtlogd.conf"), []byte("max_size = 16384\nmax_backups = 32\n"), 0o600,
	))
	b.o.ConsoleBytes = 4 << 10
	b.image("loud.raw", guesttest.BootDisk(guesttest.Loud))
	d := b.open()
	b.run(d, spec("loud"))
	turned, end := 0, int64(0)
	b.await("virtlogd to begin the file anew", func() bool {
		if _, err := os.Stat(filepath.Join(d.dir(one), console.File+".0")); err == nil {
			turned++
		}
		b.only(d) // trims
		part, err := d.Console(t.Context(), one, -100, 100)
		b.ok(err)
		if part.End < end || part.Offset < end-100-4<<10 || strings.Trim(string(part.Data), "tiny bo\r\n") != "" {
			t.Fatalf("after %d bytes there is %+v", end, part)
		}
		end = part.End
		return turned > 3 && end > 64<<10
	})
	b.ok(d.Stop(t.Context(), one, 0))
	var kept int64
	b.await("no more to be kept than may be", func() bool { // virtlogd may still have some to write
		b.only(d)
		kept = 0
		files, err := filepath.Glob(filepath.Join(d.dir(one), console.File[:7]+"*"))
		b.ok(err)
		for _, file := range files {
			info, err := os.Stat(file)
			b.ok(err)
			kept += info.Size()
		}
		return kept <= b.o.ConsoleBytes
	})
	t.Logf("%d bytes printed, %d kept, seen begun anew %d times", end, kept, turned)
}

// Where QEMU has a user of its own, an image that this user may not read is refused before libvirt hears of it, which
// would make the user the owner of the copy that all machines share.
func TestImageOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	if d.qemuUser != "" {
		t.Errorf("the QEMUs of a session are its user's, and it is said to be %q", d.qemuUser)
	}
	kernel := filepath.Join(b.o.Images, "linux", "kernel")
	text, err := os.ReadFile(kernel)
	b.ok(err)
	b.ok(os.Remove(kernel)) // it is a link to the one that all tests have
	b.ok(os.WriteFile(kernel, text, 0o640))
	b.run(d, spec("linux"))
	b.ok(d.Destroy(t.Context(), one))
	d.qemuUser = "+64055:+108"
	err = d.Prepare(t.Context(), spec("linux"))
	if !hypervisor.OfImage(err) || !strings.Contains(err.Error(), "another user (+64055:+108)") ||
		!strings.Contains(err.Error(), "chmod o+r") {
		t.Errorf("an image that QEMU's user cannot read is answered %v", err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.ok(os.Chmod(kernel, 0o644))
	b.run(d, spec("linux"))
	b.ok(d.Destroy(t.Context(), one))
}

func TestGuestKnowsWhoItIs(t *testing.T) {
	t.Parallel()
	hypervisortest.GuestKnowsWhoItIs(t, guests(t))
}

func TestGuestPowersOff(t *testing.T) {
	t.Parallel()
	hypervisortest.GuestPowersOff(t, guests(t))
}

func TestOneProcess(t *testing.T) {
	t.Parallel()
	hypervisortest.OneProcess(t, guests(t))
}

func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	hypervisortest.RefusalsSayWhy(t, guests(t))
}

// Many agents that launch a prepared machine without its process, or start one that is stopped, make one process, and
// none of them fails: libvirt sees to that.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.ok(d.Prepare(t.Context(), spec("tiny")))
	b.killed(one)
	b.ok(b.open().Prepare(t.Context(), spec("tiny")))
	many := func(call func(*Driver) error) {
		t.Helper()
		var calls errgroup.Group
		for range 4 {
			d := b.open()
			calls.Go(func() error { return call(d) })
		}
		b.ok(calls.Wait())
		if n := len(b.qemus(one)); n != 1 || b.state(one) != libvirt.DomainRunning {
			t.Errorf("%d processes, state %d", n, b.state(one))
		}
	}
	many(func(d *Driver) error { return d.Launch(t.Context(), one, 1, "c") })
	b.killed(one)
	many(func(d *Driver) error { return d.Start(t.Context(), one) })
}

func TestOpenSaysWhyNot(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	b.o.Socket = filepath.Join(b.root, "none")
	if _, err := Open(t.Context(), b.o); err == nil || !strings.Contains(err.Error(), "libvirtd runs") {
		t.Errorf("without libvirt Open answers %v", err)
	}
	b.o.Dir = "here"
	if _, err := Open(t.Context(), b.o); err == nil || !strings.Contains(err.Error(), "dir") {
		t.Errorf("without a folder Open answers %v", err)
	}
}

func TestGuestPanics(t *testing.T) {
	t.Parallel()
	hypervisortest.GuestPanics(t, guests(t))
}

func TestGuestCallsHost(t *testing.T) {
	t.Parallel()
	hypervisortest.GuestCallsHost(t, guests(t))
}

func TestDeviceInUse(t *testing.T) {
	t.Parallel()
	hypervisortest.DeviceInUse(t, guests(t))
}

func TestMachineOnItsNode(t *testing.T) {
	t.Parallel()
	hypervisortest.MachineOnItsNode(t, guests(t))
}

// An agent that dies once a guest was let go leaves one that runs; an operator that suspends it later is not taken
// for that agent.
func TestLetGoAndNotWrittenDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.ok(d.Prepare(t.Context(), spec("linux")))
	d.crash = hypervisortest.DieAt("let go")
	if err := d.Launch(t.Context(), one, 1, "c"); !errors.Is(err, hypervisor.ErrCrash) {
		t.Fatalf("it was to die, and answers %v", err)
	}
	next := b.open()
	b.virsh("suspend", string(one))
	list, err := next.List(t.Context())
	b.ok(err)
	if m := list[0]; m.Waits || m.Power != compute.PowerPaused || !strings.Contains(m.Detail, "virsh suspend") {
		t.Errorf("suspended by hand, and List gives %+v", m)
	}
}
