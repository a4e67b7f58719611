// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// realHosts are agents in processes of their own, whose machines are QEMU
// processes on this machine.
type realHosts struct {
	*rig
	dir     string
	vcpu    int64 // of each host
	agents  map[compute.HostID]*process
	minFree int64 // of agents that are started from now on; 0: the default
}

// guestKey is a public key whose secret half nobody has.
const guestKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f web@example"

// newRealHosts is a Berth with such hosts, each with so many processors, and the images linux and panics.
func newRealHosts(t *testing.T, vcpu int64, names ...compute.HostID) *realHosts {
	g := guesttest.Need(t)
	h := &realHosts{
		rig:    newRig(t, kafkatest.Embedded(t)),
		dir:    guesttest.Folder(t),
		vcpu:   vcpu,
		agents: map[compute.HostID]*process{},
	}
	h.must(g.Image(filepath.Join(h.dir, "images/linux"), guesttest.Listen))
	h.must(g.Image(filepath.Join(h.dir, "images/panics"), guesttest.Panics))
	h.startQueues()
	h.startConductor("conductor")
	h.startAPI()
	for _, name := range names {
		h.agent(name)
		h.known(cell.SimulatedHost{ID: name})
	}
	return h
}

// totals is what each host says it has: far more than this machine, so that
// what the hosts see of each other's guests matters to none.
func (h *realHosts) totals() compute.Resources {
	return compute.Resources{compute.VCPU: h.vcpu, compute.MemoryMB: 65536, compute.DiskGB: 100}
}

// agent starts a host's agent, again if it was there before.
func (h *realHosts) agent(name compute.HostID) {
	h.t.Helper()
	machines := map[string]any{
		"dir": h.machines(name), "images": filepath.Join(h.dir, "images"),
		"machine": "pc", "accel": "tcg", "network": "none", "totals": h.totals(),
	}
	if h.minFree > 0 {
		machines["min_free"] = h.minFree
	}
	h.agents[name] = h.daemonOf(string(name), "agent", map[string]any{
		"host": name, "state": filepath.Join(h.data, "state-"+string(name)),
		"driver": map[string]any{"kind": "qemu", "qemu": machines},
	})
}

func (h *realHosts) machines(name compute.HostID) string { return filepath.Join(h.dir, string(name)) }

// pid is that of a machine's process.
func (h *realHosts) pid(name compute.HostID, id compute.InstanceID) int {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.machines(name), string(id), "pid"))
	h.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	h.must(err)
	return pid
}

// berth is what a user types, and what it prints.
func (h *realHosts) berth(args ...string) string {
	h.t.Helper()
	code, out, errs := ran(h.t, append(args, "--api", h.api, "--project", "p")...)
	if code != 0 {
		h.t.Fatalf("berth %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// prints waits until a console shows something so often.
func (h *realHosts) prints(id compute.InstanceID, what string, times int) string {
	h.t.Helper()
	console := ""
	h.poll(fmt.Sprintf("%s prints %q %d times", id, what, times), func() bool {
		code, out, errs := ran(h.t, "console", string(id), "--api", h.api, "--project", "p")
		// Exit code 7 is of what took too long: where guests are emulated an agent may be slower than a node waits, and so
		// may a node be that begins to listen for consoles.
		if code != 0 && code != 7 && !strings.Contains(errs, "; try again") {
			h.t.Fatalf("berth console %s: exit code %d: %s", id, code, errs)
		}
		console = out
		return strings.Count(console, what) >= times
	})
	return console
}

// stopped waits until an instance does not run for this reason.
func (h *realHosts) stopped(c *client.Client, id compute.InstanceID, why compute.ReasonCode) {
	h.t.Helper()
	h.poll(fmt.Sprintf("%s stopped: %s", id, why), func() bool {
		i, err := c.Instance(h.t.Context(), id)
		h.must(err)
		return i.Power == "stopped" && i.Stopped != nil && i.Stopped.Code == why
	})
}

// Four guests on two hosts, through whole Berth: each says its name on its console;
// they are stopped, started, rebooted, killed from outside; a machine that
// is not ours comes and goes; an agent is killed, and the one after it has
// the same processes. In the end nothing is left.
func TestRealGuests(t *testing.T) {
	t.Parallel()
	h := newRealHosts(t, 96, "alpha", "beta")
	c := h.as("p")
	tiny := compute.Flavor{
		Name:      "tiny",
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 128, compute.DiskGB: 1},
	}
	wide := compute.Flavor{
		Name:      "wide",
		Resources: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 128, compute.DiskGB: 1},
	}
	h.offer(c, nil, []compute.Flavor{tiny, wide})
	on := map[compute.InstanceID]compute.HostID{}
	var ids []compute.InstanceID
	for _, host := range []compute.HostID{"alpha", "beta"} {
		some := h.boot(c, 2, compute.Boot{
			Flavor: "tiny", Image: "linux", Host: host, Metadata: map[string]string{"role": "of " + string(host)},
			SSHKeys: []string{guestKey}, UserData: compute.UserData("#!/bin/sh\necho on " + string(host) + "\n"),
		})
		for _, id := range some {
			on[id] = host
		}
		ids = append(ids, some...)
	}
	h.await(ids, compute.StateActive)
	h.foreign(c)
	for _, id := range ids {
		console := h.prints(id, guesttest.Up, 1)
		for _, want := range []string{
			"BERTH instance " + string(id), `"instance-id":"` + string(id) + `"`, `"project":"p"`,
			`"role":"of ` + string(on[id]) + `"`,
			`"public-keys":["` + guestKey + `"]`, "BERTH user echo on " + string(on[id]),
		} {
			if !strings.Contains(console, want) {
				t.Errorf("the console of %s does not show %q:\n%s", id, want, console)
			}
		}
	}

	h.berth("stop", string(ids[0]), "--wait")
	h.stopped(c, ids[0], compute.StoppedByCommand)
	h.prints(ids[0], guesttest.Goodbye, 1)
	h.berth("reboot", string(ids[2]), "--hard", "--wait")
	h.must(syscall.Kill(h.pid("beta", ids[3]), syscall.SIGKILL))
	h.stopped(c, ids[3], compute.MachineKilled)
	if show := h.berth("show", string(ids[3])); !strings.Contains(show, "killed from outside") ||
		!strings.Contains(show, "stopped") {
		t.Errorf("of a machine that was killed berth says:\n%s", show)
	}
	h.berth("start", string(ids[0]), string(ids[3]), "--wait")

	// An agent dies; its machines do not.
	before := []int{h.pid("alpha", ids[0]), h.pid("alpha", ids[1])}
	h.agents["alpha"].kill()
	for _, pid := range before {
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("process %d went with the agent: %v", pid, err)
		}
	}
	h.agent("alpha")
	h.agents["alpha"].says("caught up")
	if after := []int{h.pid("alpha", ids[0]), h.pid("alpha", ids[1])}; !slices.Equal(before, after) {
		t.Errorf("processes %v before, %v after", before, after)
	}
	for _, id := range []compute.InstanceID{ids[0], ids[2], ids[3]} {
		h.prints(id, guesttest.Up, 2)
	}
	h.berth("stop", string(ids[1]), "--hard", "--wait") // the new agent commands what the old one started

	h.berth(append([]string{"delete", "--wait"}, texts(ids)...)...)
	h.nothingLeft(c)
}

// foreign starts a QEMU by hand. It is shown as used by others, and what does not
// fit beside it is not started as long as it is there.
func (h *realHosts) foreign(c *client.Client) {
	h.t.Helper()
	seen := func(what string, is func(client.Host) bool) (host client.Host) {
		h.t.Helper()
		h.poll(what, func() bool {
			var err error
			host, err = c.Host(h.t.Context(), "alpha")
			h.must(err)
			return is(host)
		})
		return host
	}
	seen("alpha almost alone", func(host client.Host) bool { return host.Unmanaged[compute.VCPU] < 50 })
	other := exec.Command(
		"qemu-system-x86_64",
		"-name",
		"by-hand",
		"-S",
		"-display",
		"none",
		"-nodefaults",
		"-machine",
		"pc,accel=tcg",
		"-smp",
		"90",
		"-m",
		"256M",
	)
	h.must(other.Start())
	defer func() {
		_ = other.Process.Kill() // it may have ended already
		_ = other.Wait()
	}()
	seen("a foreign QEMU", func(host client.Host) bool { return host.Unmanaged[compute.VCPU] >= 90 })
	show := h.berth("host", "show", "alpha")
	if !strings.Contains(show, "Not ours:") || !strings.Contains(show, "vCPU") {
		h.t.Errorf("berth host show says:\n%s", show)
	}

	wide := h.boot(c, 1, compute.Boot{Flavor: "wide", Image: "linux", Avoid: []compute.HostID{"beta"}})
	h.await(wide, compute.StateQueued)
	before := seen("any beacon", func(client.Host) bool { return true })
	seen("a later beacon", func(host client.Host) bool { return host.SaidAt.After(before.SaidAt) })
	if i, err := c.Instance(h.t.Context(), wide[0]); err != nil || i.State != "queued" {
		h.t.Errorf("beside a foreign QEMU of 90 processors, a boot of 8 on a host of 96 is %q: %v", i.State, err)
	}
	h.must(other.Process.Kill())
	_ = other.Wait() // killed, as told
	h.await(wide, compute.StateActive)
	h.delete(c, wide)
	h.await(wide, compute.StateDeleted)
}

// nothingLeft checks that no process, file, socket or reservation is left.
func (h *realHosts) nothingLeft(c *client.Client) {
	h.t.Helper()
	if left := guesttest.Below(h.t, h.dir); len(left) > 0 {
		h.t.Errorf("processes are left: %+v", left)
	}
	for name := range h.agents {
		for _, left := range guesttest.Left(h.t, h.machines(name)) {
			h.t.Errorf("%s has left %s", name, left)
		}
		h.poll(string(name)+" has everything free", func() bool {
			host, err := c.Host(h.t.Context(), name)
			h.must(err)
			return host.Machines == 0 && host.Building == 0 &&
				host.Free.Plus(host.Unmanaged).Equal(h.totals()) // others may run QEMU here, too
		})
	}
	h.unused(c)
}

func texts(ids []compute.InstanceID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// What cannot be built says why by its code, as any client sees it, and leaves
// nothing on any host.
func TestMachinesThatCannotBe(t *testing.T) {
	t.Parallel()
	// TestRealGuests runs at the same time, and these hosts see its QEMU of 90 processors as used by others.
	h := newRealHosts(t, 900, "alpha")
	h.must(os.WriteFile(filepath.Join(h.dir, "images/broken.qcow2"), []byte("no disk at all"), 0o644))
	h.must(guesttest.Sum(filepath.Join(h.dir, "images/broken.qcow2")))
	h.must(os.WriteFile(filepath.Join(h.dir, "images/other.raw"), make([]byte, 512), 0o644))
	h.must(
		os.WriteFile(
			filepath.Join(h.dir, "images/other.raw.sha256"),
			[]byte(strings.Repeat("0", 64)+"  other.raw\n"),
			0o644,
		),
	)
	h.minFree = 1 << 60
	h.agent("full")
	h.known(cell.SimulatedHost{ID: "full"})
	c := h.as("p")
	tiny := compute.Flavor{
		Name:      "tiny",
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 128, compute.DiskGB: 1},
	}
	huge := compute.Flavor{
		Name:      "huge",
		Resources: compute.Resources{compute.VCPU: 1000, compute.MemoryMB: 128, compute.DiskGB: 1},
	}
	h.offer(c, nil, []compute.Flavor{tiny, huge})
	cases := []struct {
		name string
		boot compute.Boot
		code compute.ReasonCode
		says string // in the reason or the last failure
	}{
		{
			"no image",
			compute.Boot{Flavor: "tiny", Image: "nowhere", Host: "alpha", Attempts: 1},
			compute.AttemptsExhausted,
			"nowhere",
		},
		{
			"broken image",
			compute.Boot{Flavor: "tiny", Image: "broken", Host: "alpha", Attempts: 1},
			compute.AttemptsExhausted,
			"broken",
		},
		{
			"wrong checksum",
			compute.Boot{Flavor: "tiny", Image: "other", Host: "alpha", Attempts: 1},
			compute.AttemptsExhausted,
			"SHA-256",
		},
		{
			"full disk",
			compute.Boot{Flavor: "tiny", Image: "linux", Host: "full", Attempts: 1},
			compute.AttemptsExhausted,
			"is full",
		},
		{
			"too large for the host",
			compute.Boot{Flavor: "huge", Image: "linux", Host: "alpha"},
			compute.PinnedHostUnavailable,
			"is free",
		},
		{
			"too large for all",
			compute.Boot{Flavor: "huge", Image: "linux", OnNoCapacity: compute.FailAtOnce},
			compute.NeverFits,
			"",
		},
	}
	var ids []compute.InstanceID
	for _, x := range cases {
		ids = append(ids, h.boot(c, 1, x.boot)...)
	}
	h.await(ids, compute.StateError)
	_, err := c.Instances(t.Context(), client.Filter{}) // so that the node has read what there is
	h.must(err)
	for n, x := range cases {
		i, err := c.Instance(t.Context(), ids[n])
		h.must(err)
		text := fmt.Sprint(i.Reason.Message, i.Failures)
		if i.Reason.Code != x.code || !strings.Contains(text, x.says) {
			t.Errorf("%s: %s, %s; want %s with %q", x.name, i.Reason.Code, text, x.code, x.says)
		}
	}
	panics := h.boot(c, 1, compute.Boot{Flavor: "tiny", Image: "panics", Host: "alpha"})
	h.poll("the panic is known", func() bool {
		i, err := c.Instance(t.Context(), panics[0])
		h.must(err)
		return i.Stopped != nil && i.Stopped.Code == compute.GuestPanicked
	})
	h.delete(c, panics)
	h.await(panics, compute.StateDeleted)
	h.nothingLeft(c)
}
