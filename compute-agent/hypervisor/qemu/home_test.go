// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// refused wants an error of the host that says something.
func (b *bench) refused(what string, err error, says string) {
	b.t.Helper()
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(err.Error(), says) {
		b.t.Errorf("%s answers %v, and should say %q", what, err, says)
	}
}

// A machines' folder that goes while machines run says nothing about them, whether there is another one of its name or
// none: no call takes it for empty, and none touches a process. Once it is back, so is all.
func TestFolderGoesWhileMachinesRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	b.up(one)
	other := spec("tiny")
	other.Instance = "00000000-0000-4000-8000-00000000000b"
	away := b.o.Dir + ".away"
	for name, there := range map[string]func() error{
		"no such file": func() error { return nil },
		"another":      func() error { return os.Mkdir(b.o.Dir, 0o700) },
	} {
		b.ok(os.Rename(b.o.Dir, away))
		b.ok(there())
		_, err := d.List(t.Context())
		b.refused("List", err, name)
		_, err = d.Inventory(t.Context())
		b.refused("Inventory", err, b.o.Dir)
		b.refused("Prepare", d.Prepare(t.Context(), other), b.o.Dir)
		b.refused("Launch", d.Launch(t.Context(), one, 1, "c"), b.o.Dir)
		b.refused("Start", d.Start(t.Context(), one), b.o.Dir)
		b.refused("Destroy", d.Destroy(t.Context(), one), b.o.Dir)
		if n := len(b.processes()); n != 1 {
			t.Errorf("%s: %d processes are left of one", name, n)
		}
		if left, _ := filepath.Glob(b.o.Dir + "/.*"); len(left) > 0 {
			t.Errorf("%s: %v was made", name, left)
		}
		_ = os.Remove(b.o.Dir)
		b.ok(os.Rename(away, b.o.Dir))
		if m := b.only(d); m.Power != compute.PowerRunning {
			t.Errorf("the folder is back, and List gives %+v", m)
		}
	}
}

// A machine whose record is lost is not taken for one that is gone, nor is its disk removed: there is no list, which
// says where to look, until somebody has put the record back or has it destroyed.
func TestRecordIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	record, disk := filepath.Join(d.dir(one), recordFile), filepath.Join(d.dir(one), prepare.DiskFile)
	b.ok(os.Rename(record, record+".away"))
	_, err := d.List(t.Context())
	b.refused("List", err, "has a disk and no "+recordFile)
	d = b.open()
	if _, err := os.Stat(disk); err != nil {
		t.Fatalf("an agent that starts does away with the disk of a machine that runs: %v", err)
	}
	b.ok(os.Rename(record+".away", record))
	if m := b.only(d); m.Power != compute.PowerRunning {
		t.Errorf("its record is back, and List gives %+v", m)
	}
	b.ok(os.Remove(disk))
	b.ok(os.Remove(record))
	_, err = d.List(t.Context())
	b.refused("List", err, "runs in "+d.dir(one))
	b.ok(d.Destroy(t.Context(), one))
	if list, err := d.List(t.Context()); err != nil || len(list) > 0 || len(b.processes()) > 0 {
		t.Errorf("destroyed, and List gives %+v, %v; processes %+v", list, err, b.processes())
	}
}
