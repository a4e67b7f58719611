// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// What the agent's cgroup allows is what the host has for machines, unless the operator says another number.
func TestMemoryOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		limit  string
		totals compute.Resources
		others string // the arguments of another process
		want   int64
	}{
		"no limit":                     {"max\n", nil, "sleep", 8192},
		"a limit":                      {"1073741824\n", nil, "sleep", 1024},
		"a limit, beside others":       {"1073741824\n", nil, "qemu-system-x86_64\x00-m\x002048", 3072},
		"a limit, and others fill all": {"1073741824\n", nil, "qemu-system-x86_64\x00-m\x007680", 8192},
		"the operator's own":           {"1073741824\n", compute.Resources{compute.MemoryMB: 2048}, "sleep", 2048},
	} {
		h := host.Host{Proc: t.TempDir(), Sys: t.TempDir()}
		h.Room = func(string) (int64, int64, error) { return 1 << 40, 1 << 40, nil }
		for file, text := range map[string]string{
			filepath.Join(h.Proc, "self/cgroup"):                             "0::/berth-agent.service\n",
			filepath.Join(h.Proc, "7/cmdline"):                               c.others + "\x00",
			filepath.Join(h.Proc, "7/stat"):                                  "7 (qemu) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0",
			filepath.Join(h.Proc, "7/status"):                                "Uid:\t0\t0\t0\t0\n",
			filepath.Join(h.Proc, "meminfo"):                                 "MemTotal:  8388608 kB\n",
			filepath.Join(h.Sys, "fs/cgroup/berth-agent.service/memory.max"): c.limit,
		} {
			err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
			if err != nil {
				t.Fatal(err)
			}
		}
		d := withoutQEMU(t, h)
		d.o.Totals = c.totals
		inv, err := d.Inventory(t.Context())
		if got := inv.Totals[compute.MemoryMB]; got != c.want || err != nil {
			t.Errorf("%s: the host has %d MiB, %v; want %d", name, got, err, c.want)
		}
	}
}

// Of what a machine has written as much is offered again as it holds, which is off the offer already; of one whose flavor
// has no DISK_GB nothing.
func TestDisksOfTheHost(t *testing.T) {
	const id = compute.InstanceID("00000000-0000-4000-8000-000000000001")
	for holds, want := range map[int64]int64{0: 9, 1: 10} {
		h := host.Host{Proc: t.TempDir(), Sys: t.TempDir()}
		h.Room = func(string) (int64, int64, error) { return 10<<30 - 1<<19, 1 << 40, nil }
		d := withoutQEMU(t, h)
		var r record
		r.Machine.Instance, r.Machine.Resources = id, compute.Resources{compute.DiskGB: holds}
		err := errors.Join(os.Mkdir(d.dir(id), 0o700), save(d.dir(id), r),
			os.WriteFile(filepath.Join(d.dir(id), prepare.DiskFile), bytes.Repeat([]byte("x"), 1<<20), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		inv, err := d.Inventory(t.Context())
		if got := inv.Totals[compute.DiskGB]; got != want || err != nil {
			t.Errorf("beside a machine that holds %d GB machines may have %d, %v; want %d", holds, got, err, want)
		}
	}
}
