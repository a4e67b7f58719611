// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// lossy has a machine on libvirt's own hypervisor for tests, and loses its definition.
type lossy struct {
	*Driver
	*daemon
	machine found
}

func newLossy(t *testing.T) lossy {
	d, b := onTestDriver(t)
	l := lossy{d, b, found{stamp: stampOf(spec("none"), d.o.Dir)}}
	text, err := d.describe(l.machine.stamp, image.Image{})
	b.ok(err)
	b.ok(d.short(t.Context(), func(c conn) error { l.machine.domain, err = c.DomainDefineXMLFlags(text, 0); return err }))
	b.ok(os.Mkdir(d.dir(one), 0o700))
	b.ok(os.WriteFile(filepath.Join(d.dir(one), prepare.DiskFile), []byte("x"), 0o600))
	l.machine.stamp.Ready, l.machine.stamp.Launched, l.machine.stamp.Boot = true, true, d.host.BootID()
	b.ok(d.save(t.Context(), l.machine))
	return l
}

func (l lossy) only() hypervisor.Machine {
	l.t.Helper()
	list, err := l.List(l.t.Context())
	l.ok(err)
	if len(list) != 1 || list[0].Instance != one || list[0].Claim != "c" || !list[0].Launched ||
		!list[0].Resources.Equal(small) {
		l.t.Fatalf("List gives %+v", list)
	}
	if _, err := os.Stat(filepath.Join(l.dir(one), prepare.DiskFile)); err != nil {
		l.t.Errorf("its disk: %v", err)
	}
	return list[0]
}

func (l lossy) loses() {
	l.t.Helper()
	l.ok(l.short(l.t.Context(), func(c conn) error { return c.DomainUndefineFlags(l.machine.domain, 0) }))
}

func (l lossy) has() bool {
	l.t.Helper()
	_, whose, err := l.find(l.t.Context(), one)
	l.ok(err)
	return whose == ours
}

// withoutMetadata is a definition as of somebody who knows nothing of Berth.
func withoutMetadata(t *testing.T, text string) string {
	t.Helper()
	before, rest, _ := strings.Cut(text, "<metadata>")
	_, after, found := strings.Cut(rest, "</metadata>")
	if !found {
		t.Fatalf("no metadata in %s", text)
	}
	return before + after
}

// A machine whose definition libvirt has lost is defined anew as it was last, and what is destroyed is not.
func TestLostDefinition(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	if info, err := os.Stat(l.copyOf(one)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	l.loses()
	if m := l.only(); m.Power != compute.PowerStopped || !l.has() {
		t.Errorf("lost, and List gives %+v", m)
	}
	l.ok(l.Start(t.Context(), one))
	l.ok(l.Stop(t.Context(), one, 0))
	l.only()
	l.loses()
	if m := l.only(); m.Why != compute.StoppedByCommand || !l.has() {
		t.Errorf("stopped and lost, and List gives %+v", m)
	}
	l.ok(l.Destroy(t.Context(), one))
	if list, err := l.List(t.Context()); len(list) != 0 || err != nil || l.has() {
		t.Errorf("destroyed, and List gives %+v, %v", list, err)
	}
	if _, err := os.Stat(l.dir(one)); err == nil {
		t.Error("destroyed, and its folder is there")
	}
}

// What was changed after the copy was made is not brought back.
func TestNoCopyIsOld(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	l.machine.stamp.Stopped = true
	l.ok(l.save(t.Context(), l.machine))
	if _, err := os.Stat(l.copyOf(one)); err == nil {
		t.Error("the stamp is another, and the copy is there")
	}
}

// A stamp that cannot be saved, since the definition is lost, costs no copy.
func TestSavedWhenItIsLost(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	l.loses()
	l.machine.stamp.Stopped = true
	if err := l.save(t.Context(), l.machine); !is(err, libvirt.ErrNoDomain) {
		t.Errorf("save answers %v", err)
	}
	if m := l.only(); m.Why == compute.StoppedByCommand || !l.has() {
		t.Errorf("then List gives %+v", m)
	}
}

// A copy that another agent let grow old is made again.
func TestOldCopyIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	l.machine.stamp.Stopped, l.machine.stamp.Code = true, compute.StoppedByCommand
	l.ok(l.short(t.Context(), func(c conn) error {
		return write(c, l.machine.domain, l.machine.stamp, libvirt.DomainAffectConfig)
	}))
	l.only()
	l.loses()
	if m := l.only(); m.Why != compute.StoppedByCommand {
		t.Errorf("List gives %+v", m)
	}
}

// A copy that cannot be read says nothing of the machine, so neither does List.
func TestCopyCannotBeRead(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	good, err := os.ReadFile(l.copyOf(one))
	l.ok(err)
	for what, bad := range map[string]string{
		"half":            string(good[:len(good)/2]),
		"another version": strings.Replace(string(good), ` v="1"`, ` v="2"`, 1),
		"another machine": strings.Replace(string(good), ` instance="0`, ` instance="1`, 1),
	} {
		l.ok(os.WriteFile(l.copyOf(one), []byte(bad), 0o600))
		l.loses()
		if list, err := l.List(t.Context()); err == nil || !strings.Contains(err.Error(), l.copyOf(one)) {
			t.Errorf("%s: List gives %+v, %v", what, list, err)
		}
		l.ok(os.WriteFile(l.copyOf(one), good, 0o600))
		l.only()
	}
}

// A copy that cannot be removed keeps no machine from being ended, and what may come back from it is not called gone.
func TestCopyCannotBeRemoved(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.ok(l.Start(t.Context(), one))
	l.ok(os.MkdirAll(filepath.Join(l.copyOf(one), "in the way"), 0o700))
	if err := l.Destroy(t.Context(), one); err == nil {
		t.Error("its copy is there, and it is called destroyed")
	}
	if f, _, err := l.find(t.Context(), one); err != nil || f.active() {
		t.Errorf("it runs: %+v, %v", f, err)
	}
	l.ok(l.Start(t.Context(), one))
	l.ok(l.Stop(t.Context(), one, 0))
	l.ok(os.RemoveAll(l.copyOf(one)))
	l.ok(l.Destroy(t.Context(), one))
}

// What runs is given once, whatever libvirt says of the copy.
func TestRunsWithoutItsDefinition(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.ok(l.Start(t.Context(), one))
	l.only()
	good, err := os.ReadFile(l.copyOf(one))
	l.ok(err)
	l.loses()
	l.ok(os.WriteFile(l.copyOf(one), bytes.Replace(good, []byte("<name>berth"), []byte("<name>other"), 1), 0o600))
	if m := l.only(); m.Power != compute.PowerRunning {
		t.Errorf("List gives %+v", m)
	}
}

// A machine that somebody has defined anew without Berth's part is not gone either.
func TestDefinedAnewWithoutItsMark(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	text, err := os.ReadFile(l.copyOf(one))
	l.ok(err)
	l.loses()
	bare := withoutMetadata(t, string(text))
	l.ok(l.short(t.Context(), func(c conn) error { _, err := c.DomainDefineXMLFlags(bare, 0); return err }))
	if m := l.only(); m.Power != compute.PowerUnknown || !strings.Contains(m.Detail, "virsh define "+l.copyOf(one)) {
		t.Errorf("List gives %+v", m)
	}
	l.ok(l.short(t.Context(), func(c conn) error { _, err := c.DomainDefineXMLFlags(string(text), 0); return err }))
	if m := l.only(); m.Power != compute.PowerStopped {
		t.Errorf("its part is there again, and List gives %+v", m)
	}
}

// What is lost and destroyed is not brought back by a List meanwhile.
func TestLostAndDestroyed(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	l.loses()
	meanwhile := 0
	l.crash = func(moment string) error {
		if moment == "lost" {
			meanwhile++
			_, err := l.List(t.Context())
			return err
		}
		return nil
	}
	l.ok(l.Destroy(t.Context(), one))
	if list, err := l.List(t.Context()); len(list) != 0 || err != nil || meanwhile == 0 {
		t.Errorf("lost, destroyed, and List gives %+v, %v; it was asked %d times meanwhile", list, err, meanwhile)
	}
}

// What libvirt does not take again is not gone: its disk is there.
func TestDefinitionIsNotTaken(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	l.loses()
	text, err := os.ReadFile(l.copyOf(one))
	l.ok(err)
	var other libvirt.Domain
	l.ok(l.short(t.Context(), func(c conn) error {
		theirs := strings.Replace(withoutMetadata(t, string(text)), "<uuid>0", "<uuid>1", 1)
		other, err = c.DomainDefineXMLFlags(theirs, 0)
		return err
	}))
	if m := l.only(); m.Power != compute.PowerUnknown || !strings.Contains(m.Detail, l.copyOf(one)) || l.has() {
		t.Errorf("another domain has its name, and List gives %+v", m)
	}
	l.ok(l.short(t.Context(), func(c conn) error { return c.DomainUndefineFlags(other, 0) }))
	if m := l.only(); m.Power != compute.PowerStopped || !l.has() {
		t.Errorf("no other has its name, and List gives %+v", m)
	}
}

// A machines' folder that is unmounted or covered says nothing about them: no call takes it for empty, none makes
// anything there, and none says of a machine that it is gone whose disk is still on the other file system.
func TestFolderGoesWhileLibvirtHasMachines(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	away := l.o.Dir + ".away"
	other := spec("none")
	other.Instance = "00000000-0000-4000-8000-00000000000b"
	for name, there := range map[string]func() error{
		"no such file": func() error { return nil },
		"another":      func() error { return os.Mkdir(l.o.Dir, 0o700) },
	} {
		l.ok(os.Rename(l.o.Dir, away))
		l.ok(there())
		_, listed := l.List(t.Context())
		_, counted := l.Inventory(t.Context())
		for what, err := range map[string]error{
			"List": listed, "Inventory": counted, "Prepare": l.Prepare(t.Context(), other),
			"Destroy": l.Destroy(t.Context(), one),
		} {
			var e *hypervisor.Error
			if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(err.Error(), name) {
				t.Errorf("%s answers %v, and should say %q", what, err, name)
			}
		}
		if left, _ := filepath.Glob(l.o.Dir + "/*"); len(left) > 0 || !l.has() {
			t.Errorf("%s: %v was made, or the domain was undefined", name, left)
		}
		_ = os.Remove(l.o.Dir)
		l.ok(os.Rename(away, l.o.Dir))
		l.only()
	}
}

// Where a machine runs and libvirt knows nothing of it, it is not defined beside what runs, nor are its files removed.
func TestRunsUnknownToLibvirt(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.only()
	l.loses()
	l.host.Proc = t.TempDir()
	l.ok(os.Mkdir(filepath.Join(l.host.Proc, "77"), 0o700))
	args := strings.Join([]string{"qemu-system-x86_64", "-blockdev", "filename=" + l.dir(one) + "/disk.qcow2", ""}, "\x00")
	l.ok(os.WriteFile(filepath.Join(l.host.Proc, "77/cmdline"), []byte(args), 0o600))
	stat := "77 (qemu) S" + strings.Repeat(" 1", 40) + "\n"
	l.ok(os.WriteFile(filepath.Join(l.host.Proc, "77/stat"), []byte(stat), 0o600))
	l.ok(os.WriteFile(filepath.Join(l.host.Proc, "77/status"), []byte("Uid:\t0\n"), 0o600))
	if m := l.only(); m.Power != compute.PowerUnknown || !strings.Contains(m.Detail, "kill 77") || l.has() {
		t.Errorf("it runs, and List gives %+v", m)
	}
	var e *hypervisor.Error
	err := l.Destroy(t.Context(), one)
	if !errors.As(err, &e) || e.Class != compute.FailureHost || !strings.Contains(err.Error(), "kill 77") {
		t.Errorf("it runs, and Destroy answers %v", err)
	}
	if m := l.only(); m.Power != compute.PowerUnknown {
		t.Errorf("Destroy refused, and List gives %+v", m)
	}
	if _, err := os.Stat(filepath.Join(l.dir(one), prepare.DiskFile)); err != nil {
		t.Errorf("it runs, and its disk: %v", err)
	}
	l.ok(os.RemoveAll(filepath.Join(l.host.Proc, "77")))
	l.ok(l.Destroy(t.Context(), one))
	if _, err := os.Stat(l.dir(one)); err == nil {
		t.Error("destroyed, and its folder is there")
	}
}

// A guest that is undefined while it runs, and ends, is started again.
func TestUndefinedWhileItRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, guesttest.Need(t))
	d := b.open()
	b.run(d, spec("tiny"))
	b.only(d)
	b.virsh("undefine", "berth-"+string(one))
	if m := b.only(d); m.Power != compute.PowerRunning {
		t.Errorf("undefined while it runs, and List gives %+v", m)
	}
	b.killed(one)
	if m := b.only(d); m.Power != compute.PowerStopped || m.Why != compute.MachineKilled {
		t.Errorf("then it ended, and List gives %+v", m)
	}
	b.virsh("undefine", "berth-"+string(one))
	if m := b.only(d); m.Power != compute.PowerStopped {
		t.Errorf("undefined when it had ended, and List gives %+v", m)
	}
	b.ok(d.Start(t.Context(), one))
	if m := b.only(d); m.Power != compute.PowerRunning {
		t.Errorf("started again, and List gives %+v", m)
	}
	b.ok(d.Destroy(t.Context(), one))
	if left := b.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
