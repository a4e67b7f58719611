package main

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/config"
)

// What is wrong with a real host is said with its key, and a simulated host's
// settings are of no matter then.
func TestQEMUSettings(t *testing.T) {
	daemon := agentDaemon()
	_, _, err := daemon.read(config.From{Set: []string{"host=h1", "driver.kind=qemu", "driver.fake.hosts=0"}})
	if err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	_, _, err = daemon.read(config.From{Set: []string{"host=h1", "driver.kind=qemu", "driver.qemu.machine=microvm", "driver.qemu.dir=here", "driver.qemu.network=tap"}})
	for _, key := range []string{"driver.qemu.machine", "driver.qemu.dir", "driver.qemu.network"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not refused: %v", key, err)
		}
	}
	_, _, err = daemon.read(config.From{Set: []string{"host=h1", "driver.kind=libvirt"}})
	if err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	_, _, err = daemon.read(config.From{Set: []string{"host=h1", "driver.kind=libvirt", "driver.libvirt.uri=xen:///", "driver.libvirt.socket=here", "driver.libvirt.network=tap", "driver.libvirt.dir=here", "driver.libvirt.traits=[a b]"}})
	for _, key := range []string{"driver.libvirt.uri", "driver.libvirt.socket", "driver.libvirt.network", "driver.libvirt.dir", "driver.libvirt.traits"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not refused: %v", key, err)
		}
	}
	_, _, err = daemon.read(config.From{Set: []string{"host=h1", "driver.kind=kvm"}})
	if err == nil || !strings.Contains(err.Error(), "driver.kind") {
		t.Errorf("an unknown driver: %v", err)
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
