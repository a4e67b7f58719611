package qemu

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// Inventory counts processors, memory and room for disks, and lists the QEMU
// processes that are none of ours.
func (d *Driver) Inventory(ctx context.Context) (hypervisor.Inventory, error) {
	inv, err := d.inventory(ctx)
	return inv, classed(ctx, "inventory", err)
}

func (d *Driver) inventory(ctx context.Context) (hypervisor.Inventory, error) {
	var inv hypervisor.Inventory
	if ctx.Err() != nil {
		return inv, ctx.Err()
	}
	gb, err := d.diskGB()
	if err != nil {
		return inv, err
	}
	inv.Totals = compute.Resources{compute.VCPU: int64(runtime.NumCPU()), compute.MemoryMB: d.memoryMB(), compute.DiskGB: gb}
	for class, n := range d.o.Totals {
		inv.Totals[class] = n
	}
	inv.Reserved = d.o.Reserved.Clone()
	inv.Traits = slices.Concat(d.o.Traits, d.traits())
	slices.Sort(inv.Traits)
	inv.Traits = slices.Compact(inv.Traits)
	inv.Nodes, inv.Devices = d.nodes(), d.pci()
	inv.Unmanaged = compute.Resources{}
	all, err := d.scan()
	for _, p := range all {
		if d.owns(p) {
			continue
		}
		f := compute.Foreign{Name: guestName(p.args), PID: p.pid, Uses: uses(p.args)}
		inv.Foreign = append(inv.Foreign, f)
		inv.Unmanaged = inv.Unmanaged.Plus(f.Uses)
	}
	return inv, err
}

// owns says whether a process is in a folder of ours.
func (d *Driver) owns(p process) bool {
	return filepath.Dir(filepath.Dir(option(p.args, "pidfile"))) == d.o.Dir
}

// memoryMB is the host's memory; 0 if it does not say.
func (d *Driver) memoryMB() int64 {
	b, _ := os.ReadFile(filepath.Join(d.proc, "meminfo"))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb / 1024
		}
	}
	return 0
}

// diskGB is what is free and what our machines take: others' files on the same
// file system are not ours to give away.
func (d *Driver) diskGB() (int64, error) {
	free, _, err := d.room(d.o.Dir)
	if err != nil {
		return 0, err
	}
	ids, err := d.instances()
	for _, id := range ids {
		if info, err := os.Stat(filepath.Join(d.dir(id), diskFile)); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				free += s.Blocks * 512
			}
		}
	}
	return max(free-d.o.MinFree, 0) >> 30, err
}

// flags are the processor's abilities that are worth a trait.
func flags() []string {
	return []string{"aes", "avx", "avx2", "avx512f", "bmi2", "fma", "sha_ni", "sse4_2", "svm", "vmx"}
}

// traits are what guests find: the host's processor under KVM, an emulated one
// otherwise.
func (d *Driver) traits() []compute.Trait {
	if d.accel != "kvm" {
		return []compute.Trait{"ACCEL_TCG"}
	}
	has := []compute.Trait{"ACCEL_KVM"}
	b, _ := os.ReadFile(filepath.Join(d.proc, "cpuinfo"))
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "flags" {
			continue
		}
		there := strings.Fields(value)
		for _, f := range flags() {
			if slices.Contains(there, f) {
				has = append(has, compute.Trait("CPU_"+strings.ToUpper(f)))
			}
		}
		break
	}
	return has
}
