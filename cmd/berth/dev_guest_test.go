// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// A guest of berth dev reaches no address of this host, of which the API is one that lets everybody do everything.
func TestGuestsOfDevAreClosedIn(t *testing.T) {
	o := cell.EverythingOptions{Data: t.TempDir()}
	if err := (devDriver{kind: "qemu", images: t.TempDir()}).choose(&o); err != nil {
		t.Fatal(err)
	}
	if got := o.QEMU.WithDefaults().Network; got != host.NetworkUser {
		t.Errorf("its driver is given the network %q, want %q", got, host.NetworkUser)
	}
}

// berth dev boots a real machine, which runs on when it ends; the next one with the
// same folder finds it, and deletes it. docs/REAL-HOST.md walks through this.
func TestDevOnQEMU(t *testing.T) {
	g := guesttest.Need(t)
	dir := guesttest.Folder(t)
	if err := g.Image(filepath.Join(dir, "i/linux")); err != nil {
		t.Fatal(err)
	}
	o := cell.EverythingOptions{Data: filepath.Join(dir, "d"), Listen: "127.0.0.1:0"}
	if err := (devDriver{kind: "qemu", images: filepath.Join(dir, "i")}).choose(&o); err != nil {
		t.Fatal(err)
	}
	o.QEMU.Accel, o.QEMU.Machine = "tcg", "pc"
	o.QEMU.Totals = compute.Resources{compute.VCPU: 64} // guests of another test that was killed count against it
	said := func(commands ...string) (all []string) {
		t.Helper()
		err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
			for _, line := range commands {
				code, out, errs := typed(ctx, append(strings.Fields(line), "--api", "http://"+address))
				if code != 0 {
					t.Errorf("berth %s: exit code %d: %s%s", line, code, out, errs)
				}
				all = append(all, out+errs)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	said("flavor add tiny --vcpus 1 --memory 128MiB --disk 1GiB",
		// Machines that others left on this host, and that have its processors, are said then.
		"boot --flavor tiny --name web --image linux --wait --timeout 3m")
	if all := guesttest.Below(t, dir); len(all) != 1 {
		t.Errorf("berth dev has ended, and of its one machine run %+v", all)
	} else if args := strings.Join(all[0].Args, " "); !strings.Contains(args, " user,id=net,restrict=on ") {
		t.Errorf("the guest reaches this host's loopback, and the API with it: %s", args)
	}
	after := said("reboot web --hard --wait", "show web", "host show host-01", "delete web --wait")
	if !strings.Contains(after[1], "running") || !strings.Contains(after[2], "ACCEL_TCG") {
		t.Errorf("the next berth dev says %q", after)
	}
	entries := guesttest.Left(t, o.QEMU.Dir)
	if all := guesttest.Below(t, dir); len(entries) != 0 || len(all) != 0 {
		t.Errorf("deleted, and %v is left, and %+v run", entries, all)
	}
}
