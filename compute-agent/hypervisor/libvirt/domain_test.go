// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/pkg/compute"
)

var update = flag.Bool("update", false, "write the golden files")

// The definitions are reviewed as files.
func TestDescribe(t *testing.T) {
	s := hypervisor.Spec{
		Instance: "00000000-0000-4000-8000-000000000001", Project: "shop", Attempt: 2, Claim: "c", Fence: 3,
		Resources: compute.Resources{compute.VCPU: 2, compute.MemoryMB: 2048, compute.DiskGB: 10, "CUSTOM_GPU": 1},
	}
	bare := s
	bare.Resources = compute.Resources{compute.VCPU: 1, compute.MemoryMB: 128}
	pci := s
	pci.Devices, pci.Nodes = []compute.PCIAddress{"0000:3b:00.1"}, []int{1}
	sys := t.TempDir()
	node := filepath.Join(sys, "devices/system/node/node1")
	if err := os.MkdirAll(node, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(node, "cpulist"), []byte("4-6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o     Options
		accel string
		spec  hypervisor.Spec
		img   image.Image
	}{
		"disk": {Options{}, "kvm", s, image.Image{Disk: "/i/web.qcow2", Format: "qcow2", Public: true}},
		"kernel": {
			Options{Options: host.Options{Machine: "pc", Network: "none", Dir: "/odd & <place>"}}, "tcg", bare,
			image.Image{Kernel: "/i/k/kernel", Initrd: "/i/k/initrd", Append: "console=ttyS0 a,b"},
		},
		"bridge": {
			Options{Options: host.Options{Network: "bridge:br0"}}, "kvm", pci,
			image.Image{Disk: "/i/web.raw", Format: "raw"},
		},
		"open": {Options{Options: host.Options{Network: "user:open"}}, "kvm", s, image.Image{}},
		"net": {
			Options{Options: host.Options{Network: "network:default"}}, "tcg", s,
			image.Image{Disk: "/i/web.raw", Format: "raw"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.o.Dir == "" {
				c.o.Dir = "/var/lib/berth/libvirt"
			}
			d := &Driver{
				o: c.o.defaults(), accel: c.accel, kind: map[string]string{"kvm": "kvm", "tcg": "qemu"}[c.accel],
				host: host.Host{Sys: sys},
			}
			got, err := d.describe(stampOf(c.spec, d.o.Dir), c.img)
			if err != nil {
				t.Fatal(err)
			}
			got += "\n"
			file := filepath.Join("testdata", "domains", name+".xml")
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
				t.Errorf("the definition is\n%s\nwant\n%s", got, want)
			}
		})
	}
}
