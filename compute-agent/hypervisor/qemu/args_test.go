// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

var update = flag.Bool("update", false, "write the golden files")

// The command lines, one argument with its value a line, are reviewed as files.
func TestArgs(t *testing.T) {
	base := plan{ID: "00000000-0000-4000-8000-000000000001", Machine: "q35", Accel: "kvm", CPUs: 2, MemoryMB: 2048,
		Disk: true, Base: "/images/web.qcow2", Format: "qcow2", Network: "user"}
	direct := base
	direct.Base, direct.Format = "", ""
	direct.Machine, direct.Accel, direct.Disk, direct.Network = "pc", "tcg", false, "none"
	direct.Kernel, direct.Initrd, direct.Append = "/images/k/kernel", "/images/k/initrd", "console=ttyS0 a,b"
	open := base
	open.Network, open.Base = "user:open", "" // and from before the image was written down
	full := base
	full.Base, full.Format = "/odd,place/web.raw", "raw"
	full.Network, full.Devices, full.Nodes = "bridge:br0", []compute.PCIAddress{
		"0000:3b:00.1", "0000:3b:00.2",
	}, []int{0, 1}
	for name, c := range map[string]struct {
		plan plan
		dir  string
	}{
		"disk": {base, "/var/lib/berth/qemu/i"}, "kernel": {direct, "/var/lib/berth/qemu/i"}, "open": {open,
			"/var/lib/berth/qemu/i"}, "bridge-devices": {full, "/odd,place/i"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.ReplaceAll(strings.Join(c.plan.args(c.dir), "\n"), "\n-", "\x00")
			got = strings.ReplaceAll(strings.ReplaceAll(got, "\n", " "), "\x00", "\n-") + "\n"
			file := filepath.Join("testdata", "args", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the command line is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Whatever an image's parameters are, a machine's process is known for the machine's.
func TestParametersThatAreAnOption(t *testing.T) {
	for _, line := range []string{"-pidfile", "--pidfile", "-append", ""} {
		p := plan{ID: "00000000-0000-4000-8000-000000000001", Kernel: "/k/kernel", Initrd: "/k/initrd", Append: line}
		if !in(host.Process{Args: p.args("/d/i")}, "/d/i") {
			t.Errorf("with %q behind -append the process of the folder is not known for it", line)
		}
	}
}

// A machine that was made where the probe of KVM failed has KVM once the driver has it, and keeps it.
func TestAcceleratorAsItIsNow(t *testing.T) {
	for _, c := range []struct{ made, now, want string }{
		{"tcg", "tcg", "tcg"}, {"tcg", "kvm", "kvm"}, {"kvm", "kvm", "kvm"}, {"kvm", "tcg", "kvm"},
	} {
		d := &Driver{accel: c.now}
		if got := d.asNow(plan{Accel: c.made}).Accel; got != c.want {
			t.Errorf("made with %s on a host that has %s now, it runs on %s", c.made, c.now, got)
		}
	}
}
