// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

const one = compute.InstanceID("00000000-0000-4000-8000-00000000000a")

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

// becomes looks until the only machine is in this state: of a QEMU that does not answer in time, List says that it runs.
func (b *bench) becomes(d *Driver, want compute.PowerState) (m hypervisor.Machine) {
	b.t.Helper()
	b.await("it is "+want.String(), func() bool {
		m = b.only(d)
		return m.Power == want
	})
	return m
}

// A kernel without a root panics and starts again and again: that is its own
// affair, it can be read, and it goes as any other.
func TestKernelPanics(t *testing.T) {
	t.Parallel()
	g := guesttest.Need(t)
	b := newBench(t, g)
	b.image("panics/cmdline", []byte(guesttest.Cmdline))
	b.ok(guesttest.Put(g.Kernel, filepath.Join(b.o.Images, "panics/kernel")))
	d := b.open()
	b.run(d, spec("panics"))
	b.await("panic", func() bool {
		part, err := d.Console(t.Context(), one, 0, 1<<20)
		b.ok(err)
		return strings.Contains(string(part.Data), "Kernel panic")
	})
	b.ok(d.Destroy(t.Context(), one))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Machines outlive their agent, whatever ends it. The agent here is another
// process and, if that can be, an unprivileged one.
func TestMachineOutlivesItsAgent(t *testing.T) {
	if dir := os.Getenv("BERTH_TEST_AGENT"); dir != "" {
		b := &bench{
			t: t,
			o: Options{
				Options: host.Options{
					Dir: filepath.Join(dir, "m"), Images: filepath.Join(dir, "i"), Accel: "tcg", Machine: "pc",
				},
			},
		}
		b.run(b.open(), spec("tiny"))
		b.ok(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	b := newBench(t, guesttest.Need(t))
	dir := filepath.Dir(b.o.Dir)
	self, err := os.ReadFile(os.Args[0])
	b.ok(err)
	program := filepath.Join(dir, "agent") // a copy, for the folder of the first may be closed to others
	b.ok(os.WriteFile(program, self, 0o755))
	cmd := exec.Command(
		program, "-test.run", "^TestMachineOutlivesItsAgent$", "-test.timeout", hypervisortest.Patience.String(),
	)
	cmd.Env = append(os.Environ(), "BERTH_TEST_AGENT="+dir, "BERTH_REQUIRE_QEMU=", "TMPDIR=/tmp")
	cmd.Dir = dir
	if os.Getuid() == 0 {
		const nobody = 65534
		b.ok(os.Chown(dir, nobody, nobody))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the agent was to be killed: %v: %s", err, out)
	}
	d := b.open()
	list, err := d.List(t.Context())
	b.ok(err)
	if len(list) != 1 || list[0].Power != compute.PowerRunning || !list[0].Launched || list[0].Claim != "c" {
		t.Fatalf("the agent was killed, and List gives %+v", list)
	}
	b.ok(d.Launch(t.Context(), one, 1, "c"))
	if n := b.launches(one); n != 1 {
		t.Errorf("launched %d times", n)
	}
	if sid, err := unix.Getsid(b.processes()[0].PID); err != nil || sid != b.processes()[0].PID {
		t.Errorf("it is in session %d, %v: what ends the agent's terminal ends it", sid, err)
	}
	b.up(one)
	b.ok(d.Destroy(t.Context(), one))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// runAll wants all machines to run.
func (b *bench) runAll(d *Driver) {
	b.t.Helper()
	list, err := d.List(b.t.Context())
	b.ok(err)
	for _, m := range list {
		if m.Power != compute.PowerRunning {
			b.t.Fatal(b.fate(d, m))
		}
	}
}

// fate says what became of a machine that does not run though it was started: what QEMU, its guest and the kernel say,
// and in the last line what the driver and /proc do.
func (b *bench) fate(d *Driver, m hypervisor.Machine) string {
	read := func(file string) string { return string(end(file, 2000)) }
	kernel, _ := exec.Command("sh", "-c", "dmesg | tail -n 3").CombinedOutput()
	r, _, err := d.load(m.Instance)
	state := read(fmt.Sprintf("/proc/%d/status", r.PID))
	if i := strings.Index(state, "Umask"); i > 0 {
		state = state[:i]
	}
	again := judge(r, d.find(b.t.Context(), m.Instance, b.processes(), commandTime))
	return fmt.Sprintf("the kernel says: %s\nits QEMU says %q\nits console has %q\n"+
		"its record is %+v, %v\n/proc has of it %q, and a second look finds %+v\n%s does not run: %+v", kernel,
		read(filepath.Join(d.dir(m.Instance), logFile)), read(filepath.Join(d.dir(m.Instance), console.File)),
		r, err, state, again, m.Instance, m.Verdict)
}

// Each machine runs as a user of its own, which may read only its own files, from its first start to its last.
func TestEachMachineHasAUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	if os.Geteuid() != 0 {
		guesttest.Missing(t, "root, who starts programs as others")
	}
	b.ok(os.Chmod(filepath.Dir(b.o.Dir), 0o711))
	b.o.Users = "900000-900001"
	d := b.open()
	two := spec("tiny")
	two.Instance = "00000000-0000-4000-8000-00000000000b"
	b.run(d, spec("linux"))
	b.run(d, two)
	b.up(one)
	b.up(two.Instance)
	three := spec("tiny")
	three.Instance = "00000000-0000-4000-8000-00000000000c"
	if err := d.Prepare(t.Context(), three); err == nil || !strings.Contains(err.Error(), "widen the range") {
		t.Errorf("more machines than users: %v", err)
	}
	b.ok(d.Stop(t.Context(), one, 0))
	b.ok(b.open().Start(t.Context(), one)) // with all that belongs to its user by now
	b.up(one)
	part, err := d.Console(t.Context(), one, 0, 1<<20)
	b.ok(err)
	if n := strings.Count(string(part.Data), guesttest.Up); n != 2 {
		t.Errorf("it was up twice, and the console says so %d times", n)
	}
	if w := strings.Join(d.Capabilities().Warnings, " "); strings.Contains(w, "user") || strings.Contains(w, "root") {
		t.Errorf("each has a user of its own, and it warns of %q", w)
	}
	b.runAll(d)
	users := map[string]bool{}
	for _, p := range b.processes() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		b.ok(err)
		line := func(key string) string {
			_, rest, _ := strings.Cut(string(status), "\n"+key+":")
			value, _, _ := strings.Cut(rest, "\n")
			return strings.Join(strings.Fields(value), " ")
		}
		users[line("Uid")] = true
		if line("Gid") != line("Uid") || line("NoNewPrivs") != "1" || strings.Trim(line("CapEff"), "0") != "" {
			t.Errorf("it runs as user %q, group %q, new privileges forbidden %q, capabilities %q", line("Uid"),
				line("Gid"), line("NoNewPrivs"), line("CapEff"))
		}
	}
	if !users["900000 900000 900000 900000"] || !users["900001 900001 900001 900001"] || len(users) != 2 {
		t.Errorf("they run as %v", users)
	}
	for _, name := range []string{prepare.DiskFile, prepare.SeedFile, console.File} {
		info, err := os.Stat(filepath.Join(d.dir(one), name))
		b.ok(err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", name, info.Mode())
		}
	}
	left := b.as(900000, "anything") // by a guest that got out
	b.ok(d.Destroy(t.Context(), one))
	hypervisortest.Receive(t, "the end of what else the user of a destroyed machine ran", left.ended)
	b.ok(d.Destroy(t.Context(), two.Instance))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.as(900000, "anything")
	b.await("the first user runs something, and the next machine gets the second", func() bool {
		user, err := d.unused(map[int]bool{})
		return user == 900001 && err == nil
	})
	b.ok(os.Chmod(filepath.Dir(b.o.Dir), 0o700))
	if _, err := Open(t.Context(), b.o); err == nil || !strings.Contains(err.Error(), "chmod o+x") {
		t.Errorf("with a folder that nobody gets through Open answers %v", err)
	}
}

// An image that machines' users may not read is refused as such: it says nothing against the host.
func TestImageThatUsersMayNotRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	if os.Geteuid() != 0 {
		guesttest.Missing(t, "root, who starts programs as others")
	}
	b.ok(os.Chmod(filepath.Dir(b.o.Dir), 0o711))
	b.ok(os.Chmod(filepath.Join(b.o.Images, "tiny.raw"), 0o640))
	b.o.Users = "900010-900011" // and no other test's, whose machines would end with this one's
	d := b.open()
	err := d.Prepare(t.Context(), spec("tiny"))
	if !hypervisor.OfImage(err) || !strings.Contains(err.Error(), "chmod o+r") {
		t.Errorf("an image that its user may not read: %v", err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.ok(os.Chmod(filepath.Join(b.o.Images, "tiny.raw"), 0o644))
	b.run(d, spec("tiny"))
	b.up(one)
}

// A machine has none of the descriptors that its agent was started with.
func TestNothingIsInherited(t *testing.T) {
	b := newBench(t, guesttest.Need(t))
	var inherited [2]int
	b.ok(syscall.Pipe(inherited[:]))
	defer syscall.Close(inherited[0])
	defer syscall.Close(inherited[1])
	pipe, err := os.Readlink(fmt.Sprint("/proc/self/fd/", inherited[0]))
	b.ok(err)
	d := b.open()
	b.run(d, spec("tiny"))
	dir := fmt.Sprintf("/proc/%d/fd", b.processes()[0].PID)
	entries, err := os.ReadDir(dir)
	b.ok(err)
	for _, e := range entries {
		if is, _ := os.Readlink(filepath.Join(dir, e.Name())); is == pipe {
			t.Errorf("descriptor %s of the machine is the launcher's %s", e.Name(), pipe)
		}
	}
}

// A pid is somebody else's as soon as its process is dead: what is not the same
// process is not touched, and what is ours is not counted as theirs.
func TestWhoseProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	b.foreign()
	inv, err := d.Inventory(t.Context())
	b.ok(err)
	ours := b.processes()[0]
	for _, f := range inv.Foreign {
		if f.PID == ours.PID {
			t.Errorf("our own machine is listed as %+v", f)
		}
		if f.PID == b.theirs { // and not what another test has started under that name, which may end meanwhile
			theirs, _, _ := d.host.Inspect(f.PID)
			theirs.Start--
			b.ok(d.end(t.Context(), theirs, syscall.SIGKILL))
			if _, there, err := d.host.Inspect(f.PID); !there {
				t.Errorf("a process that began at another time was killed (%v)", err)
			}
		}
	}
}

// What QEMU complains of is kept in part, however much it is.
func TestLogIsCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	file := filepath.Join(d.dir(one), logFile)
	theirs, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	b.ok(err)
	defer theirs.Close()
	for range 3 {
		_, err = theirs.WriteString(strings.Repeat("qemu: a guest has me complain\n",
			10_000) + "qemu: for the last time\n")
		b.ok(err)
		b.only(d)
		info, err := os.Stat(file)
		b.ok(err)
		old, err := os.ReadFile(filepath.Join(d.dir(one), oldLogFile))
		b.ok(err)
		if info.Size() > 2*logBytes || len(old) > logBytes || !strings.HasSuffix(string(old), "for the last time\n") {
			t.Errorf("%d bytes of the log are left, and %d of the part before", info.Size(), len(old))
		}
	}
	_, err = theirs.WriteString(strings.Repeat("x", 10<<20) + "\nqemu: the end " + strings.Repeat("x", 10<<10) + "\n")
	b.ok(err)
	if last := lastLine(file); !strings.HasPrefix(last, "qemu: the end x") || len(last) > lineBytes {
		t.Errorf("the last line is %q", last)
	}
}

// A disk that is full only when it is written to.
func TestDiskFillsUp(t *testing.T) {
	b := newBench(t, guesttest.Need(t))
	b.o.MinFree = 1
	b.ok(os.Mkdir(b.o.Dir, 0o700))
	if err := syscall.Mount("tmpfs", b.o.Dir, "tmpfs", 0, "size=1200k"); err != nil {
		guesttest.Missing(t, "a small file system: "+err.Error())
	}
	defer func() { b.ok(syscall.Unmount(b.o.Dir, 0)) }()
	d := b.open()
	s := spec("tiny")
	s.UserData = make([]byte, 1100<<10)
	err := d.Prepare(t.Context(), s)
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(e.Error(), "the disk is full") {
		t.Errorf("Prepare on a full disk answers %v", err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// KVM counts only if it boots; where it does not, guests boot all the same.
func TestAuto(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	b.o.Accel, b.o.ProbeTime = "auto", 3*time.Second
	auto, err := Open(t.Context(), b.o)
	b.ok(err)
	t.Logf("here auto is %s", auto.accel)
	b.run(auto, spec("tiny"))
	b.up(one)
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

func TestGuestPanics(t *testing.T) {
	t.Parallel()
	hypervisortest.GuestPanics(t, guests(t))
}

// The QEMU of this host knows no run state that the table of them does not.
func TestQEMUHasNoOtherRunStates(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.ok(d.Prepare(t.Context(), spec("tiny")))
	var schema []struct {
		Kind   string   `json:"meta-type"`
		Values []string `json:"values"`
	}
	b.ok(d.ask(t.Context(), one, "query-qmp-schema", &schema))
	for _, x := range schema {
		if x.Kind != "enum" || !slices.Contains(
			x.Values, "guest-panicked",
		) || !slices.Contains(x.Values, "prelaunch") {
			continue
		}
		for _, state := range x.Values {
			if _, known := runStates[state]; !known {
				t.Errorf("this QEMU knows the run state %q", state)
			}
		}
		return
	}
	t.Error("QEMU's schema has no run states")
}

// A guest stands still when its disk has no room on the host, says so, and goes on once there is room and it is
// started.
func TestDiskFillsUnderAGuest(t *testing.T) {
	b := newBench(t, guesttest.Need(t))
	b.o.MinFree = 1
	b.ok(os.Mkdir(b.o.Dir, 0o700))
	b.ok(b.guest.Image(filepath.Join(b.o.Images, "writes"), guesttest.Writes))
	size := func(besides int64) string { // the image's copies
		for _, name := range []string{"kernel", "initrd"} {
			info, err := os.Stat(filepath.Join(b.o.Images, "writes", name))
			b.ok(err)
			besides += info.Size()
		}
		return fmt.Sprint("size=", besides)
	}
	if err := syscall.Mount("tmpfs", b.o.Dir, "tmpfs", 0, size(8<<20)); err != nil {
		guesttest.Missing(t, "a small file system: "+err.Error())
	}
	d := b.open()
	defer func() {
		b.ok(d.Destroy(context.Background(), one))
		b.ok(syscall.Unmount(b.o.Dir, 0))
	}()
	b.run(d, spec("writes"))
	b.await("the pause", func() bool { return b.only(d).Power == compute.PowerPaused })
	b.o.Accel, b.o.ProbeTime = "auto", time.Second // an agent that is started now has to get at it, to make room
	if m := b.becomes(b.open(), compute.PowerPaused); m.Why != compute.DiskError || !strings.Contains(m.Detail, "full") {
		t.Errorf("its disk is full, and List gives %+v", m)
	}
	b.ok(d.Start(t.Context(), one)) // and stands still again
	b.await("the next pause", func() bool { return b.only(d).Power == compute.PowerPaused })
	b.ok(syscall.Mount("", b.o.Dir, "", syscall.MS_REMOUNT, size(64<<20)))
	b.ok(d.Start(t.Context(), one))
	b.up(one)
	if m := b.only(d); m.Power != compute.PowerRunning {
		t.Errorf("there is room and it was started, and List gives %+v", m)
	}
	filler, err := os.Create(filepath.Join(b.o.Dir, "filler"))
	b.ok(err)
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4<<10))
	}
	b.ok(d.Stop(t.Context(), one, 0))
	if m := b.only(b.open()); m.Why != compute.StoppedByCommand || !strings.Contains(m.Detail, "was cut off") {
		t.Errorf("it was stopped on a full disk, and List gives %+v", m)
	}
	b.ok(os.Remove(filler.Name()))
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

// An agent that dies while it starts a machine again, which has run before, leaves
// one that is stopped, and is started when that is asked for: not launched, which
// would end it if it failed.
func TestStartIsBrokenOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	b.up(one)
	b.ok(d.Stop(t.Context(), one, 0))
	dies := b.open()
	dies.crash = hypervisortest.DieAt("started")
	if err := dies.Start(t.Context(), one); !errors.Is(err, hypervisor.ErrCrash) {
		t.Fatalf("it was to die, and answers %v", err)
	}
	next := b.open()
	if m := b.becomes(next, compute.PowerStopped); m.Waits || !strings.Contains(m.Detail, "start it again") {
		t.Errorf("its start was broken off, and List gives %+v", m)
	}
	b.ok(next.Launch(t.Context(), one, 1, "c"))
	var status string
	b.await("QEMU answers", func() bool {
		status = next.status(t.Context(), one, commandTime)
		return status != ""
	})
	if status != "prelaunch" {
		t.Errorf("a second launch made it %q", status)
	}
	b.ok(next.Start(t.Context(), one))
	b.up(one)
}

// A machine whose QEMU does not start was not killed: it is stopped, for what QEMU said. The next start is a new one.
func TestStartFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	b.up(one)
	b.ok(d.Stop(t.Context(), one, 0))
	broken := b.open()
	broken.o.Binary = filepath.Join(filepath.Dir(b.o.Dir), "broken")
	syscall.ForkLock.Lock() // what is open for writing in a process that is being begun cannot be run
	err := os.WriteFile(broken.o.Binary, []byte("#!/bin/sh\necho cannot set up guest memory >&2\nexit 1\n"), 0o700)
	syscall.ForkLock.Unlock()
	b.ok(err)
	for range 2 {
		b.refused("Start", broken.Start(t.Context(), one), "cannot set up guest memory")
		m := b.only(broken)
		if m.Why != compute.HypervisorError || !strings.Contains(m.Detail, "cannot set up guest memory") {
			t.Errorf("its QEMU did not start, and List gives %+v", m)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	broken.crash = func(string) error { cancel(); return ctx.Err() }
	broken.o.Binary = d.o.Binary
	if err := broken.Start(ctx, one); !errors.Is(err, context.Canceled) {
		t.Errorf("a start whose caller gives up answers %v", err)
	}
	b.kill(one)
	if m := b.only(d); m.Why != compute.StoppedUnknown || !strings.Contains(m.Detail, brokenOff) {
		t.Errorf("its start was given up, and List gives %+v", m)
	}
	b.ok(d.Start(t.Context(), one))
	b.up(one)
	if m := b.only(d); m.Power != compute.PowerRunning || m.Why != "" {
		t.Errorf("it was started, and List gives %+v", m)
	}
}

// A prepared process may be gone at launch, and the agent may die once there is
// another: the next launch takes that, and knows it.
func TestLaunchIsBrokenOffAfterItsProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.ok(d.Prepare(t.Context(), spec("tiny")))
	b.kill(one)
	d.crash = hypervisortest.DieAt("started")
	if err := d.Launch(t.Context(), one, 1, "c"); !errors.Is(err, hypervisor.ErrCrash) {
		t.Fatalf("it was to die, and answers %v", err)
	}
	next := b.open()
	b.ok(next.Launch(t.Context(), one, 1, "c"))
	b.up(one)
	r, _, err := next.load(one)
	b.ok(err)
	if all := b.processes(); len(all) != 1 || r.PID != all[0].PID || r.Start != all[0].Start {
		t.Errorf("its process is %d since %d, and on the host are %+v", r.PID, r.Start, all)
	}
}
