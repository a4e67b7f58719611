// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/pkg/compute"
)

// withoutQEMU is a driver that has an empty folder and only looks at processes.
func withoutQEMU(t *testing.T, on host.Host) *Driver {
	t.Helper()
	dir := guesttest.Folder(t)
	home, err := host.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &Driver{o: Options{Options: host.Options{Dir: dir}}, host: on, home: home}
}

// Anybody may begin a program with the arguments of a machine's process. It is no machine of ours then, and does not
// keep what is said of those.
func TestProcessOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		guesttest.Missing(t, "root, who starts programs as others")
	}
	b := &bench{t: t}
	d := withoutQEMU(t, host.This())
	b.ok(os.Mkdir(d.dir(one), 0o700))
	b.ok(save(d.dir(one), record{Machine: hypervisor.Machine{Instance: one, Launched: true}, Ready: true,
		Wanted: compute.PowerRunning, Boot: d.host.BootID()}))
	for _, id := range []compute.InstanceID{one, "00000000-0000-4000-8000-00000000000b"} {
		pid := filepath.Join(d.dir(id), pidFile)
		b.as(900020, "qemu-system-x86_64", "-pidfile", pid)
		b.await("it is seen", func() bool {
			all, err := d.host.ProcessesOf(900020)
			b.ok(err)
			return slices.ContainsFunc(all, func(p host.Process) bool { return p.Option("pidfile") == pid })
		})
	}
	if m := b.only(d); m.Power != compute.PowerStopped || m.Why != compute.MachineKilled {
		t.Errorf("another user says that it runs the machine, and List gives %+v", m)
	}
	b.ok(d.Destroy(t.Context(), one))
	inv, err := d.Inventory(t.Context())
	b.ok(err)
	d.users = users{900020, 900021} // it may be a machine's whose record is lost
	_, err = d.List(t.Context())
	b.refused("List", err, "put that back")
	b.ok(os.Mkdir(d.dir(one), 0o700)) // but not while the user is another machine's: that may say what it likes
	b.ok(save(d.dir(one), record{Machine: hypervisor.Machine{Instance: one, Launched: true}, Ready: true,
		Plan: plan{User: 900020}}))
	b.only(d)
	b.ok(os.WriteFile(filepath.Join(d.dir(one), recordFile), []byte("?"), 0o600)) // its record is spoilt
	if its, err := d.processes(); err != nil || len(of(its, d.dir(one))) != 1 {
		t.Errorf("its record cannot be read, and of its processes these are found: %+v, %v", its, err)
	}
	b.ok(os.RemoveAll(d.dir(one)))
	d.users = users{}
	theirs, err := d.host.ProcessesOf(900020)
	b.ok(err)
	if len(theirs) != 2 {
		t.Errorf("of another user's two processes %+v are left", theirs)
	}
	for _, p := range theirs {
		if !slices.ContainsFunc(inv.Foreign, func(f compute.Foreign) bool { return f.PID == p.PID }) {
			t.Errorf("another user's process %d is not among the machines of others: %+v", p.PID, inv.Foreign)
		}
	}
}

// A guest that has got out of its QEMU may write over its arguments, and let go of the lock. The machine's process is
// the same all the same, and ends with it.
func TestProcessThatHides(t *testing.T) {
	t.Parallel()
	b := &bench{t: t}
	d := withoutQEMU(t, host.This())
	hides, bystander := b.begins("anything"), b.begins("anything")
	seen := func(r running) host.Process {
		p, there, err := d.host.Identify(r.pid)
		if b.ok(err); !there {
			t.Fatalf("process %d is not there", r.pid)
		}
		return p
	}
	for _, c := range []struct {
		pid   int
		start uint64
		boot  string
	}{
		{bystander.pid, seen(bystander).Start - 1, d.host.BootID()}, // its pid was another's
		{bystander.pid, seen(bystander).Start, "before"},
		{hides.pid, seen(hides).Start, d.host.BootID()},
	} {
		b.ok(os.Mkdir(d.dir(one), 0o700))
		b.ok(save(d.dir(one), record{Machine: hypervisor.Machine{Instance: one, Launched: true}, Ready: true,
			PID: c.pid, Start: c.start, Boot: c.boot}))
		b.ok(d.Destroy(t.Context(), one))
	}
	hypervisortest.Receive(t, "the end of the machine's process", hides.ended)
	select {
	case <-bystander.ended:
		t.Error("a process is ended that is not the machine's")
	default:
	}
}

// Where no QEMU of a host answers, List says so of each. It asks all at once, for each is waited for.
func TestNoQEMUAnswers(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	d := withoutQEMU(t, host.Host{Proc: proc})
	var asked silence
	for n := range askedAtOnce {
		id := compute.InstanceID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
		process := filepath.Join(proc, fmt.Sprint(1000+n))
		err := errors.Join(
			os.Mkdir(d.dir(id), 0o700), os.Mkdir(process, 0o700),
			save(d.dir(id), record{Machine: hypervisor.Machine{Instance: id, Launched: true}, Ready: true}),
			os.WriteFile(filepath.Join(process, "cmdline"),
				[]byte("qemu-system-x86_64\x00-pidfile\x00"+filepath.Join(d.dir(id), pidFile)+"\x00"), 0o600),
			os.WriteFile(filepath.Join(process, "stat"), []byte("1 (qemu)"+strings.Repeat(" 1", 30)), 0o600),
			os.WriteFile(filepath.Join(process, "status"), fmt.Appendf(nil, "Uid:\t%d\n", os.Getuid()), 0o600),
		)
		if err != nil {
			t.Fatal(err)
		}
		asked.listen(t, filepath.Join(d.dir(id), socketFile))
	}
	// A machine so slow that the first is given up before the last is asked has List ask again.
	hypervisortest.Await(t, fmt.Sprintf("%d machines to be asked at once", askedAtOnce), func() bool {
		list, err := d.List(t.Context())
		if len(list) != askedAtOnce || err != nil {
			t.Fatalf("List gives %d machines, %v", len(list), err)
		}
		for _, m := range list {
			if m.Power != compute.PowerRunning || !strings.Contains(m.Detail, "does not answer") {
				t.Errorf("a QEMU does not answer, and List gives %+v", m)
			}
		}
		return asked.count(0) == askedAtOnce
	})
}

// silence are sockets at which nobody answers.
type silence struct {
	mu        sync.Mutex
	now, most int // connections that are open, and were at once
}

func (s *silence) count(more int) (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += more
	s.most = max(s.most, s.now)
	return s.most
}

// listen takes the connections to one socket until the test ends.
func (s *silence) listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.count(1)
			all.Go(func() {
				_, _ = io.Copy(io.Discard, c) // until whoever asked gives up
				_ = c.Close()
				s.count(-1)
			})
		}
	})
}
