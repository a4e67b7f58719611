// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// Guests is a subject with QEMUs on this host for machines. What is tried on them alone is not in Run: a test of the
// driver calls it.
type Guests struct {
	Subject
	// Panics asks for a guest with a kernel that panics once it is up.
	Panics func(*hypervisor.Spec)
	// Calls asks for a guest that calls this port of the host's loopback before it is up.
	Calls func(s *hypervisor.Spec, port int)
	// Network is a driver for the same host with this network.
	Network func(kind string) hypervisor.Driver
	// Hardware is a driver for the same host that reads there what it reads below
	// /sys elsewhere.
	Hardware func(sys string) hypervisor.Driver
	// PID is that of the one process of a machine.
	PID func(compute.InstanceID) int
	// Processes counts those of all machines.
	Processes func() int
	// Default is a driver for the same host with the machines that an operator gets without setting anything.
	Default func() hypervisor.Driver
	// PutImage makes a file among the images, with its checksum.
	PutImage func(name string, content []byte)
	// PowerOff presses a machine's power button behind the driver's back, and returns when it is off.
	PowerOff func(compute.InstanceID)
}

// GuestKnowsWhoItIs: a guest on the default machine finds its id in the firmware and the rest on
// the seed, and all of it can be read on its console.
func GuestKnowsWhoItIs(t *testing.T, g Guests) {
	g.Driver = g.Default()
	g.launch(t, first, g.Linux, func(s *hypervisor.Spec) {
		s.Project, s.Name, s.Metadata = "shop", "web-1", map[string]string{"role": "front, \"quoted\""}
		s.SSHKeys, s.UserData = []string{"ssh-ed25519 AAAA me"}, []byte("#!/bin/sh\necho hello\n")
	})
	g.Up(first)
	printed := g.printed(t, first)
	for _, want := range []string{
		"BERTH instance " + string(first), `"instance-id":"` + string(first) + `"`, `"local-hostname":"web-1"`,
		`"public-keys":["ssh-ed25519 AAAA me"]`, `"project":"shop"`, `"role":"front, \"quoted\""`,
		"BERTH user #!/bin/sh", "BERTH user echo hello",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("the console does not show %q:\n%s", want, printed)
		}
	}
	ok(t, g.Driver.Destroy(t.Context(), first))
	g.empty(t)
}

// GuestPowersOff: a guest that powers off by itself is stopped, says so, after a Stop as well, and
// can be started.
func GuestPowersOff(t *testing.T, g Guests) {
	g.launch(t, first, g.Listening)
	g.Up(first)
	g.PowerOff(first)
	for range 2 {
		m := becomes(t, g.Reopen(), compute.PowerStopped)
		if !strings.Contains(m.Detail, "the guest shut itself down") {
			t.Errorf("powered off, and List gives %+v", m)
		}
		ok(t, g.Driver.Stop(t.Context(), first, 0))
	}
	ok(t, g.Driver.Start(t.Context(), first))
	if m := only(t, g.Driver); m.Power != compute.PowerRunning {
		t.Errorf("started again, and List gives %+v", m)
	}
	ok(t, g.Driver.Destroy(t.Context(), first))
	g.empty(t)
}

// OneProcess: a prepared machine without its process, after the host's restart say, is launched all the same, once,
// and many agents that start a stopped one make one process.
func OneProcess(t *testing.T, g Guests) {
	ok(t, g.Driver.Prepare(t.Context(), g.spec(first, 1, "c1")))
	g.Kill(first)
	ok(t, g.Reopen().Prepare(t.Context(), g.spec(first, 1, "c1")))
	for range 2 {
		ok(t, g.Driver.Launch(t.Context(), first, 1, "c1"))
	}
	g.Up(first)
	g.launched(t, first, 1)
	g.Kill(first)
	var starts sync.WaitGroup
	for range 4 {
		d := g.Reopen()
		starts.Go(func() { _ = d.Start(t.Context(), first) }) // those that come too late may fail
	}
	starts.Wait()
	ok(t, g.Reopen().Start(t.Context(), first))
	if n := g.Processes(); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// RefusalsSayWhy: what the hypervisor and its tools complain of reaches the operator.
func RefusalsSayWhy(t *testing.T, g Guests) {
	g.PutImage("bad/kernel", []byte("garbage"))
	g.PutImage("garbage.qcow2", []byte("garbage"))
	for want, change := range map[string]func(*hypervisor.Spec){
		"is no kernel":                 func(s *hypervisor.Spec) { s.Image = "bad" },
		"garbage.qcow2 is broken":      func(s *hypervisor.Spec) { s.Image = "garbage" },
		"vfio":                         func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{"0000:fe:1f.7"} },
		"put it there on every host":   func(s *hypervisor.Spec) { s.Image = "none" },
		"this host has":                func(s *hypervisor.Spec) { s.Resources[compute.MemoryMB] = 1 << 30 },
		"add them to its flavor":       func(s *hypervisor.Spec) { s.Resources = nil },
		"give a UUID in lower case":    func(s *hypervisor.Spec) { s.Instance = "../../etc" },
		"give domain, bus, device and": func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{"1"} },
	} {
		if err := g.Driver.Prepare(t.Context(), g.spec(first, 1, "c1", change)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Prepare answers %v, want %q", err, want)
		}
	}
}

// GuestPanics: a guest that says that its kernel panicked is stopped, says so, and can be started.
func GuestPanics(t *testing.T, g Guests) {
	g.launch(t, first, g.Panics)
	for range 2 {
		Await(t, "panic", func() bool {
			m := only(t, g.Driver)
			return m.Power == compute.PowerStopped && m.Why == compute.GuestPanicked
		})
		ok(t, g.Driver.Stop(t.Context(), first, 0))
		if m := only(t, g.Driver); m.Why != compute.GuestPanicked {
			t.Errorf("it panicked and was stopped then, and List gives %+v", m)
		}
		ok(t, g.Driver.Start(t.Context(), first))
	}
	ok(t, g.Driver.Destroy(t.Context(), first))
	g.empty(t)
}

// DeviceInUse: a device that the host uses is not taken from it.
func DeviceInUse(t *testing.T, g Guests) {
	const at = compute.PCIAddress("0000:3b:00.0")
	sys := t.TempDir()
	device := filepath.Join(sys, "bus/pci/devices", string(at))
	ok(t, os.MkdirAll(device, 0o755))
	ok(t, os.Symlink("../../drivers/nvidia", filepath.Join(device, "driver")))
	g.Driver = g.Hardware(sys)
	err := g.Driver.Prepare(
		t.Context(),
		g.spec(first, 1, "c1", func(s *hypervisor.Spec) { s.Devices = []compute.PCIAddress{at} }),
	)
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != compute.FailureHost ||
		!strings.Contains(e.Error(), "is in use by the host's driver nvidia") {
		t.Errorf("Prepare with a device in use answers %v", err)
	}
	g.empty(t)
}

// MachineOnItsNode: a machine that is bound to a node of this host runs there.
func MachineOnItsNode(t *testing.T, g Guests) {
	nodes := host.This().Nodes()
	if len(nodes) == 0 {
		guesttest.Missing(t, "NUMA nodes: this host's kernel knows none")
	}
	node := nodes[len(nodes)-1].ID
	g.launch(t, first, g.Listening, func(s *hypervisor.Spec) { s.Nodes = []int{node} })
	g.Up(first)
	if m := only(t, g.Driver); !slices.Equal(m.Nodes, []int{node}) {
		t.Errorf("List gives %+v", m)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", g.PID(first)))
	ok(t, err)
	if !strings.Contains(string(maps), fmt.Sprintf(" bind:%d ", node)) {
		t.Errorf("none of its memory is bound to the node:\n%s", maps)
	}
}

// GuestCallsHost: a guest does not reach what listens on the host's loopback, the
// API among others, unless the operator has opened it to guests.
func GuestCallsHost(t *testing.T, g Guests) {
	const says = "berth answers"
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer loopback.Close()
	var called atomic.Int32
	go func() {
		for {
			c, err := loopback.Accept()
			if err != nil {
				return
			}
			called.Add(1)
			_, _ = c.Write([]byte(says + "\n"))
			_ = c.Close()
		}
	}()
	for _, x := range []struct {
		network string
		reaches bool
	}{{"user:open", true}, {"user", false}, {"", false}} {
		g.Driver = g.Network(x.network)
		for try := 1; ; try++ {
			called.Store(0)
			g.launch(t, first, func(s *hypervisor.Spec) { g.Calls(s, loopback.Addr().(*net.TCPAddr).Port) })
			Await(t, "the guest is up", func() bool { return strings.Contains(g.printed(t, first), guesttest.Up) })
			printed := g.printed(t, first)
			if try == 1 {
				g.warnsOfOpen(t, x.network, x.reaches)
			}
			ok(t, g.Driver.Destroy(t.Context(), first))
			heard, n := strings.Contains(printed, guesttest.Heard+says), called.Load()
			if x.reaches && !heard && try < 5 { // the guest does not wait for long
				continue
			}
			if (n > 0) != x.reaches || heard != x.reaches {
				t.Errorf("network %q: the guest has called the host's loopback %d times: %s", x.network, n, printed)
			}
			break
		}
	}
	g.empty(t)
}

// warnsOfOpen wants a warning of the one machine, if it is open, of agents that give machines other networks.
func (g Guests) warnsOfOpen(t *testing.T, network string, open bool) {
	t.Helper()
	for _, now := range []string{"user:open", "user", "none", network} {
		d := g.Network(now)
		_, err := d.List(t.Context())
		ok(t, err)
		warned := slices.ContainsFunc(d.Capabilities().Warnings, func(w string) bool {
			return strings.Contains(w, "host's loopback: 1 of them; ")
		})
		if want := open && now != "user:open"; warned != want {
			t.Errorf("a machine was started with network %q, which is %q now: there is a warning: %v, want %v",
				network, now, warned, want)
		}
	}
}

// becomes looks until the only machine is in this state: a busy hypervisor has not told of it at once.
func becomes(t *testing.T, d hypervisor.Driver, want compute.PowerState) (m hypervisor.Machine) {
	t.Helper()
	Await(t, "the machine is "+want.String(), func() bool {
		m = only(t, d)
		return m.Power == want
	})
	return m
}
