// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// tree is a host's /sys: files by path, "-> " in front of a link's target.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(content) > 3 && content[:3] == "-> " {
			err = os.Symlink(content[3:], path)
		} else {
			err = os.WriteFile(path, []byte(content+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestHardware(t *testing.T) {
	d := Host{Sys: tree(t, map[string]string{
		"devices/system/node/node0/cpulist":          "0-1,4",
		"devices/system/node/node0/meminfo":          "Node 0 MemFree: 5 kB\nNode 0 MemTotal:       2097152 kB",
		"devices/system/node/node10/cpulist":         "",
		"devices/system/node/node2/cpulist":          "2-3",
		"devices/system/node/node2/meminfo":          "garbage",
		"devices/system/node/possible":               "0,2,10",
		"bus/pci/devices/0000:3b:00.0/vendor":        "0x10de",
		"bus/pci/devices/0000:3b:00.0/device":        "0x2230",
		"bus/pci/devices/0000:3b:00.0/class":         "0x030200",
		"bus/pci/devices/0000:3b:00.0/numa_node":     "2",
		"bus/pci/devices/0000:3b:00.0/driver":        "-> ../../drivers/nvidia",
		"bus/pci/devices/0000:3b:00.4/physfn":        "-> ../0000:3b:00.0",
		"bus/pci/devices/0000:3b:00.4/vendor":        "0x10de",
		"bus/pci/devices/0000:3b:00.4/driver":        "-> ../../drivers/vfio-pci",
		"bus/pci/devices/0000:3b:00.4/iommu_group":   "-> ../../../kernel/iommu_groups/12",
		"bus/pci/devices/0000:5e:00.0/driver":        "-> ../../drivers/vfio-pci",
		"bus/pci/devices/0000:5e:00.1/physfn":        "-> ../0000:5e:00.0",
		"bus/pci/devices/0000:5e:00.1/driver":        "-> ../../drivers/vfio-pci",
		"bus/pci/devices/0000:3b:00.5/numa_node":     "-1",
		"bus/pci/devices/strange/vendor":             "0x1",
		"bus/pci/devices/0000:3b:00.5/device":        "garbage",
		"bus/pci/devices/0000:3b:00.0/physfn_broken": "",
	})}
	nodes := []compute.NUMANode{{ID: 0, CPUs: []int{0, 1, 4}, MemoryMB: 2048}, {ID: 2, CPUs: []int{2, 3}}, {ID: 10}}
	if diff := cmp.Diff(nodes, d.Nodes()); diff != "" {
		t.Error(diff)
	}
	devices := []compute.PCIDevice{
		{
			Address: "0000:3b:00.0", Vendor: 0x10de, Device: 0x2230, Class: 0x030200, Driver: "nvidia", Node: 2,
			InUse: true,
		},
		{Address: "0000:3b:00.4", Vendor: 0x10de, Parent: "0000:3b:00.0", Group: "12", Driver: "vfio-pci", Node: -1},
		{Address: "0000:3b:00.5", Node: -1},
		{Address: "0000:5e:00.0", Driver: "vfio-pci", Node: -1},
		{Address: "0000:5e:00.1", Parent: "0000:5e:00.0", Driver: "vfio-pci", Node: -1, Barred: true},
	}
	if diff := cmp.Diff(devices, d.PCI()); diff != "" {
		t.Error(diff)
	}
	for says, devices := range map[string][]compute.PCIAddress{
		"":                                       {"0000:3b:00.4"},
		"in use by the host's driver nvidia":     {"0000:3b:00.4", "0000:3b:00.0"},
		"with no driver":                         {"0000:3b:00.5"},
		"0000:5e:00.1 is a part of 0000:5e:00.0": {"0000:5e:00.1"},
		"0000:3b:00.6 is not on this host: lspci": {"0000:3b:00.6"},
	} {
		if err := d.Free(
			compute.Place{Devices: devices},
		); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, and should say %q", devices, err, says)
		}
	}
	if err := d.Free(compute.Place{Nodes: []int{7}}); err == nil || !strings.Contains(err.Error(), "NUMA nodes [7]") {
		t.Errorf("a node that is not there: %v", err)
	}
	if cpus, err := d.CPUs([]int{2, 10}); err != nil || !slices.Equal(cpus, []int{2, 3}) {
		t.Errorf("the processors of two nodes are %v (%v)", cpus, err)
	}
	none := Host{Sys: t.TempDir()}
	if none.Nodes() != nil || none.PCI() != nil {
		t.Errorf("a host without either has %v and %v", none.Nodes(), none.PCI())
	}
}
