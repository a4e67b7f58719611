// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor/exec"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

// What is wrong with a host that a command runs is said with its key, before it
// starts or when it does.
func TestExecSettings(t *testing.T) {
	daemon := agentDaemon()
	with := func(set ...string) error {
		_, _, err := daemon.read(config.From{Set: append([]string{"host=h1", "driver.kind=exec"}, set...)})
		return err
	}
	if err := with("driver.exec.command=/opt/machines.sh,/var/lib/machines", "driver.fake.hosts=0"); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
	for key, set := range map[string]string{
		"driver.exec.command": "driver.exec.command=machines.sh",
		"driver.exec.timeout": "driver.exec.timeout=2h",
		"driver.exec.marks":   "driver.exec.marks=here",
	} {
		if err := with(set); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not refused: %v", key, err)
		}
	}
	if err := with(); err == nil || !strings.Contains(err.Error(), "driver.exec.command") {
		t.Errorf("without a command: %v", err)
	}
	o := cell.AgentOptions{Host: "h", State: t.TempDir()}
	err := cell.ExecAgent(cell.Cell{}, o, exec.Options{Command: []string{"/no/such/command"}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "driver.exec.command") ||
		compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("a command that is not there: %v", err)
	}
}

// What is wrong with a real host is said with its key, and a simulated host's
// settings are of no matter then.
func TestQEMUSettings(t *testing.T) {
	daemon := agentDaemon()
	_, _, err := daemon.read(config.From{Set: []string{"host=h1", "driver.kind=qemu", "driver.fake.hosts=0"}})
	if err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	_, _, err = daemon.read(
		config.From{
			Set: []string{
				"host=h1",
				"driver.kind=qemu",
				"driver.qemu.machine=microvm",
				"driver.qemu.dir=here",
				"driver.qemu.network=tap",
			},
		},
	)
	for _, key := range []string{"driver.qemu.machine", "driver.qemu.dir", "driver.qemu.network"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not refused: %v", key, err)
		}
	}
	_, _, err = daemon.read(config.From{Set: []string{"host=h1", "driver.kind=libvirt"}})
	if err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	_, _, err = daemon.read(
		config.From{
			Set: []string{
				"host=h1",
				"driver.kind=libvirt",
				"driver.libvirt.uri=xen:///",
				"driver.libvirt.socket=here",
				"driver.libvirt.network=tap",
				"driver.libvirt.dir=here",
				"driver.libvirt.traits=[a b]",
			},
		},
	)
	for _, key := range []string{
		"driver.libvirt.uri", "driver.libvirt.socket", "driver.libvirt.network", "driver.libvirt.dir",
		"driver.libvirt.traits",
	} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not refused: %v", key, err)
		}
	}
	_, _, err = daemon.read(config.From{Set: []string{"host=h1", "driver.kind=kvm"}})
	if err == nil || !strings.Contains(err.Error(), "driver.kind") {
		t.Errorf("an unknown driver: %v", err)
	}
}

// QEMU and qemu-img may be anywhere, as long as machines can be known by the name of their program.
func TestQEMUElsewhere(t *testing.T) {
	const binary, images = "/usr/libexec/qemu-kvm", "/opt/qemu-img"
	for kind, options := range map[string]func(driverConfig) host.Options{
		"qemu":    func(d driverConfig) host.Options { return d.QEMU.options().Options },
		"libvirt": func(d driverConfig) host.Options { return d.Libvirt.options().Options },
	} {
		at := "driver." + kind
		set := []string{"host=h1", "driver.kind=" + kind, at + ".image_binary=" + images}
		c, _, err := agentDaemon().read(config.From{Set: append(set, at+".binary="+binary)})
		if err != nil {
			t.Fatal(err)
		}
		if o := options(c.Driver); o.Binary != binary || o.ImageBin != images {
			t.Errorf("%s runs %q and %q, and was told %q and %q", kind, o.Binary, o.ImageBin, binary, images)
		}
		_, _, err = agentDaemon().read(config.From{Set: append(set, at+".binary=/bin/emulator")})
		if err == nil || !strings.Contains(err.Error(), at+".binary") {
			t.Errorf("%s: a program whose machines would not be found is not refused: %v", kind, err)
		}
	}
}

func TestDevDriver(t *testing.T) {
	for _, c := range []struct {
		driver devDriver
		data   string
		says   string
	}{
		{devDriver{kind: "fake"}, "", ""},
		{devDriver{kind: "qemu", images: "i"}, "d", ""},
		{devDriver{kind: "qemu", images: "i"}, "", "data"},
		{devDriver{kind: "qemu"}, "d", "images"},
		{devDriver{kind: "qemu", images: "i"}, strings.Repeat("d", 80), "shorter"},
		{devDriver{kind: "xen"}, "", "driver"},
	} {
		o := cell.EverythingOptions{Data: c.data, Hosts: cell.SimulatedHosts(3)}
		err := c.driver.choose(&o)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v with data %q: %v", c.driver, c.data, err)
		}
		if err == nil && (o.QEMU != nil) != (c.driver.kind == "qemu") {
			t.Errorf("%+v: %+v", c.driver, o)
		}
	}
}

// host.a_b cannot be made where host.a.b is: the host would be listed as enabled
// and never hear a word.
func TestHostNamesWhereAnAgentStarts(t *testing.T) {
	s := defaultAgentConfig()
	s.State = t.TempDir()
	check := func(host compute.HostID) error { s.Host = host; return s.check() }
	for _, good := range []compute.HostID{"a", "a.b", "a-b", "rack-1.host-02"} {
		if err := check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []compute.HostID{"a_b", "A", "a..b", "-a", ""} {
		err := check(bad)
		if compute.KindOf(err) != compute.KindInvalid ||
			!strings.Contains(fmt.Sprint(err), `host "`+string(bad)+`" is not valid; use 1 to 64`) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	j := journalOf(t, cell.AgentOptions{State: s.State, Host: "a_b"})
	if err := check("a_b"); err != nil {
		t.Errorf("its agent runs, and the next one says so: %v", err)
	}
	j.Close()
	// An older version let it in beside a.b: a journal was begun, and nothing ever came to it.
	if err := check("a_b"); compute.KindOf(err) != compute.KindInvalid ||
		!strings.Contains(fmt.Sprint(err), `host "a_b": has never heard anything`) ||
		!strings.Contains(fmt.Sprint(err), `"berth agent adopt" hands the folder of machines over`) {
		t.Errorf("a host that has a journal and has never worked: %v", err)
	}
	used(t, cell.AgentOptions{State: s.State, Host: "a_b"})
	if err := check("a_b"); err != nil {
		t.Errorf("a host that has worked under its name: %v", err)
	}
	if err := check("c_d"); err == nil {
		t.Error("c_d is let in by the journal of a_b")
	}
}

// What a daemon waits for is in its log once in a minute, however often it looks.
func TestReminder(t *testing.T) {
	var r reminder
	var said []int
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for second := 0; second <= 130; second += 2 {
		if r.due(start.Add(time.Duration(second) * time.Second)) {
			said = append(said, second)
		}
	}
	if diff := cmp.Diff([]int{0, 60, 120}, said); diff != "" {
		t.Error(diff)
	}
}

// Which hosts get work more often is a setting of each host's agent; emptier ones by default.
func TestWeigherSetting(t *testing.T) {
	daemon := agentDaemon()
	for given, want := range map[string]string{"": "spread", "spread": "spread", "pack": "pack"} {
		set := []string{"host=h1"}
		if given != "" {
			set = append(set, "weigher="+given)
		}
		if c, _, err := daemon.read(config.From{Set: set}); err != nil || c.Weigher != want {
			t.Errorf("given %q it is %q: %v", given, c.Weigher, err)
		}
	}
	_, _, err := daemon.read(config.From{Set: []string{"host=h1", "weigher=heavy"}})
	if err == nil || !strings.Contains(err.Error(), "weigher") || !strings.Contains(err.Error(), "pack") {
		t.Errorf("an unknown weigher: %v", err)
	}
}
