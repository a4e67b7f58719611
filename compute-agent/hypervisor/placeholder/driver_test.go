// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
)

const (
	held    compute.InstanceID = "11111111-1111-4111-8111-111111111111"
	machine compute.InstanceID = "22222222-2222-4222-8222-222222222222"
)

func spec(id compute.InstanceID, a compute.Attempt) hypervisor.Spec {
	return hypervisor.Spec{
		Instance: id, Project: "p", Attempt: a, Claim: "c1", Fence: 3, Placeholder: id == held,
		Resources: compute.Resources{compute.VCPU: 2, compute.MemoryMB: 1024},
		Place:     compute.Place{Devices: []compute.PCIAddress{"0000:3b:00.1"}, Nodes: []int{1}},
	}
}

// open is a driver of a host, as each life of its agent opens it.
func open(t *testing.T, h *fake.Host, folder string) *Driver {
	t.Helper()
	d, err := Over(fake.NewDriver(h, fake.Options{}), folder, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newHost(t *testing.T) *fake.Host {
	h, err := fake.NewWorld().Host("h1", compute.Inventory{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != compute.FailureHost {
		t.Errorf("%v, and no refusal of the host", err)
	}
}

// What is held outlives the agent, with all that it holds; it is no machine of the driver below, and a machine is its
// alone.
func TestHeldAcrossLives(t *testing.T) {
	ctx, h, folder := t.Context(), newHost(t), filepath.Join(t.TempDir(), "h1.placeholders")
	d := open(t, h, folder)
	if d.Capabilities().Driver != "fake" || !d.Capabilities().Placeholders {
		t.Errorf("%+v", d.Capabilities())
	}
	must(t, d.Prepare(ctx, spec(held, 1)))
	must(t, d.Prepare(ctx, spec(held, 1))) // said twice
	must(t, d.Prepare(ctx, spec(held, 2))) // and anew: it was only prepared
	refused(t, d.Launch(ctx, held, 1, "c1"))
	must(t, open(t, h, folder).Launch(ctx, held, 2, "c1"))
	must(t, d.Launch(ctx, held, 2, "c1"))
	refused(t, d.Prepare(ctx, spec(held, 3)))
	must(t, d.Prepare(ctx, spec(machine, 1)))
	must(t, d.Launch(ctx, machine, 1, "c1"))

	d = open(t, h, folder)
	list, err := d.List(ctx)
	must(t, err)
	want := spec(held, 2).Machine()
	want.Launched, want.Verdict = true, hypervisor.Running("a placeholder: it holds room")
	if len(list) != 2 || cmp.Diff(want, list[0]) != "" || list[1].Instance != machine || list[1].Placeholder {
		t.Errorf("%+v", list)
	}
	if on := h.Machines(); len(on) != 1 || on[0].Instance != machine {
		t.Errorf("the driver below has %+v", on)
	}
	refused(t, d.Stop(ctx, held, 0))
	refused(t, d.Start(ctx, held))
	refused(t, d.Reboot(ctx, held, 0))
	must(t, d.Stop(ctx, machine, 0))
	must(t, d.Destroy(ctx, held))
	must(t, d.Destroy(ctx, held))
	must(t, d.Destroy(ctx, machine))
	if list, err = d.List(ctx); err != nil || len(list)+len(h.Machines()) > 0 {
		t.Errorf("left are %+v, %v", list, err)
	}
}

// Half of a note is none, and so is one that cannot be read: it is kept aside, with a warning, and all else is listed.
func TestDamagedNotes(t *testing.T) {
	ctx, h, folder := context.Background(), newHost(t), t.TempDir()
	half, file := filepath.Join(folder, string(held)+ending+unfinished), filepath.Join(folder, string(held)+ending)
	must(t, os.WriteFile(half, []byte("{"), 0o600))
	logged, logs := observer.New(zap.WarnLevel)
	d, err := Over(fake.NewDriver(h, fake.Options{}), folder, zap.New(logged))
	must(t, err)
	must(t, d.Prepare(ctx, spec(machine, 1)))
	if list, err := d.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("half of a note is still there: %v", err)
	}
	for n, damaged := range []string{"", "{", "{}", `{"v":1,"instance":"` + string(machine) + `"}`} {
		must(t, os.WriteFile(file, []byte(damaged), 0o600))
		list, err := d.List(ctx)
		aside, _ := filepath.Glob(file + ".damaged-*")
		if len(list) != 1 || err != nil || len(aside) != n+1 || logs.Len() != n+1 {
			t.Errorf("%q: listed are %+v, %v; aside are %q, after %d warnings", damaged, list, err, aside, logs.Len())
		}
		if kept, err := os.ReadFile(slices.Max(aside)); err != nil || string(kept) != damaged {
			t.Errorf("%q is kept as %q, %v", damaged, kept, err)
		}
	}
	must(t, os.WriteFile(file, []byte("{"), 0o600))
	refused(t, d.Launch(ctx, held, 1, "c1")) // it is not there
	must(t, os.WriteFile(file, []byte("{"), 0o600))
	must(t, d.Prepare(ctx, spec(held, 1)))
	if list, err := d.List(ctx); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// What a later version wrote is not damaged, and no answer: it could hold room.
func TestNotesOfALaterVersion(t *testing.T) {
	ctx, folder := context.Background(), t.TempDir()
	d, file := open(t, newHost(t), folder), filepath.Join(folder, string(held)+ending)
	must(t, os.WriteFile(file, []byte(`{"v":2,"instance":"`+string(held)+`"}`), 0o600))
	if list, err := d.List(ctx); err == nil {
		t.Errorf("it is listed as %+v", list)
	}
	refused(t, d.Launch(ctx, held, 1, "c1"))
	refused(t, d.Prepare(ctx, spec(held, 1)))
	info, err := os.Stat(folder)
	must(t, err)
	must(t, d.Destroy(ctx, held))
	must(t, d.Prepare(ctx, spec(held, 1)))
	note, err := os.Stat(file)
	must(t, err)
	if note.Mode().Perm() != 0o600 || info.Mode().Perm()&0o077 != 0 && info.Mode().Perm() != 0o755 {
		t.Errorf("the folder is %v, a note %v", info.Mode(), note.Mode())
	}
}

// A name that is no instance's is no file's either.
func TestNoFileOfAnotherName(t *testing.T) {
	ctx, d := context.Background(), open(t, newHost(t), t.TempDir())
	s := spec(held, 1)
	s.Instance = "../evil"
	var e *hypervisor.Error
	if err := d.Prepare(ctx, s); !errors.As(err, &e) || e.Class != compute.FailureRequest {
		t.Error(err)
	}
	must(t, d.Destroy(ctx, "../evil"))
}
