// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// onTestDriver is a driver on the hypervisor that libvirt has for tests: domains
// in the daemon's memory, one of them, "test", there from the first.
func onTestDriver(t *testing.T) (*Driver, *daemon) {
	b := newDaemon(t)
	o := Options{
		URI: "test:///default", Socket: b.socket(),
		Options: host.Options{Dir: filepath.Join(b.root, "m"), Accel: "tcg", Machine: "pc", Network: "none"},
	}
	d := &Driver{o: o.defaults(), accel: "tcg", kind: "test", host: host.This(), crash: hypervisor.NoCrash}
	b.ok(os.Mkdir(d.o.Dir, 0o700))
	var err error
	d.home, err = host.OpenFolder(d.o.Dir)
	b.ok(err)
	_, hangUp, err := d.connect(t.Context()) // its domains last as long as a connection
	b.ok(err)
	t.Cleanup(hangUp)
	return d, b
}

// What was written into a domain is read again, somebody else's domain is counted
// and left alone, and libvirt tells of changes.
func TestOnLibvirtsTestDriver(t *testing.T) {
	t.Parallel()
	d, b := onTestDriver(t)
	d.host.Room = func(string) (int64, int64, error) { return 10<<30 + d.o.MinFree - 1<<19, 1 << 40, nil }
	inv, err := d.Inventory(t.Context())
	b.ok(err)
	if i := slices.IndexFunc(
		inv.Foreign, func(f compute.Foreign) bool { return f.Name == "test" },
	); i < 0 || !inv.Foreign[i].Uses.Equal(compute.Resources{compute.VCPU: 2, compute.MemoryMB: 8192}) {
		t.Errorf("libvirt's own domain is not among %+v", inv.Foreign)
	}
	if inv.Totals[compute.VCPU] != 16 || inv.Totals[compute.MemoryMB] != 3072 {
		t.Errorf("libvirt says 16 processors and 3 GiB, and the inventory is %s", inv.Totals)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan hypervisor.Event, 100), make(chan error, 1)
	go func() { ended <- d.Events(ctx, func(e hypervisor.Event) { told <- e }) }()

	f := found{stamp: stampOf(spec("none"), d.o.Dir)}
	text, err := d.describe(f.stamp, image.Image{})
	b.ok(err)
	b.ok(d.short(t.Context(), func(c conn) error { f.domain, err = c.DomainDefineXMLFlags(text, 0); return err }))
	f.stamp.Ready, f.stamp.Launched, f.stamp.Boot = true, true, "a boot before"
	b.ok(d.save(t.Context(), f))
	list, err := d.List(t.Context())
	b.ok(err)
	if len(list) != 1 || list[0].Instance != one || list[0].Claim != "c" || !list[0].Launched ||
		!list[0].Resources.Equal(small) ||
		!strings.Contains(list[0].Detail, "the host was restarted") {
		t.Fatalf("List gives %+v", list)
	}
	b.ok(os.MkdirAll(d.dir(one), 0o700))
	b.ok(os.WriteFile(filepath.Join(d.dir(one), prepare.DiskFile), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	if inv, err := d.Inventory(t.Context()); err != nil || inv.Totals[compute.DiskGB] != 10 {
		t.Errorf("beside a machine that holds %s machines may have %s, %v", small, inv.Totals, err)
	}
	await := func(power compute.PowerState, again func()) {
		t.Helper()
		waits, cancel := hypervisortest.Waiting(t)
		defer cancel()
		for {
			again() // what happened before Events listened is never told
			select {
			case e := <-told:
				if e.Instance == one && e.Power == power {
					return
				}
			case <-waits.Done():
				t.Fatalf("no event says %s", power)
			default:
			}
		}
	}
	for range 2 {
		b.ok(d.Start(t.Context(), one))
	}
	await(compute.PowerRunning, func() { b.ok(d.Stop(t.Context(), one, 0)); b.ok(d.Start(t.Context(), one)) })
	for range 2 {
		b.ok(d.Stop(t.Context(), one, 0))
	}
	await(compute.PowerStopped, func() {})
	if list, _ := d.List(t.Context()); list[0].Power != compute.PowerStopped || !strings.Contains(
		list[0].Detail, "cut off",
	) {
		t.Errorf("stopped, and List gives %+v", list)
	}
	b.ok(d.Destroy(t.Context(), one))
	if list, err := d.List(t.Context()); len(list) != 0 {
		t.Errorf("destroyed, and List gives %+v, %v", list, err)
	}
	b.ok(d.short(t.Context(), func(c conn) error {
		dom, err := c.DomainLookupByName("test")
		if state, _, _ := c.DomainGetState(dom, 0); libvirt.DomainState(state) != libvirt.DomainRunning {
			t.Errorf("somebody else's domain is in state %d", state)
		}
		return err
	}))
	cancel()
	if err := hypervisortest.Receive(t, "the end of Events", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Events ended with %v", err)
	}
}

// A domain of Berth's that cannot be read is no answer: nobody knows what it is.
func TestUnreadableStamp(t *testing.T) {
	t.Parallel()
	d, b := onTestDriver(t)
	f := found{stamp: stampOf(spec("none"), d.o.Dir)}
	f.stamp.V = 2
	text, err := d.describe(f.stamp, image.Image{})
	b.ok(err)
	b.ok(d.short(t.Context(), func(c conn) error { _, err := c.DomainDefineXMLFlags(text, 0); return err }))
	_, err = d.List(t.Context())
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("List answers %v", err)
	}
	if err := d.Destroy(t.Context(), one); err == nil {
		t.Error("what cannot be read was destroyed")
	}
}

// A libvirt that is there and silent is given up: at once where nothing was asked
// of it yet and the caller has gone, and else with an error that says nothing of
// what it did.
func TestSilentLibvirt(t *testing.T) {
	t.Parallel()
	d, b := onTestDriver(t)
	c, hangUp, err := d.connect(t.Context())
	b.ok(err)
	defer hangUp()
	ctx, cancel := context.WithCancel(t.Context())
	err = d.call(ctx, func(c conn) error {
		b.freeze()
		cancel()
		_, err := c.ConnectGetLibVersion()
		return err
	})
	var e *hypervisor.Error
	if err = classed(t.Context(), "it", err); !errors.Is(err, errLost) || errors.As(err, &e) {
		t.Errorf("broken off in the middle it answers %v", err)
	}
	if _, err := d.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("List under an ended context answers %v", err)
	}
	b.thaw()
	if _, err := c.ConnectGetLibVersion(); err != nil {
		t.Errorf("another connection suffers: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	err = d.short(ctx, func(c conn) error {
		cancel()
		for range 100 {
			if _, err := c.ConnectGetLibVersion(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("a short call under a context that ended meanwhile answers %v", err)
	}
}

// libvirt's schema knows all that is written.
func TestDefinitionsAreValid(t *testing.T) {
	t.Parallel()
	b := newDaemon(t)
	o := Options{URI: session, Socket: b.socket()}
	d := &Driver{o: o.defaults(), accel: "tcg"}
	files, err := filepath.Glob("testdata/domains/*.xml")
	b.ok(err)
	if len(files) == 0 {
		t.Fatal("no definitions")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		b.ok(err)
		plain := strings.ReplaceAll(string(text), `<domain type="kvm"`, `<domain type="qemu"`)
		plain = strings.ReplaceAll(plain, "host-passthrough", "maximum")
		if err := d.short(
			t.Context(),
			func(c conn) error { _, err := c.DomainDefineXMLFlags(plain, libvirt.DomainDefineValidate); return err },
		); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := d.short(t.Context(), func(c conn) error {
		_, err := c.DomainDefineXMLFlags(
			strings.Replace(theirs, "<vcpu>", "<none/><vcpu>", 1), libvirt.DomainDefineValidate,
		)
		return err
	}); err == nil {
		t.Error("libvirt examines nothing")
	}
}
