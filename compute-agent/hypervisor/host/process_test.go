// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func TestUses(t *testing.T) {
	for line, want := range map[string]compute.Resources{
		"":                                {compute.VCPU: 1, compute.MemoryMB: 128},
		"-m 512":                          {compute.VCPU: 1, compute.MemoryMB: 512},
		"-m 512M -smp 4":                  {compute.VCPU: 4, compute.MemoryMB: 512},
		"-m 1.5G -smp 2,sockets=2":        {compute.VCPU: 2, compute.MemoryMB: 1536},
		"-m size=2g,slots=4 -smp cpus=3":  {compute.VCPU: 3, compute.MemoryMB: 2048},
		"-m 1500k -smp sockets=2,cores=3": {compute.VCPU: 6, compute.MemoryMB: 2},
		"-m 1T -m 64 --smp 2":             {compute.VCPU: 2, compute.MemoryMB: 64},
		"-m nonsense -smp nonsense":       {compute.VCPU: 1, compute.MemoryMB: 128},
		"-smp":                            {compute.VCPU: 1, compute.MemoryMB: 128},
	} {
		if got := uses(strings.Fields("/usr/bin/qemu-system-x86_64 " + line)); !got.Equal(want) {
			t.Errorf("%q uses %s, want %s", line, got, want)
		}
	}
}

func TestIsQEMU(t *testing.T) {
	for line, want := range map[string]bool{
		"/usr/bin/qemu-system-x86_64\x00-m\x00512\x00": true,
		"qemu-system-aarch64\x00":                      true,
		"/usr/libexec/qemu-kvm\x00":                    true,
		"qemu-img\x00create\x00":                       false,
		"grep\x00qemu-system-x86_64\x00":               false,
		"":                                             false,
	} {
		if got := isQEMU(splitArgs([]byte(line))); got != want {
			t.Errorf("%q is a QEMU: %t", line, got)
		}
	}
}

func TestStartTime(t *testing.T) {
	fields := " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 98765 1 2 3"
	for _, name := range []string{"(qemu-system-x86)", "(a) S 1 (b)"} {
		if got, err := startTime([]byte("42 " + name + fields)); err != nil || got != 98765 {
			t.Errorf("%s: started at %d, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (x) S 1", "42 (x"} {
		if _, err := startTime([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestGuestName(t *testing.T) {
	for line, want := range map[string]string{
		"-name web": "web", "-name guest=web,debug-threads=on": "web", "-name debug-threads=on": "", "": "",
	} {
		if got := guestName(strings.Fields("qemu-system-x86_64 " + line)); got != want {
			t.Errorf("%q names %q, want %q", line, got, want)
		}
	}
}

// What a guest finds of the processor it has under KVM alone.
func TestTraits(t *testing.T) {
	h := Host{Proc: t.TempDir()}
	cpuinfo := "processor\t: 0\nflags\t\t: fpu avx2 aes vmx\nbugs\t\t: none\n\nprocessor\t: 1\nflags\t\t: avx512f\n"
	if err := os.WriteFile(filepath.Join(h.Proc, "cpuinfo"), []byte(cpuinfo), 0o644); err != nil {
		t.Fatal(err)
	}
	for accel, want := range map[string][]compute.Trait{
		"kvm": {"ACCEL_KVM", "CPU_AES", "CPU_AVX2", "CPU_VMX"},
		"tcg": {"ACCEL_TCG"},
	} {
		if diff := cmp.Diff(want, h.Traits(accel)); diff != "" {
			t.Errorf("%s: %s", accel, diff)
		}
	}
}

// A process that is gone is left out; one that cannot be read, as where this process has no descriptor left, is not
// taken for gone.
func TestProcessesThatCannotBeRead(t *testing.T) {
	h := Host{Proc: t.TempDir()}
	put := func(name, text string) {
		file := filepath.Join(h.Proc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("7/cmdline", "qemu-system-x86_64\x00-S\x00")
	put("7/stat", "7 (qemu) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0")
	put("7/status", "Name:\tqemu\nUid:\t1000\t0\t0\t0\nGid:\t0\t0\t0\t0\n")
	put("8/cmdline", "qemu-system-x86_64\x00")
	put("9/comm", "gone")
	want := []Process{{PID: 7, Start: 4711, User: 1000, Args: []string{"qemu-system-x86_64", "-S"}}}
	if list, err := h.Processes(); err != nil || !cmp.Equal(list, want) {
		t.Errorf("there are %+v, %v", list, err)
	}
	put("10/cmdline", "anything\x00")
	put("10/stat", "10 (x) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4712 0")
	put("10/status", "Uid:\t1000\t1000\t1000\t1000\n")
	if list, err := h.ProcessesOf(1000); err != nil || len(list) != 2 {
		t.Errorf("of the user are %+v, %v", list, err)
	}
	if list, err := h.ProcessesOf(0); err != nil || len(list) != 0 {
		t.Errorf("of root are %+v, %v", list, err)
	}
	for _, bad := range []string{"", "Uid:", "Uid:\t\n", "Uid:\tx", "Name:\tUid: 1"} {
		if id, err := realUser([]byte(bad)); err == nil {
			t.Errorf("%q says that its user is %d", bad, id)
		}
	}
	if err := os.Mkdir(filepath.Join(h.Proc, "9/cmdline"), 0o755); err != nil {
		t.Fatal(err)
	}
	if list, err := h.Processes(); err == nil {
		t.Errorf("one cannot be read, and the list is %+v", list)
	}
}

func TestDevicesOfAProcess(t *testing.T) {
	p := Process{
		Args: []string{
			"qemu", "-device", "vfio-pci,host=3B:00.1,id=a", "-device", `{"driver":"vfio-pci","host":"0000:5e:00.0"}`,
			"-drive", "file=/0000:01:00.0",
		},
	}
	if diff := cmp.Diff([]compute.PCIAddress{"0000:3b:00.1", "0000:5e:00.0"}, p.Devices()); diff != "" {
		t.Error(diff)
	}
}
