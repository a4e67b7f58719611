// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/pkg/compute"
)

// TestWhoseFaultAKernelIs, by what QEMU 10 says as it ends.
func TestWhoseFaultAKernelIs(t *testing.T) {
	kernel := image.Image{Kernel: "kernel"}
	for said, want := range map[string]struct {
		img   image.Image
		class compute.FailureClass // none: it stays as it is, and is the host's fault
		image bool
	}{
		"QEMU says: Error loading uncompressed kernel without PVH ELF Note":   {kernel, compute.FailureHost, true},
		"QEMU says: qemu: linux kernel too old to load a ram disk":            {kernel, compute.FailureHost, true},
		"QEMU says: qemu: could not load kernel 'kernel': Exec format error":  {kernel, compute.FailureHost, true},
		"process exited: qemu: initrd is too large, cannot support (max: 1)":  {kernel, compute.FailureRequest, false},
		"QEMU says: could not access KVM: Permission denied":                  {img: kernel},
		"QEMU says: cannot set up guest memory 'ram': Cannot allocate memory": {img: kernel},
		"QEMU says: linux kernel too old to load a ram disk":                  {img: image.Image{Disk: "disk"}},
	} {
		err := ofKernel("web", want.img, errors.New(said))
		var is *hypervisor.Error
		if !errors.As(err, &is) {
			is = &hypervisor.Error{}
		}
		if is.Class != want.class || is.Image != want.image {
			t.Errorf("%s: %v, of class %v, of the image: %t", said, err, is.Class, is.Image)
		}
	}
	if ofKernel("web", kernel, nil) != nil {
		t.Error("an error of none")
	}
	if given := hypervisor.Refuse("the kernel of this host"); ofKernel("web", kernel, given) != given {
		t.Error("the class that an error has is another one then")
	}
}

// TestMemoryHoldsTheKernel: what cannot be loaded anywhere is the request's own fault.
func TestMemoryHoldsTheKernel(t *testing.T) {
	file := func(name string, mib int64) string {
		path := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, mib<<20)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	img := image.Image{Kernel: file("kernel", 10), Initrd: file("initrd", 200)}
	var is *hypervisor.Error
	if err := holds("web", img, compute.Resources{compute.MemoryMB: 128}); !errors.As(err, &is) ||
		is.Class != compute.FailureRequest {
		t.Errorf("128 MiB hold 210: %v", err)
	}
	for _, ok := range []error{
		holds("web", img, compute.Resources{compute.MemoryMB: 256}),
		holds("web", image.Image{Disk: "disk"}, compute.Resources{compute.MemoryMB: 1}),
	} {
		if ok != nil {
			t.Error(ok)
		}
	}
}
